//go:build linux || darwin

package owned

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const maxLinks = 40 // in one path, as in Linux

const everyone, group = 0o002, 0o020

// climb examines path and every folder above it. If one is a link, it also examines the link's target and the folders
// above that.
func climb(path string, groups bool) *Problem {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	links := 0
	var up func(p string, leaf bool) *Problem
	up = func(p string, leaf bool) *Problem {
		for ; ; p, leaf = filepath.Dir(p), false {
			st, err := os.Lstat(p)
			if err != nil {
				return nil
			}
			if found := examine(p, st, leaf, groups); found != nil {
				return found
			}
			if st.Mode()&fs.ModeSymlink != 0 {
				if links++; links > maxLinks {
					return nil
				}
				to, err := os.Readlink(p)
				if err == nil && !filepath.IsAbs(to) {
					var dir string
					dir, err = filepath.EvalSymlinks(filepath.Dir(p)) // ".." in a target is relative to the real folder
					to = filepath.Join(dir, to)
				}
				if err != nil {
					return nil
				}
				if found := up(filepath.Clean(to), leaf); found != nil {
					return found
				}
			}
			if p == filepath.Dir(p) {
				return nil
			}
		}
	}
	return up(path, true)
}

// entry examines a file or folder alone.
func entry(path string) *Problem {
	st, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	return examine(path, st, true, false)
}

// examine returns who else can write to a file or folder. leaf tells that it is trusted itself, and is not only a
// folder above such a file.
func examine(path string, st fs.FileInfo, leaf, groups bool) *Problem {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if uid := int(sys.Uid); uid != os.Getuid() && uid != 0 && uid != installer() {
		return &Problem{fmt.Sprintf("user %d", uid), path, fmt.Sprintf("chown %d %s", os.Getuid(), path)}
	}
	mode := st.Mode()
	if mode&fs.ModeSymlink != 0 || !leaf && mode&fs.ModeSticky != 0 {
		return nil
	}
	trusted := groups || !leaf && (sys.Gid == 0 || int(sys.Gid) == os.Getuid())
	switch bits := mode.Perm() & (everyone | group); {
	case bits&everyone != 0 && (trusted || bits&group == 0):
		return &Problem{"every user", path, "chmod o-w " + path}
	case bits&everyone != 0:
		return &Problem{"every user", path, "chmod go-w " + path}
	case bits != 0 && !trusted:
		return &Problem{fmt.Sprintf("group %d", sys.Gid), path, "chmod g-w " + path}
	}
	return nil
}

// installer returns the owner of the running executable, or this user if that is unknown.
var installer = sync.OnceValue(func() int {
	if exe, err := os.Executable(); err == nil {
		if st, err := os.Stat(exe); err == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok {
				return int(sys.Uid)
			}
		}
	}
	return os.Getuid()
})
