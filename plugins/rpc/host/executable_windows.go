package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// openToExecute opens a file that nobody can write to, rename or remove while it is open. So the file that is executed
// by its path is the one that was examined and hashed.
func openToExecute(path string) (*os.File, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	h, err := windows.CreateFile(p, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS, 0) // also opens folders, which MayExecute refuses
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

// MayExecute reports whether a file can be an executable, which its name says here.
func MayExecute(st fs.FileInfo) bool {
	return st.Mode().IsRegular() && strings.EqualFold(filepath.Ext(st.Name()), ".exe")
}

// checkReadOnly returns an error if f, whose handle a backend will inherit, is open for writing. Only then may even
// nothing be written to it.
func checkReadOnly(f *os.File) error {
	var n uint32
	if windows.WriteFile(windows.Handle(f.Fd()), nil, &n, nil) == nil {
		return fmt.Errorf("%s is open for writing; a backend gets read-only files", f.Name())
	}
	return nil
}
