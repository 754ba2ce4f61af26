//go:build linux || darwin

package installed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exposed returns a path through which any user could replace the file or directory at path: path itself, or a directory above it, that everybody may write
// to. A sticky directory, such as /tmp, is allowed if this user or root owns the next element of path. Exposed returns "" if there is none, or if path
// cannot be examined; using path then fails anyway.
func Exposed(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return ""
	}
	ours := true // whether this user or root owns the element between p and path
	for p := real; ; p = filepath.Dir(p) {
		st, err := os.Stat(p)
		if err != nil {
			return ""
		}
		if st.Mode().Perm()&0o002 != 0 && !(st.IsDir() && st.Mode()&fs.ModeSticky != 0 && ours) {
			return p
		}
		if p == filepath.Dir(p) {
			return ""
		}
		ours = trusted(st)
	}
}

// foreign returns dir, or a path in it, for which loose is true; "" if there is none. It checks everything below dir if deep, else only its direct entries.
func foreign(dir string, deep bool) (found string) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case loose(p):
			found = p
			return fs.SkipAll
		case p != dir && d.IsDir() && !deep:
			return fs.SkipDir
		}
		return nil // using it will fail
	})
	return found
}

// loose reports whether a file or directory is writable for its group or others, or belongs to a user other than this one and root.
func loose(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && (st.Mode().Type() != fs.ModeSymlink && st.Mode().Perm()&0o022 != 0 || !trusted(st))
}

// trusted reports whether a file belongs to this user or root.
func trusted(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (int(sys.Uid) == os.Getuid() || sys.Uid == 0)
}

// tryLock locks f until it is closed. It returns false if another process has the lock. On a file system without locks it returns true.
func tryLock(f *os.File) bool {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR)
}
