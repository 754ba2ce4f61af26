package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// createUnnamed creates a file without a name in dir, or returns nil if that is not possible. See O_TMPFILE in open(2).
func createUnnamed(dir string) *os.File {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o666)
	if err != nil {
		return nil
	}
	// linkTemp needs /proc, so check for it now.
	a, aerr := f.Stat()
	b, berr := os.Stat(inProc(f))
	if aerr != nil || berr != nil || !os.SameFile(a, b) {
		f.Close()
		return nil
	}
	return f
}

func inProc(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// linkTemp gives a file made by createUnnamed a temporary name in dir.
func linkTemp(f *os.File, dir string) (name string, err error) {
	for range retries {
		name := tempName(dir)
		err := unix.Linkat(unix.AT_FDCWD, inProc(f), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
	return "", errNoName
}
