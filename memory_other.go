//go:build !linux

package rlx

// freeMemory is not known on this system: the check is left to the backend.
func freeMemory() (bytes int64, ok bool) { return 0, false }
