//go:build !linux && !darwin && !windows

package peakrss

// Own is not known on this system.
func Own() int64 { return 0 }
