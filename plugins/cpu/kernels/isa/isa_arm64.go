package isa

// The sets of arm64. NEON takes two registers of four floats as one vector. NEONDot adds products of bytes, NEONBF16
// products of bfloat16; the latter extends NEONDot if the processor has products of bytes, too.
var (
	NEON     = newSet("neon", 8)
	NEONDot  = Extend(NEON, "neondot")
	NEONBF16 = Extend(bestBeforeBF16(), "neonbf16")
)

func bestBeforeBF16() *Set {
	if hasDotProducts() {
		return NEONDot
	}
	return NEON
}

// native returns NEON, which every arm64 processor has, and those that extend it, if the processor has the
// instructions. The last set has all of them.
func native() []*Set {
	sets := []*Set{NEON}
	if hasDotProducts() {
		sets = append(sets, NEONDot)
	}
	if hasBF16() {
		sets = append(sets, NEONBF16)
	}
	return sets
}
