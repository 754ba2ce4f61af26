package kernels

import "golang.org/x/sys/unix"

// hasBF16 reports whether the processor has products of bfloat16, as the kernel says.
func hasBF16() bool {
	const (
		hwcap2     = 26 // AT_HWCAP2
		hwcap2BF16 = 1 << 14
	)
	entries, _ := unix.Auxv() // none where it cannot be read
	for _, e := range entries {
		if e[0] == hwcap2 {
			return e[1]&hwcap2BF16 != 0
		}
	}
	return false
}
