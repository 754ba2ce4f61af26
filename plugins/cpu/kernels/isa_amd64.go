package kernels

import "golang.org/x/sys/cpu"

// nativeISAs lists the sets in assembly that the processor and the operating system support, the best one last.
func nativeISAs() []*isa {
	var sets []*isa
	x := &cpu.X86
	if x.HasAVX2 && x.HasFMA && hasF16C() {
		sets = append(sets, avx2())
		if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
			sets = append(sets, avx512())
			if x.HasAVX512BF16 {
				sets = append(sets, avx512bf16())
				if hasAMX() {
					sets = append(sets, amx())
				}
			}
		}
	}
	return sets
}

// hasF16C reports F16C, bit 29 of ECX of CPUID leaf 1, which x/sys/cpu does not report. HasAVX2 already implies that
// the operating system saves the registers.
func hasF16C() bool { return cpuidLeaf1ECX()&(1<<29) != 0 }
