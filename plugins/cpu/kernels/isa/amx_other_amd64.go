//go:build !linux

package isa

// hasAMX returns false: there is no code yet that asks this operating system for permission to use tiles.
func hasAMX() bool { return false }

func xgetbv() uint32
