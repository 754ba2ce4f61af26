package kernels

import (
	"golang.org/x/sys/cpu"

	"github.com/rlx-go/rlx/core/dtype"
)

// cpuidLeaf1ECX returns ECX of CPUID leaf 1, which has feature bits.
func cpuidLeaf1ECX() uint32

func avx2() *isa {
	const lanes = 8
	return (&isa{
		name: "avx2", lanes: lanes, mr: 6,
		panel: panel{
			nr: 2 * lanes,
			gemm: gemmOf(
				[]gemmAsm{gemm1x16AVX2, gemm2x16AVX2, gemm3x16AVX2, gemm4x16AVX2, gemm5x16AVX2, gemm6x16AVX2}, 2*lanes),
			rowsProduct: rowsProductOf(6, 2*lanes, gemmRows6x16AVX2),
			scoreMax:    scoreMaxOf(2*lanes, scoreMaxAVX2), scoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxAVX2),
			expSum: expSumOf(2*lanes, expSumAVX2), scaleRows: scaleRowsOf(2*lanes, scaleRowsAVX2),
		},
		narrow: panel{
			nr: lanes,
			gemm: gemmOf([]gemmAsm{gemm1x8AVX2, gemm2x8AVX2, gemm3x8AVX2, gemm4x8AVX2, gemm5x8AVX2, gemm6x8AVX2},
				lanes),
			rowsProduct:  rowsProductOf(6, lanes, gemmRows6x8AVX2),
			scoreMax:     scoreMaxOf(lanes, scoreMaxNarrowAVX2),
			scoreBiasMax: scoreBiasMaxOf(lanes, scoreBiasMaxNarrowAVX2),
			expSum:       expSumOf(lanes, expSumNarrowAVX2), scaleRows: scaleRowsOf(lanes, scaleRowsNarrowAVX2),
		},
		transpose: transposeOf(lanes, transposeAVX2),
		stream:    streamAVX2, storeFence: storeFence, prefetchRows: prefetchRows,
		copyRows:   copyRowsOf(lanes, copyRowsAVX2),
		reverse:    reverseOf(lanes, reverseAVX2),
		dotRows:    dotRowsOf(dotRowsAVX2),
		widenF16:   convertOf(lanes, widenF16AVX2, dtype.F16ToF32),
		widenBF16:  convertOf(lanes, widenBF16AVX2, dtype.BF16ToF32),
		narrowF16:  convertOf(lanes, narrowF16AVX2, dtype.F32ToF16),
		narrowBF16: convertOf(lanes, narrowBF16AVX2, dtype.F32ToBF16),
		round:      unaryOf(lanes, roundBF16AVX2),
		choose:     chooseOf(lanes, chooseAVX2),
		sum:        sumOf(lanes, sumAVX2), deviations: deviationsOf(lanes, deviationsAVX2),
		normalize:      normalizeOf(lanes, normalizeAVX2),
		packed:         packedAVX2(),
		roundRow:       roundRowOf(roundRowAVX2),
		dotBytes:       dotBytesAVX2Set(),
		integerFormats: integersOfWords(),
		dotF16:         dotHalvesOf(lanes, dotF16AVX2), dotBF16: dotHalvesOf(lanes, dotBF16AVX2),
		threefry: threefryOf(lanes, threefryAVX2),
		scans:    scansOf(lanes, scanSumAVX2, scanProdAVX2, scanMaxAVX2),
		strips:   stripsOf(lanes, deltaStepAVX2, scanDecayAVX2, scanStepAVX2, tapsAVX2),
		fmaLoop:  fmaLoopAVX2,
	}).setElementwise(unaryAVX2, binaryAVX2, compareAVX2, testAVX2, bitsAVX2, halfAVX2, halfMixedAVX2,
		binaryRestAVX2).setCasts(castAVX2,
		&affineRoutines{affineI8AVX2, affineU8AVX2}).setIntegers(integerAVX2).setSchemes(schemeDotAVX2,
		schemeDecodeAVX2).setFolds(foldRowAVX2, foldRowsAVX2, foldEachAVX2,
		softmaxRoutines{expRowAVX2, expSumRowAVX2, scaleRowAVX2, shiftRowAVX2, expRowsAVX2, expSumRowsAVX2,
			scaleColumnsAVX2, shiftColumnsAVX2}).setFFT(
		[8]fftPassAsm{2: fftPass2AVX2, 3: fftPass3AVX2, 4: fftPass4AVX2, 5: fftPass5AVX2, 7: fftPass7AVX2},
		[8]fftPassAsm{2: fftPlain2AVX2, 3: fftPlain3AVX2, 4: fftPlain4AVX2, 5: fftPlain5AVX2, 7: fftPlain7AVX2},
		fftMultiplyAVX2, fftSplitAVX2, fftHalvesAVX2).setStencils(gatherRowsAVX2, stencilAVX2, stencilEvensAVX2,
		stencilEachAVX2).setCopies(copyAtAVX2, evensAVX2, zipAVX2).
		setHalves(
			[]quadsAsm{halves1x16AVX2, halves2x16AVX2, halves3x16AVX2, halves4x16AVX2, halves5x16AVX2, halves6x16AVX2},
			requantizeAVX2)
}

func avx512() *isa {
	const lanes = 16
	s := (&isa{
		name: "avx512", lanes: lanes, mr: 14,
		panel: panel{
			nr: 2 * lanes,
			gemm: gemmOf(
				[]gemmAsm{gemm1x32AVX512, gemm2x32AVX512, gemm3x32AVX512, gemm4x32AVX512, gemm5x32AVX512,
					gemm6x32AVX512, gemm7x32AVX512, gemm8x32AVX512, gemm9x32AVX512, gemm10x32AVX512, gemm11x32AVX512,
					gemm12x32AVX512, gemm13x32AVX512, gemm14x32AVX512}, 2*lanes),
			scoreMax: scoreMaxOf(2*lanes, scoreMaxAVX512), scoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxAVX512),
			expSum: expSumOf(2*lanes, expSumAVX512), scaleRows: scaleRowsOf(2*lanes, scaleRowsAVX512),
		},
		narrow: panel{
			nr: lanes,
			gemm: gemmOf(
				[]gemmAsm{gemm1x16AVX512, gemm2x16AVX512, gemm3x16AVX512, gemm4x16AVX512, gemm5x16AVX512,
					gemm6x16AVX512, gemm7x16AVX512, gemm8x16AVX512, gemm9x16AVX512, gemm10x16AVX512, gemm11x16AVX512,
					gemm12x16AVX512, gemm13x16AVX512, gemm14x16AVX512}, lanes),
			scoreMax:     scoreMaxOf(lanes, scoreMaxNarrowAVX512),
			scoreBiasMax: scoreBiasMaxOf(lanes, scoreBiasMaxNarrowAVX512),
			expSum:       expSumOf(lanes, expSumNarrowAVX512), scaleRows: scaleRowsOf(lanes, scaleRowsNarrowAVX512),
		},
		transpose: transposeOf(lanes, transposeAVX512),
		stream:    streamAVX512, storeFence: storeFence, prefetchRows: prefetchRows,
		copyRows:   copyRowsOf(lanes, copyRowsAVX512),
		reverse:    reverseOf(lanes, reverseAVX512),
		dotRows:    dotRowsOf(dotRowsAVX512),
		widenF16:   convertOf(lanes, widenF16AVX512, dtype.F16ToF32),
		widenBF16:  convertOf(lanes, widenBF16AVX512, dtype.BF16ToF32),
		narrowF16:  convertOf(lanes, narrowF16AVX512, dtype.F32ToF16),
		narrowBF16: convertOf(lanes, narrowBF16AVX512, dtype.F32ToBF16),
		round:      unaryOf(lanes, roundBF16AVX512),
		choose:     chooseOf(lanes, chooseAVX512),
		sum:        sumOf(lanes, sumAVX512), deviations: deviationsOf(lanes, deviationsAVX512),
		normalize:      normalizeOf(lanes, normalizeAVX512),
		packed:         packedAVX512(),
		roundRow:       roundRowOf(roundRowAVX512),
		dotBytes:       dotBytesAVX2Set(),
		integerFormats: integersOfWords(),
		dotF16:         dotHalvesOf(lanes, dotF16AVX512), dotBF16: dotHalvesOf(lanes, dotBF16AVX512),
		threefry: threefryOf(lanes, threefryAVX512),
		scans:    scansOf(lanes, scanSumAVX512, scanProdAVX512, scanMaxAVX512),
		strips:   stripsOf(lanes, deltaStepAVX512, scanDecayAVX512, scanStepAVX512, tapsAVX512),
		fmaLoop:  fmaLoopAVX512,
	}).setElementwise(unaryAVX512, binaryAVX512, compareAVX512, testAVX512, bitsAVX512, halfAVX512, halfMixedAVX512,
		binaryRestAVX512).setCasts(castAVX512,
		&affineRoutines{affineI8AVX512, affineU8AVX512}).setIntegers(integerAVX512).setSchemes(schemeDotAVX512,
		schemeDecodeAVX512).setFolds(foldRowAVX512, foldRowsAVX512, foldEachAVX512,
		softmaxRoutines{expRowAVX512, expSumRowAVX512, scaleRowAVX512, shiftRowAVX512, expRowsAVX512, expSumRowsAVX512,
			scaleColumnsAVX512, shiftColumnsAVX512}).setFFT(
		[8]fftPassAsm{2: fftPass2AVX512, 3: fftPass3AVX512, 4: fftPass4AVX512, 5: fftPass5AVX512, 7: fftPass7AVX512},
		[8]fftPassAsm{2: fftPlain2AVX512, 3: fftPlain3AVX512, 4: fftPlain4AVX512, 5: fftPlain5AVX512,
			7: fftPlain7AVX512}, fftMultiplyAVX512, fftSplitAVX512, fftHalvesAVX512).setStencils(gatherRowsAVX512,
		stencilAVX512, stencilEvensAVX512, stencilEachAVX512).setCopies(copyAtAVX512, evensAVX512, zipAVX512).
		setHalves(
			[]quadsAsm{halves1x32AVX512, halves2x32AVX512, halves3x32AVX512, halves4x32AVX512, halves5x32AVX512,
				halves6x32AVX512, halves7x32AVX512, halves8x32AVX512, halves9x32AVX512, halves10x32AVX512,
				halves11x32AVX512, halves12x32AVX512, halves13x32AVX512, halves14x32AVX512}, requantizeAVX512)
	if cpu.X86.HasAVX512VNNI {
		s.setQuads(
			[]quadsAsm{quadsLeft1x32, quadsLeft2x32, quadsLeft3x32, quadsLeft4x32, quadsLeft5x32, quadsLeft6x32,
				quadsLeft7x32, quadsLeft8x32, quadsLeft9x32, quadsLeft10x32, quadsLeft11x32, quadsLeft12x32,
				quadsLeft13x32, quadsLeft14x32},
			[]quadsAsm{quadsRight1x32, quadsRight2x32, quadsRight3x32, quadsRight4x32, quadsRight5x32, quadsRight6x32,
				quadsRight7x32, quadsRight8x32, quadsRight9x32, quadsRight10x32, quadsRight11x32, quadsRight12x32,
				quadsRight13x32, quadsRight14x32})
	}
	return s
}

// avx512bf16 adds products of pairs of bfloat16 in vectors.
func avx512bf16() *isa {
	s := avx512()
	s.name = "avx512bf16"
	s.pairs = gemmOf(
		[]gemmAsm{pairs1x32, pairs2x32, pairs3x32, pairs4x32, pairs5x32, pairs6x32, pairs7x32, pairs8x32, pairs9x32,
			pairs10x32, pairs11x32, pairs12x32, pairs13x32, pairs14x32}, 32)
	s.narrow.pairs = gemmOf(
		[]gemmAsm{pairs1x16, pairs2x16, pairs3x16, pairs4x16, pairs5x16, pairs6x16, pairs7x16, pairs8x16, pairs9x16,
			pairs10x16, pairs11x16, pairs12x16, pairs13x16, pairs14x16}, 16)
	s.pair = pairOf(s.lanes, pairBF16)
	s.halfLoop = pairsPeak
	if cpu.X86.HasAVX512VNNI {
		s.integerFormats = signedIntegers(multiplyIntegersVNNI)
		if cpu.X86.HasAVX512VBMI {
			s.dotBytes = dotBytesVNNISet()
		}
	}
	return s
}

// amx adds products in tiles.
func amx() *isa {
	s := avx512bf16()
	s.name = "amx"
	s.tiles, s.tileRow, s.blockRowsOut = tilesAMX, tileRowAMX, blockRowsAMX
	s.tilePanel = tilePanelAMX
	s.split = &splitAMX
	if cpu.X86.HasAMXInt8 {
		s.integerFormats = signedIntegers(multiplyIntegersAMX)
	}
	s.setPanels()
	if cpu.X86.HasAMXInt8 {
		s.setQuadTiles()
	}
	s.tileLoop = func(n int) { tilesPeak(&tileConfig[0], n) }
	return s
}
