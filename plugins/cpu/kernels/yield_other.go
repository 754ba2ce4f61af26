//go:build !linux

package kernels

// yieldThread does nothing, because only the C library offers the call.
func yieldThread() {}
