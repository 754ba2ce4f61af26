//go:build !linux

package kernels

// hasAMX is false: this system's way to ask for tiles is not known here.
func hasAMX() bool { return false }

func xgetbv() uint32
