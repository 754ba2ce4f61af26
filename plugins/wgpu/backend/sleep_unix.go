//go:build cgo && (darwin || (linux && amd64))

package backend

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep is time.Sleep for less than a millisecond. A Go process that has nothing else to do sleeps a whole one.
func sleep(d time.Duration) {
	t := unix.NsecToTimeval(int64(d))
	_, _ = unix.Select(0, nil, nil, nil, &t) // woken early by a signal, it does no harm
}
