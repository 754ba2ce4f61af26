//go:build darwin || linux

package gpu

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep is like time.Sleep, but can sleep for less than a millisecond. time.Sleep may take a whole millisecond if the
// process is idle.
func sleep(d time.Duration) {
	t := unix.NsecToTimeval(int64(d))
	_, _ = unix.Select(0, nil, nil, nil, &t) // a signal may end it early; then the caller polls early
}
