package serve

import (
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// The host executes a backend through a descriptor, of which the kernel takes the process's name: "7". ps, top and
// pidof show that name, so init sets it to the file's. It runs on the process's first thread, which has the name.
func init() {
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		return
	}
	if name, err := unix.BytePtrFromString(filepath.Base(os.Args[0])); err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0) // the kernel takes the first 15 bytes
	}
}
