//go:build linux || darwin

package rpc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A privateDir is the directory of one backend's sockets: mode 0700, ours, and gone when the session ends. Beside it
// lies a lock file that its host holds for as long as it lives, so that the next host can tell a stale directory (the
// lock is free) from one in use, whatever became of the process number.
type privateDir struct {
	path string
	lock *os.File
}

// maxSocketPath is sun_path less its final zero, on the strictest system.
const maxSocketPath = 103

// socketTail is what go-plugin adds: /plugin-dirNNNNNNNNNN/pluginNNNNNNNNNN.
const socketTail = 38

// newPrivateDir makes a directory under base (empty: the user's runtime directory or the temporary one) and removes
// those that dead hosts left there.
func newPrivateDir(base string) (*privateDir, error) {
	root, err := socketRoot(base)
	if err != nil {
		return nil, err
	}
	sweep(root)
	for range 100 {
		lock, err := os.CreateTemp(root, "s*.lock")
		if err != nil {
			return nil, err
		}
		// A sweeper may take the lock, and the file away, between the two calls: then ours is not at that path.
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !samePath(lock) {
			lock.Close()
			continue
		}
		d := &privateDir{strings.TrimSuffix(lock.Name(), ".lock"), lock}
		if err := os.Mkdir(d.path, 0o700); err != nil {
			d.remove()
			return nil, err
		}
		if len(d.path)+socketTail > maxSocketPath {
			d.remove()
			return nil, fmt.Errorf("%s is too long for a unix socket inside it; set TMPDIR to a shorter path", d.path)
		}
		return d, nil
	}
	return nil, fmt.Errorf("%s: no lock could be taken", root)
}

// remove deletes the directory and everything in it. It may be called twice.
func (d *privateDir) remove() {
	if d == nil || d.lock == nil {
		return
	}
	os.RemoveAll(d.path)
	os.Remove(d.lock.Name())
	d.lock.Close()
	d.lock = nil
}

// socketRoot is the directory that holds this user's private directories. One that somebody else could write to is
// never used: in a shared temporary directory the name may be taken.
func socketRoot(base string) (string, error) {
	if base == "" {
		base = os.Getenv("XDG_RUNTIME_DIR")
		if st, err := os.Stat(base); base == "" || err != nil || !st.IsDir() {
			base = os.TempDir()
		}
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return "", err
	}
	root := filepath.Join(base, "rlx-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if isPrivate(root) {
		return root, nil
	}
	return os.MkdirTemp(base, "rlx-")
}

// isPrivate reports a directory, not a link to one, that only we can use.
func isPrivate(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}

// sweep removes what hosts left that were killed.
func sweep(root string) {
	locks, _ := filepath.Glob(filepath.Join(root, "s*.lock"))
	for _, path := range locks {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && samePath(f) {
			os.RemoveAll(strings.TrimSuffix(path, ".lock"))
			os.Remove(path)
		}
		f.Close()
	}
}

// samePath reports whether f is still the file at its name.
func samePath(f *os.File) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(a, b)
}

// checkSocket accepts a socket of ours inside dir, and no link.
func checkSocket(path, dir string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is not a socket", path)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to another user", path)
	}
	real, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	want, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(want, real); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is outside %s", path, dir)
	}
	return nil
}
