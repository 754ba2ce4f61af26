//go:build !linux && !darwin

package kernels

// hasBF16 is false: this system's way to ask for it is not known here.
func hasBF16() bool { return false }
