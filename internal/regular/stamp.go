package regular

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Stamp holds the data that the file system records about an open file: its inode, size and times.
//
// It does not show these changes: a write within one tick of the file system's clock after the stamp was taken (up to
// 10 ms; never on Linux 6.13 and later, where file systems record finer times after a time was read), a write through a
// shared mapping whose page was already dirty, and writes that bypass the file system, to the disk or on the server of
// a network file system.
type Stamp struct {
	info    fs.FileInfo
	changed time.Time // ctime of the inode; unlike the modification time, no program can set it
}

// Change tells how a file differs from its stamp.
type Change int

const (
	Same Change = iota
	// the inode has changed, but not the size and modification time: by a rename, a new link, or a write that restores
	// the time
	Touched
	Changed // the file was written to
)

// StampOf returns the stamp of an open file.
func StampOf(f *os.File) (Stamp, error) {
	st, err := f.Stat()
	if err != nil {
		return Stamp{}, cause(err)
	}
	return Stamp{st, changeTime(st)}, nil
}

// Text returns the stamp as a line of text. Equal stamps have equal texts; other files have other texts, even earlier
// files at the same path. It is empty if the system does not report when an inode was changed.
func (s Stamp) Text() string {
	device, inode, ok := place(s.info)
	if !ok || s.changed.IsZero() {
		return ""
	}
	return fmt.Sprintf("device %d inode %d size %d modified %d changed %d", device, inode, s.Size(),
		s.info.ModTime().UnixNano(), s.changed.UnixNano())
}

// Settled reports whether the last change of the file was so long before t that any later change will get another time,
// however coarse the file system's clock is.
func (s Stamp) Settled(t time.Time) bool {
	return t.Sub(s.changed) > 2*time.Second && t.Sub(s.info.ModTime()) > 2*time.Second
}

// Size returns the size of the file in bytes.
func (s Stamp) Size() int64 { return s.info.Size() }

// Compare reports how a file changed from stamp s to stamp t.
func (s Stamp) Compare(t Stamp) Change {
	switch {
	case !os.SameFile(s.info, t.info) || s.info.Size() != t.info.Size() || !s.info.ModTime().Equal(t.info.ModTime()):
		return Changed
	case !s.changed.Equal(t.changed):
		return Touched
	}
	return Same
}
