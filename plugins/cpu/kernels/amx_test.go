//go:build amd64

package kernels

import (
	"math"
	"slices"
	"testing"
)

// tilesByDefinition is isa.tiles one product at a time, in the order of the instruction.
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
				square := (row/tileSide*steps + k/(tileSide/2)) * tileSide * tileSide / 2
				x0, x1 := halves(a[square+row%tileSide*tileSide/2+k%(tileSide/2)])
				y0, y1 := halves(b[k*tileSide+col])
				sum += x0 * y0
				sum += x1 * y1
			}
			c[row*ldc+col] = sum
		}
	}
}

// withoutTiles calls f with a pool whose tiles are computed by definition, where the processor has none of its own: what is packed
// for them is tested all the same.
func withoutTiles(t *testing.T, f func(t *testing.T, p *Pool)) {
	if names := Features(); slices.Contains(names, "amx") || !slices.Contains(names, "avx512bf16") {
		return
	}
	t.Run("tiles by definition", func(t *testing.T) {
		p := newPool(t, 3, "avx512bf16")
		s := *p.isa
		s.tiles, s.tileRow = tilesByDefinition, tileRowAMX
		p.isa = &s
		f(t, p)
	})
}

// TestTiles compares the instructions with their definition.
func TestTiles(t *testing.T) {
	if !slices.Contains(Features(), "amx") {
		t.Skip("no AMX on this processor")
	}
	r := rng(1)
	for _, d := range [][2]int{{1, 1}, {2, 3}, {5, 16}} {
		blocks, steps := d[0], d[1]
		half := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				lo, hi := math.Float32bits(r.Float32()-0.5)>>16, math.Float32bits(r.Float32()-0.5)&^0xffff
				x[i] = math.Float32frombits(hi | lo)
			}
			return x
		}
		a, b := half(blocks*steps*tileSide*tileSide/2), half(steps*tileSide*tileSide/2)
		for _, ldc := range []int{32, 47} {
			init := randoms(r, blocks*tileSide*40)
			for _, start := range [][]float32{nil, init} {
				got, want := make([]float32, blocks*tileSide*ldc), make([]float32, blocks*tileSide*ldc)
				tilesAMX(blocks, steps, a, b, got, ldc, start, 40)
				tilesByDefinition(blocks, steps, a, b, want, ldc, start, 40)
				exact := make([]float64, len(want))
				for i, x := range want {
					exact[i] = float64(x)
				}
				compare(t, "tiles", got, exact, 1e-4, 1e-5)
			}
		}
	}
}
