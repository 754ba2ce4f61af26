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
	return time.Unix(s.Ctimespec.Unix())
}
