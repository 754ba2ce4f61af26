package kernels

import (
	"math"
	"slices"
	"sync"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// EmulatedTiles returns, for tests on processors without AMX, a set that extends AVX512BF16 with tiles in plain Go. It
// returns none if the processor has AMX, or lacks AVX512BF16.
func EmulatedTiles() []*isa.Set {
	if names := isa.Features(); slices.Contains(names, "amx") || !slices.Contains(names, "avx512bf16") {
		return nil
	}
	return []*isa.Set{emulatedTiles()}
}

var emulatedTiles = sync.OnceValue(func() *isa.Set {
	s := isa.Extend(isa.AVX512BF16, "tiles by definition")
	productTable.Add(s, func() *productRoutines {
		r := productAVX512BF16()
		r.tiles, r.tileRow, r.blockRowsOut, r.tilePanel = tilesByDefinition, tileRowAMX, blockRowsAMX, tilePanelByDefinition
		return r
	})
	return s
})

// tilesByDefinition is productRoutines.tiles in plain Go, with sums in the order of the instruction.
func tilesByDefinition(blocks, steps int, a, b, c []float32, ldc int, init []float32, ldi int) {
	halves := func(x float32) (low, high float32) {
		u := math.Float32bits(x)
		return math.Float32frombits(u << 16), math.Float32frombits(u &^ 0xffff)
	}
	for row := range blocks * tileSide {
		for col := range tileSide {
			sum := float32(0)
			if init != nil {
				sum = init[row*ldi+col]
			}
			for k := range steps * tileSide / 2 {
				block := (row/tileSide*steps + k/(tileSide/2)) * tileSide * tileSide / 2
				x0, x1 := halves(a[block+row%tileSide*tileSide/2+k%(tileSide/2)])
				y0, y1 := halves(b[k*tileSide+col])
				sum += x0 * y0
				sum += x1 * y1
			}
			c[row*ldc+col] = sum
		}
	}
}

// tilePanelByDefinition is productRoutines.tilePanel in plain Go.
func tilePanelByDefinition(t *tilePanel) {
	const area = tileSide * tileSide
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
		tilesByDefinition(t.blocks, t.steps, t.a[i*t.aStep:], t.b[i*t.bStep:], sum, tileSide, init, tileSide)
		init = sum
	}
	if t.residual != nil && t.end != tileRows {
		panic("BUG: a residual beside an activation, or of sums")
	}
	if t.end == tileSum {
		return
	}
	for row := range t.blocks * tileSide {
		x := make([]float32, tileSide)
		for col := range x {
			x[col] = sum[row*tileSide+col] + t.bias[col]
			if t.end == tileBlockedGelu {
				x[col] = float32(exact(Gelu, float64(x[col])))
			}
			if t.residual != nil {
				x[col] += t.residual[row*t.residualStep+col]
			}
		}
		switch t.end {
		case tileRows:
			copy(t.out[row*t.outStep:], x)
		default:
			for i := range tileSide / 2 {
				lo, hi := math.Float32bits(roundBF16(x[2*i])), math.Float32bits(roundBF16(x[2*i+1]))
				t.out[row/tileSide*t.outStep+row%tileSide*tileSide/2+i] = math.Float32frombits(hi | lo>>16)
			}
		}
	}
}
