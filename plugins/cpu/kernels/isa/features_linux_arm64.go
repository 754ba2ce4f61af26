package isa

import "golang.org/x/sys/unix"

// hasBF16 reports whether the processor has instructions for bfloat16 products, according to the operating system.
func hasBF16() bool {
	const bf16 = 1 << 14
	return auxiliary(26)&bf16 != 0 // AT_HWCAP2
}

// hasDotProducts reports whether the processor has SDOT, according to the operating system.
func hasDotProducts() bool {
	const asimddp = 1 << 20
	return auxiliary(16)&asimddp != 0 // AT_HWCAP
}

// auxiliary returns the entry of a type in the auxiliary vector of the process, or 0.
func auxiliary(kind uint64) uint64 {
	entries, _ := unix.Auxv() // on an error there are no entries
	for _, e := range entries {
		if uint64(e[0]) == kind {
			return uint64(e[1])
		}
	}
	return 0
}
