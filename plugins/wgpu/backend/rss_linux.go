//go:build cgo && (darwin || amd64)

package backend

import "golang.org/x/sys/unix"

// peakRSS is the largest resident set of this process so far, in bytes.
func peakRSS() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss << 10
}
