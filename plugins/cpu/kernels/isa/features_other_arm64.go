//go:build !linux && !darwin

package isa

// hasBF16 returns false: there is no code yet that asks this operating system.
func hasBF16() bool { return false }

// hasDotProducts returns false for the same reason.
func hasDotProducts() bool { return false }
