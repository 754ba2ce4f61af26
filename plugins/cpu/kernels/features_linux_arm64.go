package kernels

import "golang.org/x/sys/unix"

// hasBF16 reports whether the processor has instructions for bfloat16 products, according to the operating system.
func hasBF16() bool {
	const (
		hwcap2     = 26 // AT_HWCAP2
		hwcap2BF16 = 1 << 14
	)
	entries, _ := unix.Auxv() // on an error there are no entries
	for _, e := range entries {
		if e[0] == hwcap2 {
			return e[1]&hwcap2BF16 != 0
		}
	}
	return false
}
