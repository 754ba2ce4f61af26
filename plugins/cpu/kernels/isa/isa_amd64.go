package isa

import "golang.org/x/sys/cpu"

// The sets of amd64. AVX512BF16 adds products of pairs of bfloat16 in vectors, AMX adds products in tiles.
var (
	AVX2       = newSet("avx2", 8)
	AVX512     = newSet("avx512", 16)
	AVX512BF16 = Extend(AVX512, "avx512bf16")
	AMX        = Extend(AVX512BF16, "amx")
)

// native lists the sets in assembly that the processor and the operating system support, the best one last.
func native() []*Set {
	var sets []*Set
	x := &cpu.X86
	if x.HasAVX2 && x.HasFMA && hasF16C() {
		sets = append(sets, AVX2)
		if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
			sets = append(sets, AVX512)
			if x.HasAVX512BF16 {
				sets = append(sets, AVX512BF16)
				if hasAMX() {
					sets = append(sets, AMX)
				}
			}
		}
	}
	return sets
}

// hasF16C reports F16C, bit 29 of ECX of CPUID leaf 1, which x/sys/cpu does not report. HasAVX2 already implies that
// the operating system saves the registers.
func hasF16C() bool { return cpuidLeaf1ECX()&(1<<29) != 0 }

// cpuidLeaf1ECX returns ECX of CPUID leaf 1, which has feature bits.
func cpuidLeaf1ECX() uint32
