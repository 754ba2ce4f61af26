package attention

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

func init() {
	setTable.Add(isa.AVX2, func() *routines { return &routines{} })
	setTable.Add(isa.AVX512, func() *routines { return &routines{} })
	setTable.Add(isa.AMX, amx)
}

func amx() *routines {
	return &routines{attend: attendAMX, tileRows: tileRowsAMX, tileRowsSplit: tileRowsSplitAMX,
		tilePairs: tilePairsAMX, tileTerms: tileTermsAMX, tileOut: tileOutAMX}
}

func attendAMX(a *attendPanel) {
	f := [...]func(config *byte, q, k, v *float32, table *int32, init *float32, initHalf int, row *float32, rowHalf int,
		work, o, m, l *float32, blocks int, scale float32, free, fresh int){attend32, attend64, attend96,
		attend128}[a.steps-1]
	size := 2 * a.steps * a.blocks * tileFloats
	_, _, _, _ = a.q[2*a.steps*tileFloats-1], a.k[size-1], a.v[size-1], a.o[4*a.steps*tileFloats-1]
	_, _, _ = a.m[31], a.l[31], a.work[attendWork-1]
	for i := range 2 * a.blocks {
		_, _ = a.init[int(a.table[2*i])/4+a.initHalf+tileFloats-1], a.row[int(a.table[2*i+1])/4+a.rowHalf+15]
	}
	run := func(free, fresh int) {
		f(&product.TileConfig[0], &a.q[0], &a.k[0], &a.v[0], &a.table[0], &a.init[0], 4*a.initHalf, &a.row[0],
			4*a.rowHalf,
			&a.work[0], &a.o[0], &a.m[0], &a.l[0], a.blocks, a.scale, free, fresh)
	}
	if !a.fresh {
		run(0, 0)
		return
	}
	// First try the maximum of the first block for all blocks: m need not be exact, only prevent overflow. If a sum
	// overflows, start again with the maximum of every block.
	run(1, 1)
	for _, l := range a.l[:32] {
		if !(l < 1<<64) {
			a.clear()
			run(0, 1)
			break
		}
	}
}

func tileRowsAMX(dst, src []float32, ld, rows, steps int) {
	_, _ = dst[(steps-1)*tileFloats+(rows-1)*16+15], src[(rows-1)*ld+steps*product.TileSide-1]
	tileRowsBF16(&dst[0], &src[0], ld, rows, steps)
}

func tilePairsAMX(dst, src []float32, ld, n, vectors int) {
	_, _ = dst[n*vectors*16-1], src[(2*n-1)*ld+vectors*16-1]
	tilePairsBF16(&dst[0], &src[0], ld, n, vectors)
}

func tileRowsSplitAMX(dst, low, src []float32, ld, n, steps, ahead int) {
	_, _, _ = dst[(steps-1)*tileFloats+(n-1)*16+15], low[(steps-1)*tileFloats+(n-1)*16+15],
		src[(n-1)*ld+steps*product.TileSide-1]
	tileRowsSplit(&dst[0], &low[0], &src[0], ld, n, steps, ahead)
}

func tileOutAMX(dst []float32, ldd int, o, l []float32, n, tiles int) {
	_, _, _ = dst[(n-1)*ldd+tiles*16-1], o[tiles*tileFloats-1], l[15]
	tileOut(&dst[0], ldd, &o[0], &l[0], n, tiles)
}

func tileTermsAMX(t *termTiles) {
	for i := 0; i < len(t.items); i += 3 {
		a, b, c := int(t.items[i])/4, int(t.items[i+1])/4, int(t.items[i+2])/4
		a, b = a+15*t.aStride+(t.steps-1)*tileFloats+15, b+(16*t.steps-1)*t.bStride+15
		_, _, _, _, _ = t.a[a], t.aLow[a], t.b[b], t.bLow[b], t.c[c+tileFloats-1]
	}
	run := func(items []int32, n int) {
		if n > 0 {
			tileTerms(&product.TileConfig[0], &t.a[0], 4*t.aStride, &t.aLow[0], &t.b[0], 4*t.bStride, &t.bLow[0],
				64*t.bStride,
				&t.c[0], &items[0], n, t.steps)
		}
	}
	n := len(t.items) / 3
	run(t.items, n&^1)
	if n%2 != 0 {
		last := t.items[3*(n-1):]
		run([]int32{last[0], last[1], last[2], last[0], last[1], last[2]}, 2)
	}
}
