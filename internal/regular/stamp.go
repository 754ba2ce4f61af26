package regular

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Stamp is what the file system records about an open file: its inode, size and times.
//
// What it does not show: a write within one tick of the file system's clock after the stamp was taken (up to 10 ms; none
// on Linux 6.13 and later, whose file systems keep finer times once they have been read), a write through a shared mapping
// whose page was dirty already, and writes past the file system, to the disk or on the server of a network file system.
type Stamp struct {
	info    fs.FileInfo
	changed time.Time // of the inode; unlike the time of modification, no program can set it
}

// Change is how a file differs from its stamp.
type Change int

const (
	Same    Change = iota
	Touched        // the inode changed, but not its size nor its time of modification: by a rename, a new link, or a write with the time set back
	Changed        // written to
)

// StampOf is the stamp of an open file.
func StampOf(f *os.File) (Stamp, error) {
	st, err := f.Stat()
	if err != nil {
		return Stamp{}, cause(err)
	}
	return Stamp{st, changeTime(st)}, nil
}

// Text is the stamp as a line of text that is equal for equal stamps, and differs for other files, also those that were at the path before.
// It is empty where the system does not tell when an inode was changed.
func (s Stamp) Text() string {
	device, inode, ok := place(s.info)
	if !ok || s.changed.IsZero() {
		return ""
	}
	return fmt.Sprintf("device %d inode %d size %d modified %d changed %d", device, inode, s.Size(), s.info.ModTime().UnixNano(), s.changed.UnixNano())
}

// Settled reports that the file was last changed so long before t that a later change has another time, however coarse the clock of
// the file system is.
func (s Stamp) Settled(t time.Time) bool {
	return t.Sub(s.changed) > 2*time.Second && t.Sub(s.info.ModTime()) > 2*time.Second
}

// Size is the size of the file in bytes.
func (s Stamp) Size() int64 { return s.info.Size() }

// Compare reports how the file with stamp t differs from what it was at stamp s.
func (s Stamp) Compare(t Stamp) Change {
	switch {
	case !os.SameFile(s.info, t.info) || s.info.Size() != t.info.Size() || !s.info.ModTime().Equal(t.info.ModTime()):
		return Changed
	case !s.changed.Equal(t.changed):
		return Touched
	}
	return Same
}
