package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// fitsSocket does nothing: the directory has no socket here.
func fitsSocket(string) error { return nil }

// removeLock removes the file of a lock that this process holds. A file that is open cannot be removed.
func removeLock(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// socketRoot returns the directory that holds this user's private directories. The temporary directory is the user's
// own here, with rights that its files inherit.
func socketRoot(base string) (root string, own bool, err error) {
	if base == "" {
		base = os.TempDir()
	}
	if base, err = filepath.Abs(base); err != nil {
		return "", false, err
	}
	root = filepath.Join(base, "rlx")
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, err
	}
	return root, false, nil
}

// checkSocket does nothing: an address has no file. TLS authenticates the process.
func checkSocket(string, string) error { return nil }
