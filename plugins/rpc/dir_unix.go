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

// A privateDir is the directory of one backend's sockets: mode 0700, owned by this user, and removed when the
// session ends. The host holds a lock file beside it, so that the next host can distinguish a stale directory (the lock is free)
// from one in use, even if the process number was reused.
type privateDir struct {
	path    string
	lock    *os.File
	ownRoot bool // its parent directory was made for it alone
}

// maxSocketPath is sun_path less its final zero, on the strictest system.
const maxSocketPath = 103

// socketTail is what go-plugin adds: /plugin-dirNNNNNNNNNN/pluginNNNNNNNNNN.
const socketTail = 38

// newPrivateDir makes a directory under base (if empty, the user's runtime directory or the temporary one) and removes
// those that dead hosts have left there.
func newPrivateDir(base string) (*privateDir, error) {
	for range 100 {
		root, own, err := socketRoot(base)
		if err != nil {
			return nil, err
		}
		sweep(root)
		lock, err := os.CreateTemp(root, "s*.lock")
		if own && errors.Is(err, fs.ErrNotExist) {
			continue // another host took the new root, still empty, for a stale one
		}
		if err != nil {
			if own {
				os.Remove(root)
			}
			return nil, err
		}
		// A sweeper may take the lock, and the file away, between the two calls: then ours is not at that path.
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !samePath(lock) {
			lock.Close()
			continue
		}
		d := &privateDir{strings.TrimSuffix(lock.Name(), ".lock"), lock, own}
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
	return nil, fmt.Errorf("%s: no private directory could be made", base)
}

// remove deletes the directory and everything in it. It may be called twice.
func (d *privateDir) remove() {
	if d == nil || d.lock == nil {
		return
	}
	removeLocked(d.path, d.lock)
	d.lock.Close()
	d.lock = nil
	if d.ownRoot {
		os.Remove(filepath.Dir(d.path))
	}
}

// removeLocked deletes a private directory and then its lock file. If the directory cannot be deleted, for instance
// because this process is out of descriptors, the file stays, so that a later sweep finds the directory.
func removeLocked(path string, lock *os.File) {
	if os.RemoveAll(path) == nil {
		os.Remove(lock.Name())
	}
}

// socketRoot is the directory that holds this user's private directories. One that somebody else could write to is
// never used: in a shared temporary directory somebody else may have taken the name. Then the root is made for this session
// alone, which removes it (own). Such roots of killed hosts are removed here.
func socketRoot(base string) (root string, own bool, err error) {
	if base == "" {
		base = os.Getenv("XDG_RUNTIME_DIR")
		if st, err := os.Stat(base); base == "" || err != nil || !st.IsDir() {
			base = os.TempDir()
		}
	}
	if base, err = filepath.Abs(base); err != nil {
		return "", false, err
	}
	name := "rlx-" + strconv.Itoa(os.Getuid())
	root = filepath.Join(base, name)
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, err
	}
	if isPrivate(root) {
		return root, false, nil
	}
	stale, _ := filepath.Glob(root + "-*")
	for _, r := range stale {
		if isPrivate(r) {
			sweep(r)
			os.Remove(r) // unless a host uses it
		}
	}
	root, err = os.MkdirTemp(base, name+"-*")
	return root, true, err
}

// isPrivate reports whether path is a directory, not a link to one, that only this user can access.
func isPrivate(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}

// sweep removes what killed hosts have left.
func sweep(root string) {
	locks, _ := filepath.Glob(filepath.Join(root, "s*.lock"))
	for _, path := range locks {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && samePath(f) {
			removeLocked(strings.TrimSuffix(path, ".lock"), f)
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
