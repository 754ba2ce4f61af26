//go:build linux || darwin

package host

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/code"
)

// openBackend opens the file that will be executed. The same open file is examined, hashed and executed, so replacing
// the file at the path in between has no effect. If opts has a digest and the system supports sealed memory, the file
// is first copied to it. Otherwise the file could be overwritten in place after it is hashed.
func openBackend(name, path string, opts Options) (*os.File, error) {
	// without O_NONBLOCK, opening a FIFO would block until it has a writer
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, lost(code.NotPlugin, name, "%s: there is no such file", path)
	case err != nil:
		return nil, lost(code.NotPlugin, name, "%s cannot be opened: %w", path, errors.Unwrap(err))
	}
	st, err := f.Stat()
	if err == nil && (!st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0) {
		f.Close()
		return nil, lost(code.NotPlugin, name, "%s is not an executable file (mode %v)", path, st.Mode())
	}
	if err != nil {
		f.Close()
		return nil, lost(code.NotPlugin, name, "%s cannot be examined: %w", path, err)
	}
	if !opts.pinned() {
		return f, nil
	}
	run, sum, err := sealedCopy(f, filepath.Base(path))
	if err != nil {
		f.Close()
		return nil, lost(code.Host, name, "%s cannot be copied for execution: %w", path, err)
	}
	if run != f {
		f.Close()
	}
	if subtle.ConstantTimeCompare(sum, opts.SHA256[:]) != 1 {
		run.Close()
		return nil, lost(code.Digest, name, "%s has SHA-256 %x; want %x", path, sum, opts.SHA256)
	}
	return run, nil
}

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
