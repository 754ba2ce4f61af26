package kernels

import "golang.org/x/sys/unix"

// hasBF16 reports whether the processor has instructions for bfloat16 products, according to the operating system.
func hasBF16() bool {
	v, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && v != 0
}
