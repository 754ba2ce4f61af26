package format

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback asks the kernel to start writing a range to disk, so that the final sync takes less time. It does not
// wait. It ignores errors, because the sync reports them.
func startWriteback(f io.WriterAt, off, n int64) {
	if file, ok := f.(*os.File); ok {
		_ = unix.SyncFileRange(int(file.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
	}
}
