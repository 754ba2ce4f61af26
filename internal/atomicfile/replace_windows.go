package atomicfile

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// newTemp creates the file name, which must not exist, with the right to rename it while it is open.
func newTemp(name string) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	const access = windows.GENERIC_READ | windows.GENERIC_WRITE | windows.DELETE
	h, err := windows.CreateFile(path, access, windows.FILE_SHARE_READ, nil, windows.CREATE_NEW,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

// replace gives f, which is called temp, the name path. It renames the open file, so that f is never closed and
// without its final name, when another process could remove it.
func replace(f *os.File, temp, path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	const posix = windows.FILE_RENAME_REPLACE_IF_EXISTS | windows.FILE_RENAME_POSIX_SEMANTICS |
		windows.FILE_RENAME_IGNORE_READONLY_ATTRIBUTE
	err = rename(f, full, windows.FileRenameInfoEx, posix)
	for _, unknown := range []error{windows.ERROR_INVALID_PARAMETER, windows.ERROR_NOT_SUPPORTED,
		windows.ERROR_INVALID_FUNCTION, windows.ERROR_CALL_NOT_IMPLEMENTED} {
		if errors.Is(err, unknown) { // an older system, or another file system than NTFS
			err = rename(f, full, windows.FileRenameInfo, windows.FILE_RENAME_REPLACE_IF_EXISTS)
			break
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: temp, New: path, Err: err}
	}
	return nil
}

// rename calls SetFileInformationByHandle with a FILE_RENAME_INFO: flags, a handle, the length of the name in bytes,
// and the name.
func rename(f *os.File, full string, class uint32, flags uint32) error {
	name, err := windows.UTF16FromString(full)
	if err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint32(nil, flags)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(2*(len(name)-1)))
	for _, c := range name {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return windows.SetFileInformationByHandle(windows.Handle(f.Fd()), class, &b[0], uint32(len(b)))
}

// reclaim removes a temporary file that no process is writing. Windows does not remove an open file.
func reclaim(name string) { os.Remove(name) }
