//go:build !amd64

package kernels

func nativeISAs() []*isa { return nil }
