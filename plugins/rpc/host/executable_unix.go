//go:build linux || darwin

package host

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openToExecute opens a file. Without O_NONBLOCK, opening a FIFO would block until it has a writer.
func openToExecute(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// MayExecute reports whether a file can be an executable.
func MayExecute(st fs.FileInfo) bool { return st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 }

// checkReadOnly returns an error if f, whose descriptor a backend will inherit, is open for writing.
func checkReadOnly(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags&unix.O_ACCMODE != unix.O_RDONLY {
		return fmt.Errorf("%s is open for writing; a backend gets read-only files", f.Name())
	}
	return nil
}
