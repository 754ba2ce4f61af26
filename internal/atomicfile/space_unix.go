//go:build linux || darwin

package atomicfile

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeSpace returns the bytes that the file system of path's folder has left. ok is false if it does not say.
func freeSpace(path string) (bytes int64, ok bool) {
	var st unix.Statfs_t
	if unix.Statfs(filepath.Dir(path), &st) != nil || st.Blocks == 0 {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
