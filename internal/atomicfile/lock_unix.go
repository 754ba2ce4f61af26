//go:build unix

package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks f until it is closed. It fails if another process has the lock. On a file system without locks it succeeds,
// because nobody can sweep there.
func lock(f *os.File) bool {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.EWOULDBLOCK)
		}
	}
}

// reclaim removes a temporary file that nobody uses.
func reclaim(name string) {
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK // no link, and no waiting on a pipe
	f, err := os.OpenFile(name, os.O_RDWR|flags, 0)
	if err != nil {
		// The file may have taken the mode of a read-only one that it was to replace. Most file systems lock it anyway.
		if f, err = os.OpenFile(name, os.O_RDONLY|flags, 0); err != nil {
			return
		}
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		return
	}
	// The name is removed only while it is that of the locked file: its owner may have renamed it meanwhile.
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && sameFile(f, name) {
		os.Remove(name)
	}
}
