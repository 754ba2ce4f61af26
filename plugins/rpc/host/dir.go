//go:build linux || darwin || windows

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx/internal/filelock"
)

// A privateDir is the directory for one backend's sockets. It has mode 0700, belongs to this user, and is removed when
// the session ends. While the session lasts, the host holds a lock on a file next to it. If the lock is free, the next
// host knows that the directory is stale, even if the process number was reused.
type privateDir struct {
	path    string
	lock    *os.File
	ownRoot bool // the parent directory was created for this session alone
}

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
		// Another host's sweep may lock and remove the file before this host locks it. The name then belongs to another
		// file or to no file.
		if filelock.Try(lock) != nil || !samePath(lock) {
			lock.Close()
			continue
		}
		d := &privateDir{strings.TrimSuffix(lock.Name(), ".lock"), lock, own}
		if err := os.Mkdir(d.path, 0o700); err != nil {
			d.remove()
			return nil, err
		}
		if err := fitsSocket(d.path); err != nil {
			d.remove()
			return nil, err
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
		removeLock(lock)
	}
}

// sweep removes the private directories in root that killed hosts have left.
func sweep(root string) {
	locks, _ := filepath.Glob(filepath.Join(root, "s*.lock"))
	for _, path := range locks {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if filelock.Try(f) == nil && samePath(f) {
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
