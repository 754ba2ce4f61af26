//go:build darwin || linux

package gpu

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep is time.Sleep for less than a millisecond. time.Sleep in an idle Go process sleeps at least a whole one.
func sleep(d time.Duration) {
	t := unix.NsecToTimeval(int64(d))
	_, _ = unix.Select(0, nil, nil, nil, &t) // waking early by a signal does no harm
}
