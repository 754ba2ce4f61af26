package kernels

import "github.com/rlx-go/rlx/core/dtype"

// nativeISAs returns NEON, which every arm64 processor has, and, if the processor has the instructions, NEON with
// products of bytes and with products of bfloat16. The last set has all of them.
func nativeISAs() []*isa {
	sets := []*isa{neon()}
	if hasDotProducts() {
		sets = append(sets, neon().addDotProducts())
	}
	if s := neon(); hasBF16() {
		if hasDotProducts() {
			s.addDotProducts()
		}
		sets = append(sets, s.addBF16())
	}
	return sets
}

// neon takes two registers of four floats as one vector.
func neon() *isa {
	const lanes = 8
	return (&isa{
		name: "neon", lanes: lanes, mr: 6,
		panel: panel{
			nr: 2 * lanes,
			gemm: gemmOf(
				[]gemmAsm{gemm1x16NEON, gemm2x16NEON, gemm3x16NEON, gemm4x16NEON, gemm5x16NEON, gemm6x16NEON}, 2*lanes),
			scoreMax: scoreMaxOf(2*lanes, scoreMaxNEON), scoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxNEON),
			expSum: expSumOf(2*lanes, expSumNEON), scaleRows: scaleRowsOf(2*lanes, scaleRowsNEON),
		},
		narrow: panel{
			nr: lanes,
			gemm: gemmOf([]gemmAsm{gemm1x8NEON, gemm2x8NEON, gemm3x8NEON, gemm4x8NEON, gemm5x8NEON, gemm6x8NEON},
				lanes),
			scoreMax:     scoreMaxOf(lanes, scoreMaxNarrowNEON),
			scoreBiasMax: scoreBiasMaxOf(lanes, scoreBiasMaxNarrowNEON),
			expSum:       expSumOf(lanes, expSumNarrowNEON), scaleRows: scaleRowsOf(lanes, scaleRowsNarrowNEON),
		},
		transpose:  transposeOf(lanes, transposeNEON),
		copyRows:   copyRowsOf(lanes, copyRowsNEON),
		reverse:    reverseInGo[float32],
		dotRows:    dotRowsOf(dotRowsNEON),
		widenF16:   convertOf(lanes, widenF16NEON, dtype.F16ToF32),
		widenBF16:  convertOf(lanes, widenBF16NEON, dtype.BF16ToF32),
		narrowF16:  convertOf(lanes, narrowF16NEON, dtype.F32ToF16),
		narrowBF16: convertOf(lanes, narrowBF16NEON, dtype.F32ToBF16),
		round:      unaryOf(lanes, roundBF16NEON),
		choose:     chooseOf(lanes, chooseNEON),
		sum:        sumOf(lanes, sumNEON), deviations: deviationsOf(lanes, deviationsNEON),
		normalize: normalizeOf(lanes, normalizeNEON),
		strips:    stripsInGo(),
		packed:    packedNEON(),
		roundRow:  roundRowOf(roundRowNEON),
		fmaLoop:   fmaLoopNEON,
	}).setElementwise(unaryNEON, binaryNEON, compareNEON, testNEON, bitsNEON, nil, nil, nil).setCasts(castNEON,
		nil).setStencilsInGo().setIntegersInGo()
}

// addDotProducts adds products of bytes, and names the set.
func (s *isa) addDotProducts() *isa {
	s.name = "neondot"
	s.integerFormats, s.dotBytes = integerFormatsNEON(), dotBytesNEONSet()
	return s
}

// addBF16 adds products of pairs of bfloat16, and names the set.
func (s *isa) addBF16() *isa {
	s.name = "neonbf16"
	s.pairs = gemmOf(
		[]gemmAsm{pairs1x16NEON, pairs2x16NEON, pairs3x16NEON, pairs4x16NEON, pairs5x16NEON, pairs6x16NEON}, 2*s.lanes)
	s.narrow.pairs = gemmOf(
		[]gemmAsm{pairs1x8NEON, pairs2x8NEON, pairs3x8NEON, pairs4x8NEON, pairs5x8NEON, pairs6x8NEON}, s.lanes)
	s.pair = packPairs
	s.halfLoop = pairsPeakNEON
	return s
}

// packPairs is isa.pair, in the order that the kernels expect.
func packPairs(dst, panel []float32, width, n int) {
	if width*n == 0 {
		return
	}
	over := (width+7)/8*8 - width
	_, _ = dst[width*n+2*over-1], panel[2*width*n+over-1]
	packBF16NEON(&dst[0], &panel[0], width, n)
}
