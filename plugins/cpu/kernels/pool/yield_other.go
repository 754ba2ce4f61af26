//go:build !linux

package pool

// yieldThread does nothing, because only the C library offers the call.
func yieldThread() {}
