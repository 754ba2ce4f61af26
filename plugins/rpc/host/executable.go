//go:build linux || darwin || windows

package host

import (
	"crypto/subtle"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rlx-go/rlx/core/code"
)

// openBackend opens the file that will be executed. The same open file is examined, hashed and executed, so replacing
// the file at the path in between has no effect. If opts has a digest and the system supports sealed memory, the file
// is first copied to it. Otherwise the file could be overwritten in place after it is hashed.
func openBackend(name, path string, opts Options) (*os.File, error) {
	f, err := openToExecute(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, lost(code.NotPlugin, name, "%s: there is no such file", path)
	case err != nil:
		return nil, lost(code.NotPlugin, name, "%s cannot be opened: %w", path, errors.Unwrap(err))
	}
	st, err := f.Stat()
	if err == nil && !MayExecute(st) {
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
