//go:build linux || darwin

package regular

import (
	"io/fs"
	"syscall"
)

// place returns the device and inode of a file.
func place(st fs.FileInfo) (device, inode uint64, ok bool) {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return uint64(s.Dev), s.Ino, true
}
