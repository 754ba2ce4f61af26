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

// Exposed is a path through which any user could replace the file or directory at path: itself or a directory above it that everybody may
// write to, unless that is a sticky directory, such as /tmp, in which this user or root owns what leads to path. It is empty if there is
// none, or if path cannot be examined, which its use reports.
func Exposed(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return ""
	}
	ours := true // whether what leads from p to path belongs to this user or root
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

// foreign is a path in dir, or dir itself, that is loose; empty if there is none. With deep it looks at everything below, and otherwise at what is directly in dir.
func foreign(dir string, deep bool) (found string) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case loose(p):
			found = p
			return fs.SkipAll
		case p != dir && d.IsDir() && !deep:
			return fs.SkipDir
		}
		return nil // if it cannot be examined, its use reports that
	})
	return found
}

// loose reports that a group may write to a file or directory, or that it belongs to another user than this one and root.
func loose(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && (st.Mode().Type() != fs.ModeSymlink && st.Mode().Perm()&0o022 != 0 || !trusted(st))
}

// trusted reports that a file belongs to this user or root.
func trusted(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (int(sys.Uid) == os.Getuid() || sys.Uid == 0)
}

// tryLock locks f until it is closed, unless another process has the lock. A file system without locks has none.
func tryLock(f *os.File) bool {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR)
}
