package product

import (
	"math"
	"slices"
	"sync"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// EmulatedTiles returns, for tests on processors without AMX, a set that extends AVX512BF16 with tiles in plain Go. It
// returns nil if the processor has AMX, or lacks AVX512BF16.
func EmulatedTiles() []*isa.Set {
	if names := isa.Features(); slices.Contains(names, "amx") || !slices.Contains(names, "avx512bf16") {
		return nil
	}
	return []*isa.Set{emulatedTiles()}
}

var emulatedTiles = sync.OnceValue(func() *isa.Set {
	s := isa.Extend(isa.AVX512BF16, "tiles by definition")
	table.Add(s, func() *Routines {
		r := avx512BF16()
		r.Tiles, r.tileRow, r.blockRowsOut, r.tilePanel = tilesByDefinition, tileRowAMX, blockRowsAMX,
			tilePanelByDefinition
		r.parts = &partsAMX
		return r
	})
	return s
})

// tilesByDefinition is Routines.tiles in plain Go, with sums in the order of the instruction.
func tilesByDefinition(blocks, steps int, a, b, c []float32, ldc int, init []float32, ldi int) {
	halves := func(x float32) (low, high float32) {
		u := math.Float32bits(x)
		return math.Float32frombits(u << 16), math.Float32frombits(u &^ 0xffff)
	}
	for row := range blocks * TileSide {
		for col := range TileSide {
			sum := float32(0)
			if init != nil {
				sum = init[row*ldi+col]
			}
			for k := range steps * TileSide / 2 {
				block := (row/TileSide*steps + k/(TileSide/2)) * TileSide * TileSide / 2
				x0, x1 := halves(a[block+row%TileSide*TileSide/2+k%(TileSide/2)])
				y0, y1 := halves(b[k*TileSide+col])
				sum += x0 * y0
				sum += x1 * y1
			}
			c[row*ldc+col] = sum
		}
	}
}

// tilePanelByDefinition is Routines.tilePanel in plain Go.
func tilePanelByDefinition(t *tilePanel) {
	const area = TileSide * TileSide
	sum := t.sum
	if t.end != tileSum {
		sum = make([]float32, t.blocks*area)
		copy(sum, t.sum)
	}
	var init []float32
	if t.resume {
		init = sum
	}
	for i := range max(1, t.times) {
		tilesByDefinition(t.blocks, t.steps, t.a[i*t.aStep:], t.b[i*t.bStep:], sum, TileSide, init, TileSide)
		init = sum
	}
	if t.residual != nil && t.end != tileRows {
		panic("BUG: a residual beside an activation, or of sums")
	}
	if t.end == tileSum {
		return
	}
	for row := range t.blocks * TileSide {
		x := make([]float32, TileSide)
		for col := range x {
			x[col] = sum[row*TileSide+col] + t.bias[col]
			if t.end == tileBlockedGelu {
				x[col] = float32(elementwise.Exact(elementwise.Gelu, float64(x[col])))
			}
			if t.residual != nil {
				x[col] += t.residual[row*t.residualStep+col]
			}
		}
		switch t.end {
		case tileRows:
			copy(t.out[row*t.outStep:], x)
		default:
			for i := range TileSide / 2 {
				lo, hi := math.Float32bits(RoundBF16(x[2*i])), math.Float32bits(RoundBF16(x[2*i+1]))
				t.out[row/TileSide*t.outStep+row%TileSide*TileSide/2+i] = math.Float32frombits(hi | lo>>16)
			}
		}
	}
}
