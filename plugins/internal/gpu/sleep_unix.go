//go:build darwin || linux

package gpu

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep is time.Sleep for less than a millisecond, for which time.Sleep takes a whole one if the process is idle.
func sleep(d time.Duration) {
	t := unix.NsecToTimeval(int64(d))
	_, _ = unix.Select(0, nil, nil, nil, &t) // a signal may end it early, which does no harm
}
