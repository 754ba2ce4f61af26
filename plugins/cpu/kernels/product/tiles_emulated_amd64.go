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

// tilesByDefinition is Routines.tiles in plain Go, with sums in the order of TDPBF16PS (Intel's Software Developer's
// Manual, volume 2): an instruction adds up the products of the first values of pairs, and of the second, and then adds
// the two sums to the element. Denormals are 0.
func tilesByDefinition(blocks, steps int, a, b, c []float32, ldc int, init []float32, ldi int) {
	const pairs = TileSide / 2 // that an instruction multiplies for an element
	left, right := pairsOf(a[:blocks*steps*TileSide*pairs]), pairsOf(b[:steps*pairs*TileSide])
	for row := range blocks * TileSide {
		out := c[row*ldc:][:TileSide]
		if init != nil {
			copy(out, init[row*ldi:])
		} else {
			clear(out)
		}
		for step := range steps {
			var first, second [TileSide]float32
			for k, x := range left[((row/TileSide*steps+step)*TileSide+row%TileSide)*pairs:][:pairs] {
				for col, y := range right[(step*pairs+k)*TileSide:][:TileSide] { // the products are exact
					first[col] = flushed(first[col] + x[0]*y[0])
					second[col] = flushed(second[col] + x[1]*y[1])
				}
			}
			for col := range out {
				out[col] = flushed(out[col] + flushed(first[col]+second[col]))
			}
		}
	}
}

// pairsOf returns the pairs of bfloat16 values that x has the bits of.
func pairsOf(x []float32) [][2]float32 {
	out := make([][2]float32, len(x))
	for i, v := range x {
		u := math.Float32bits(v)
		out[i] = [2]float32{flushed(math.Float32frombits(u << 16)), flushed(math.Float32frombits(u &^ 0xffff))}
	}
	return out
}

// flushed returns 0 in place of a denormal.
func flushed(x float32) float32 {
	if math.Float32bits(x)&0x7f800000 == 0 {
		return 0
	}
	return x
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
