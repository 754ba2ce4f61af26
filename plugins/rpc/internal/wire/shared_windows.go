package wire

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/windows"
)

// HaveShared is true, because this system can share a file by its handle, and makes no file shorter that is mapped.
const HaveShared = true

// newShared creates a file that can be shared by its handle. It has a name, but nobody else can open it, and the system
// deletes it with its last handle. The system keeps it in memory while there is enough. Only what is written takes
// space.
func newShared(name string) (*os.File, error) {
	path := filepath.Join(os.TempDir(), name+"-"+strconv.FormatUint(rand.Uint64(), 36))
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	const access = windows.GENERIC_READ | windows.GENERIC_WRITE
	h, err := windows.CreateFile(p, access, 0, nil, windows.CREATE_NEW,
		windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: path, Err: err}
	}
	var n uint32 // some file systems have no holes
	_ = windows.DeviceIoControl(h, windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil)
	return os.NewFile(uintptr(h), path), nil
}

// The system refuses to make a file shorter of which a process has a mapping, so nothing needs to be sealed: a mapping
// fails if the file is too short for it, and then keeps it.
func sealShrink(*os.File) error { return nil }
func sealShape(*os.File) error  { return nil }
func sealWrites(*os.File)       {}
func isSealed(*os.File) bool    { return true }
