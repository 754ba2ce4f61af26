//go:build linux || darwin

package host

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

	"github.com/rlx-go/rlx/internal/owned"
)

// A privateDir is the directory for one backend's sockets. It has mode 0700, belongs to this user, and is removed when
// the session ends. While the session lasts, the host holds a lock on a file next to it. If the lock is free, the next
// host knows that the directory is stale, even if the process number was reused.
type privateDir struct {
	path    string
	lock    *os.File
	ownRoot bool // the parent directory was created for this session alone
}

// maxSocketPath is the shortest limit of any system on sun_path, without its final zero, in bytes.
const maxSocketPath = 103

// socketTail is the length of what go-plugin appends: /plugin-dirNNNNNNNNNN/pluginNNNNNNNNNN.
const socketTail = 38

// newPrivateDir creates a directory under base or, if base is "", under the user's runtime or temporary directory. It
// also removes the directories that killed hosts have left there.
func newPrivateDir(base string) (*privateDir, error) {
	for range 100 {
		root, own, err := socketRoot(base)
		if err != nil {
			return nil, err
		}
		sweep(root)
		lock, err := os.CreateTemp(root, "s*.lock")
		if own && errors.Is(err, fs.ErrNotExist) {
			continue // another host removed the new root, still empty, as stale
		}
		if err != nil {
			if own {
				os.Remove(root)
			}
			return nil, err
		}
		// Another host's sweep may lock and remove the file before it is locked here. Then another file, or none, has
		// its name.
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

// remove deletes the directory and everything in it. Calling it twice is safe.
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
// because this process is out of descriptors, the lock file stays so that a later sweep finds the directory.
func removeLocked(path string, lock *os.File) {
	if os.RemoveAll(path) == nil {
		os.Remove(lock.Name())
	}
}

// socketRoot returns the directory that holds this user's private directories. Only this user can write to it. In a
// shared temporary directory another user may have taken the name. Then socketRoot creates a root for this session
// alone, and own reports that the session must remove it. It also removes such roots of killed hosts.
func socketRoot(base string) (root string, own bool, err error) {
	if base == "" {
		base = os.Getenv("XDG_RUNTIME_DIR")
		if st, err := os.Stat(base); base == "" || err != nil || !st.IsDir() || owned.Private(base) != nil {
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
			os.Remove(r) // fails if a host still uses it
		}
	}
	root, err = os.MkdirTemp(base, name+"-*")
	return root, true, err
}

// isPrivate reports whether path is a directory, not a symbolic link, that only this user can access.
func isPrivate(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}

// sweep removes the private directories in root that killed hosts have left.
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

// samePath reports whether f is still the file at its path.
func samePath(f *os.File) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(a, b)
}

// checkSocket checks that path is a socket of this user inside dir and not a symbolic link.
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
