package peakrss

import "syscall"

// Own returns the peak resident size of this process in bytes, 0 if the system does not report it.
func Own() int64 {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return ru.Maxrss
}
