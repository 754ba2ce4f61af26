package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	table.Add(isa.NEON, neon)
	table.Add(isa.NEONDot, func() *Routines { return neon().addDotProducts() })
	table.Add(isa.NEONBF16, func() *Routines {
		r := neon()
		if isa.NEONBF16.Extends(isa.NEONDot) {
			r.addDotProducts()
		}
		return r.addBF16()
	})
}

func neon() *Routines {
	const lanes = 8
	return &Routines{
		MR: 6,
		Panel: Panel{
			NR: 2 * lanes,
			Gemm: gemmOf(
				[]gemmAsm{gemm1x16NEON, gemm2x16NEON, gemm3x16NEON, gemm4x16NEON, gemm5x16NEON, gemm6x16NEON}, 2*lanes),
		},
		Narrow: Panel{
			NR: lanes,
			Gemm: gemmOf([]gemmAsm{gemm1x8NEON, gemm2x8NEON, gemm3x8NEON, gemm4x8NEON, gemm5x8NEON, gemm6x8NEON},
				lanes),
		},
		round:    unaryOf(lanes, roundBF16NEON),
		roundRow: roundRowOf(roundRowNEON),
		fmaLoop:  fmaLoopNEON,
	}
}

// addDotProducts adds products of bytes.
func (s *Routines) addDotProducts() *Routines {
	s.integerFormats, s.dotBytes = integerFormatsNEON(), dotBytesNEONSet()
	return s
}

// addBF16 adds products of pairs of bfloat16.
func (s *Routines) addBF16() *Routines {
	s.Pairs = gemmOf(
		[]gemmAsm{pairs1x16NEON, pairs2x16NEON, pairs3x16NEON, pairs4x16NEON, pairs5x16NEON, pairs6x16NEON}, s.NR)
	s.Narrow.Pairs = gemmOf(
		[]gemmAsm{pairs1x8NEON, pairs2x8NEON, pairs3x8NEON, pairs4x8NEON, pairs5x8NEON, pairs6x8NEON}, s.Narrow.NR)
	s.pair = packPairs
	s.halfLoop = pairsPeakNEON
	return s
}

// packPairs is Routines.pair, in the order that the kernels expect.
func packPairs(dst, panel []float32, width, n int) {
	if width*n == 0 {
		return
	}
	over := (width+7)/8*8 - width
	_, _ = dst[width*n+2*over-1], panel[2*width*n+over-1]
	packBF16NEON(&dst[0], &panel[0], width, n)
}
