package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// tilePanelAMX is Routines.tilePanel. It checks the bounds for the assembly: each index expression is the last element
// that is read or written.
func tilePanelAMX(t *tilePanel) {
	const area = TileSide * TileSide
	rows := t.blocks * TileSide
	if t.blocks*t.steps == 0 {
		panic("BUG: no tiles")
	}
	times := max(1, t.times)
	if times > 1 && t.end != tileSum {
		panic("BUG: a tile panel with several blocks of k may only add up sums")
	}
	_, _ = t.a[(times-1)*t.aStep+t.blocks*t.steps*area/2-1], t.b[(times-1)*t.bStep+t.steps*area/2-1]
	resume := 0
	if t.resume {
		resume = 1
	}
	if t.resume || t.end == tileSum {
		_ = t.sum[t.blocks*area-1]
	}
	step := t.outStep
	switch t.end {
	case tileSum:
	case tileRows:
		_, _, _ = t.out[(rows-1)*step+TileSide-1], t.block[area-1], t.bias[TileSide-1]
	default:
		_, _, _ = t.out[(t.blocks-1)*step+area/2-1], t.block[area-1], t.bias[TileSide-1]
		if (misaligned(&t.out[0])|4*step)%64 != 0 {
			panic("BUG: blocks that are not aligned to cache lines")
		}
	}
	run := tileEnds[t.end]
	if t.residual != nil {
		if t.end != tileRows {
			panic("BUG: a tile panel with a residual and an activation, or a residual for sums")
		}
		_ = t.residual[(rows-1)*t.residualStep+TileSide-1]
		run = tileResiduals
	}
	f := run[0]
	if t.stream && (misaligned(isa.Head(t.out))|4*step)%64 == 0 {
		f = run[1]
	}
	f(&TileConfig[0], t.blocks, t.steps, &t.a[0], &t.b[0], isa.Head(t.sum), resume, isa.Head(t.ahead), t.lines(),
		isa.Head(t.block),
		isa.Head(t.bias),
		isa.Head(t.out), 4*step, isa.Head(t.residual), 4*t.residualStep, times, 4*t.aStep, 4*t.bStep)
}

type tilesAsm = func(config *byte, blocks, steps int, a, b, sum *float32, resume int, ahead *float32, lines int, block,
	bias *float32,
	out *float32, outStep int, residual *float32, residualStep, times, aStep, bStep int)

// tileEnds holds the routines by tileEnd: one that stores through the caches and one that bypasses them. Blocks always
// bypass them.
var tileEnds = [...][2]tilesAsm{
	tileSum: {tilesSum, tilesSum}, tileRows: {tilesRows, tilesRowsStream},
	tileBlocked: {tilesBlocked, tilesBlocked}, tileBlockedGelu: {tilesBlockedGelu, tilesBlockedGelu},
}

var tileResiduals = [2]tilesAsm{tilesRowsResidual, tilesRowsResidualStream}

// blockRowsAMX is Routines.blockRowsOut.
func blockRowsAMX(dst, src []float32, ld, rows, steps int) {
	if rows*steps == 0 || misaligned(&dst[0]) != 0 {
		panic("BUG: no rows, or blocks that are not aligned to cache lines")
	}
	_, _ = dst[(steps-1)*TileSide*TileSide/2+rows*TileSide/2-1], src[(rows-1)*ld+steps*TileSide-1]
	blockRowsBF16(&dst[0], &src[0], ld, rows, steps)
}
