package regular

import (
	"io/fs"
	"syscall"
	"time"
)

func changeTime(st fs.FileInfo) time.Time {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(s.Ctim.Unix())
}

// place returns the device and inode of a file.
func place(st fs.FileInfo) (device, inode uint64, ok bool) {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return uint64(s.Dev), s.Ino, true
}
