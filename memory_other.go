//go:build !linux

package rlx

// freeMemory is unknown on this system, so only the backend can check.
func freeMemory() (bytes int64, ok bool) { return 0, false }
