package quad

import (
	"slices"

	"golang.org/x/sys/cpu"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func init() {
	table.Add(isa.AVX2, avx2)
	table.Add(isa.AVX512, avx512)
	table.Add(isa.AMX, amx)
}

func avx2() *Routines {
	return halvesOf(isa.AVX2,
		[]quadsAsm{halves1x16AVX2, halves2x16AVX2, halves3x16AVX2, halves4x16AVX2, halves5x16AVX2, halves6x16AVX2},
		requantizeAVX2)
}

func avx512() *Routines {
	s := halvesAVX512()
	if cpu.X86.HasAVX512VNNI {
		s.setQuads(isa.AVX512,
			[]quadsAsm{quadsLeft1x32, quadsLeft2x32, quadsLeft3x32, quadsLeft4x32, quadsLeft5x32, quadsLeft6x32,
				quadsLeft7x32, quadsLeft8x32, quadsLeft9x32, quadsLeft10x32, quadsLeft11x32, quadsLeft12x32,
				quadsLeft13x32, quadsLeft14x32},
			[]quadsAsm{quadsRight1x32, quadsRight2x32, quadsRight3x32, quadsRight4x32, quadsRight5x32, quadsRight6x32,
				quadsRight7x32, quadsRight8x32, quadsRight9x32, quadsRight10x32, quadsRight11x32, quadsRight12x32,
				quadsRight13x32, quadsRight14x32})
	}
	return s
}

// halvesAVX512 returns routines that multiply integers of 16 bits, for processors without VNNI.
func halvesAVX512() *Routines {
	return halvesOf(isa.AVX512,
		[]quadsAsm{halves1x32AVX512, halves2x32AVX512, halves3x32AVX512, halves4x32AVX512, halves5x32AVX512,
			halves6x32AVX512, halves7x32AVX512, halves8x32AVX512, halves9x32AVX512, halves10x32AVX512,
			halves11x32AVX512, halves12x32AVX512, halves13x32AVX512, halves14x32AVX512}, requantizeAVX512)
}

func amx() *Routines {
	s := avx512()
	if cpu.X86.HasAMXInt8 {
		s.setQuadTiles()
	}
	return s
}

// WithoutVNNI returns, for tests, a set that is AVX-512 but multiplies integers of 16 bits, as processors without VNNI
// do. It returns nil if the processor lacks AVX-512.
func WithoutVNNI() []*isa.Set {
	if !slices.Contains(isa.Features(), "avx512") {
		return nil
	}
	s := isa.Extend(isa.AVX512, "avx512 without vnni")
	table.Add(s, halvesAVX512)
	return []*isa.Set{s}
}
