package product

import (
	"golang.org/x/sys/cpu"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func init() {
	table.Add(isa.AVX2, avx2)
	table.Add(isa.AVX512, avx512)
	table.Add(isa.AVX512BF16, avx512BF16)
	table.Add(isa.AMX, amx)
}

func avx2() *Routines {
	const lanes = 8
	return (&Routines{
		MR: 6,
		Panel: Panel{
			NR: 2 * lanes,
			Gemm: gemmOf(
				[]gemmAsm{gemm1x16AVX2, gemm2x16AVX2, gemm3x16AVX2, gemm4x16AVX2, gemm5x16AVX2, gemm6x16AVX2}, 2*lanes),
			stored: storedOf(
				[]storedAsm{gemmStored1x16AVX2, gemmStored2x16AVX2, gemmStored3x16AVX2, gemmStored4x16AVX2,
					gemmStored5x16AVX2, gemmStored6x16AVX2}, 2*lanes),
			rowsProduct: rowsProductOf(6, 2*lanes, gemmRows6x16AVX2),
		},
		Narrow: Panel{
			NR: lanes,
			Gemm: gemmOf([]gemmAsm{gemm1x8AVX2, gemm2x8AVX2, gemm3x8AVX2, gemm4x8AVX2, gemm5x8AVX2, gemm6x8AVX2},
				lanes),
			stored: storedOf(
				[]storedAsm{gemmStored1x8AVX2, gemmStored2x8AVX2, gemmStored3x8AVX2, gemmStored4x8AVX2,
					gemmStored5x8AVX2, gemmStored6x8AVX2}, lanes),
			rowsProduct: rowsProductOf(6, lanes, gemmRows6x8AVX2),
		},
		round:          unaryOf(lanes, roundBF16AVX2),
		roundRow:       roundRowOf(roundRowAVX2),
		dotBytes:       dotBytesAVX2Set(),
		integerFormats: integersOfWords(),
		fmaLoop:        fmaLoopAVX2,
	}).setSchemes(lanes, schemeDotAVX2, schemeDecodeAVX2)
}

func avx512() *Routines {
	const lanes = 16
	return (&Routines{
		MR: 14,
		Panel: Panel{
			NR: 2 * lanes,
			Gemm: gemmOf(
				[]gemmAsm{gemm1x32AVX512, gemm2x32AVX512, gemm3x32AVX512, gemm4x32AVX512, gemm5x32AVX512,
					gemm6x32AVX512, gemm7x32AVX512, gemm8x32AVX512, gemm9x32AVX512, gemm10x32AVX512, gemm11x32AVX512,
					gemm12x32AVX512, gemm13x32AVX512, gemm14x32AVX512}, 2*lanes),
			stored: storedOf(
				[]storedAsm{gemmStored1x32AVX512, gemmStored2x32AVX512, gemmStored3x32AVX512, gemmStored4x32AVX512,
					gemmStored5x32AVX512, gemmStored6x32AVX512, gemmStored7x32AVX512, gemmStored8x32AVX512,
					gemmStored9x32AVX512, gemmStored10x32AVX512, gemmStored11x32AVX512, gemmStored12x32AVX512,
					gemmStored13x32AVX512, gemmStored14x32AVX512}, 2*lanes),
		},
		Narrow: Panel{
			NR: lanes,
			Gemm: gemmOf(
				[]gemmAsm{gemm1x16AVX512, gemm2x16AVX512, gemm3x16AVX512, gemm4x16AVX512, gemm5x16AVX512,
					gemm6x16AVX512, gemm7x16AVX512, gemm8x16AVX512, gemm9x16AVX512, gemm10x16AVX512, gemm11x16AVX512,
					gemm12x16AVX512, gemm13x16AVX512, gemm14x16AVX512}, lanes),
			stored: storedOf(
				[]storedAsm{gemmStored1x16AVX512, gemmStored2x16AVX512, gemmStored3x16AVX512, gemmStored4x16AVX512,
					gemmStored5x16AVX512, gemmStored6x16AVX512, gemmStored7x16AVX512, gemmStored8x16AVX512,
					gemmStored9x16AVX512, gemmStored10x16AVX512, gemmStored11x16AVX512, gemmStored12x16AVX512,
					gemmStored13x16AVX512, gemmStored14x16AVX512}, lanes),
		},
		round:          unaryOf(lanes, roundBF16AVX512),
		roundRow:       roundRowOf(roundRowAVX512),
		dotBytes:       dotBytesAVX2Set(),
		integerFormats: integersOfWords(),
		fmaLoop:        fmaLoopAVX512,
	}).setSchemes(lanes, schemeDotAVX512, schemeDecodeAVX512)
}

// avx512BF16 adds products of pairs of bfloat16 in vectors.
func avx512BF16() *Routines {
	s := avx512()
	s.Pairs = gemmOf(
		[]gemmAsm{pairs1x32, pairs2x32, pairs3x32, pairs4x32, pairs5x32, pairs6x32, pairs7x32, pairs8x32, pairs9x32,
			pairs10x32, pairs11x32, pairs12x32, pairs13x32, pairs14x32}, 32)
	s.Narrow.Pairs = gemmOf(
		[]gemmAsm{pairs1x16, pairs2x16, pairs3x16, pairs4x16, pairs5x16, pairs6x16, pairs7x16, pairs8x16, pairs9x16,
			pairs10x16, pairs11x16, pairs12x16, pairs13x16, pairs14x16}, 16)
	s.pair = pairOf(isa.AVX512BF16.Lanes, pairBF16)
	s.halfLoop = pairsPeak
	if cpu.X86.HasAVX512VNNI {
		s.integerFormats = integersVNNI()
		if cpu.X86.HasAVX512VBMI {
			s.dotBytes = dotBytesVNNISet()
		}
	}
	return s
}

// amx adds products in tiles.
func amx() *Routines {
	s := avx512BF16()
	s.Tiles, s.tileRow, s.blockRowsOut = tilesAMX, tileRowAMX, blockRowsAMX
	s.tilePanel = tilePanelAMX
	s.split, s.parts = &splitAMX, &partsAMX
	if cpu.X86.HasAMXInt8 {
		s.integerFormats = integersInTiles()
	}
	s.tileLoop = func(n int) { tilesPeak(&TileConfig[0], n) }
	return s
}

func pairOf(lanes int, f func(dst, src *float32, width, pairs int)) func(dst, panel []float32, width, n int) {
	return func(dst, panel []float32, width, n int) {
		if width*n == 0 {
			return
		}
		over := (width+lanes-1)/lanes*lanes - width
		_, _ = dst[width*n+over-1], panel[2*width*n+over-1]
		f(&dst[0], &panel[0], width, n)
	}
}

// TileConfig is the operand of LDTILECFG: eight tiles of 16 rows of 64 bytes.
var TileConfig = [64]byte{0: 1, 16: 64, 18: 64, 20: 64, 22: 64, 24: 64, 26: 64, 28: 64, 30: 64, 48: 16, 49: 16, 50: 16,
	51: 16, 52: 16, 53: 16, 54: 16, 55: 16}

func tilesAMX(blocks, steps int, a, b, c []float32, ldc int, init []float32, ldi int) {
	if blocks*steps == 0 {
		panic("BUG: no tiles")
	}
	rows := blocks * TileSide
	_, _, _ = a[rows*steps*TileSide/2-1], b[steps*TileSide*TileSide/2-1], c[(rows-1)*ldc+TileSide-1]
	if init != nil {
		_ = init[(rows-1)*ldi+TileSide-1]
	}
	tilesBF16(&TileConfig[0], blocks, steps, &a[0], &b[0], &c[0], ldc, isa.Head(init), ldi)
}

func tileRowAMX(dst, src []float32, steps int) {
	if steps > 0 {
		_, _ = dst[(steps-1)*TileSide*TileSide/2+TileSide/2-1], src[steps*TileSide-1]
		tileRowBF16(&dst[0], &src[0], steps)
	}
}
