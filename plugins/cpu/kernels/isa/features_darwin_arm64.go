package isa

import "golang.org/x/sys/unix"

// hasBF16 reports whether the processor has instructions for bfloat16 products, according to the operating system.
func hasBF16() bool { return hasFeature("FEAT_BF16") }

// hasDotProducts reports whether the processor has SDOT, according to the operating system.
func hasDotProducts() bool { return hasFeature("FEAT_DotProd") }

func hasFeature(name string) bool {
	v, err := unix.SysctlUint32("hw.optional.arm." + name)
	return err == nil && v != 0
}
