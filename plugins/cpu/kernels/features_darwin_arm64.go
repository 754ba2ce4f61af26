package kernels

import "golang.org/x/sys/unix"

// hasBF16 reports whether the processor has products of bfloat16, as the kernel says.
func hasBF16() bool {
	v, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && v != 0
}
