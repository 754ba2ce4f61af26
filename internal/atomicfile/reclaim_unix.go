//go:build unix

package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/internal/filelock"
)

// reclaim removes a temporary file that no process is writing.
func reclaim(name string) {
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK // do not follow links, and do not wait for a pipe
	f, err := os.OpenFile(name, os.O_RDWR|flags, 0)
	if err != nil {
		// The file may have the read-only mode of the file that it was to replace. Most file systems can lock it
		// anyway.
		if f, err = os.OpenFile(name, os.O_RDONLY|flags, 0); err != nil {
			return
		}
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 ||
		int(st.Uid) != os.Geteuid() {
		return
	}
	// Remove the name only if it still refers to the locked file: its owner may have renamed that file meanwhile.
	if filelock.Try(f) == nil && sameFile(f, name) {
		os.Remove(name)
	}
}
