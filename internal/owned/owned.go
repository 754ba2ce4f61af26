// Package owned finds out who else could change or replace a file that a program trusts: a cache, a plugin, an
// executable.
//
// A path is as trustworthy as every folder above it, because whoever can write to a folder can replace what is in it.
// The owner of a file or folder can always write to it. So every file, link and folder from the path up to the root
// must belong to this user, root, or the owner of the running executable, who can run programs as this user anyway. ssh
// treats its keys in a similar way. Access control lists are not looked at. On systems other than Linux and macOS,
// where modes do not show permissions, everything is trusted.
//
// The package imports nothing of this module.
package owned

import (
	"fmt"
	"io/fs"
	"path/filepath"
)

// A Problem is a file or folder through which others could change or replace a path. Its text reads "every user can
// write to PATH".
type Problem struct {
	Who  string // "every user", "group 50", "user 1001"
	Path string
	fix  string
}

func (p *Problem) Error() string { return fmt.Sprintf("%s can write to %s", p.Who, p.Path) }

// Fix returns a command that solves the problem: "chmod go-w PATH" or "chown USER PATH".
func (p *Problem) Fix() string { return p.fix }

// Private returns nil if nobody else can change the file or folder at path or replace it: nobody else may write to it,
// nor to the folders above it. A sticky folder above it, such as /tmp, may be open to all, because its entries cannot
// be replaced. The group of a folder above it may have write access if it is root's or has this user's number, as the
// group of a single user does. What cannot be examined is no problem, since using it fails, too.
func Private(path string) *Problem { return climb(path, false) }

// Program is Private for executables, which administrators of a machine may install and replace: groups may have write
// access to the file and the folders.
func Program(path string) *Problem { return climb(path, true) }

// Tree checks a folder and its direct entries, or everything below it if deep, but nothing above it. Nobody else may
// write to them.
func Tree(dir string, deep bool) (found *Problem) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case d == nil:
			return nil // using it will fail
		case p != dir && d.IsDir() && !deep:
			found = entry(p)
			if found == nil {
				return fs.SkipDir
			}
		default:
			found = entry(p)
		}
		if found != nil {
			return fs.SkipAll
		}
		return nil
	})
	return found
}
