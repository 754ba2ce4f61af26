package format

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback asks the kernel to begin to bring a range to disk, so that the sync at the end finds most of it there. It
// does not wait, and what it says does not matter: the sync decides.
func startWriteback(f io.WriterAt, off, n int64) {
	if file, ok := f.(*os.File); ok {
		_ = unix.SyncFileRange(int(file.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
	}
}
