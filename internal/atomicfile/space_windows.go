package atomicfile

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// freeSpace returns the bytes that the file system of path's folder has left. ok is false if it does not say.
func freeSpace(path string) (bytes int64, ok bool) {
	dir, err := windows.UTF16PtrFromString(filepath.Dir(path))
	var free uint64
	if err != nil || windows.GetDiskFreeSpaceEx(dir, &free, nil, nil) != nil {
		return 0, false
	}
	return int64(free), true
}
