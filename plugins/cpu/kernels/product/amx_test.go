//go:build amd64

package product

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// TestTilePanel compares the assembly with tilePanelByDefinition.
func TestTilePanel(t *testing.T) {
	if !slices.Contains(isa.Features(), "amx") {
		t.Skip("no AMX on this processor")
	}
	const area = TileSide * TileSide
	r := kerneltest.RNG(2)
	for _, d := range [][2]int{{1, 1}, {1, 7}, {2, 8}, {3, 12}, {5, 3}} {
		blocks, steps := d[0], d[1]
		for end := tileSum; end <= tileBlockedGelu; end++ {
			for _, resume := range []bool{false, true} {
				for _, residual := range []bool{false, true} {
					if residual && end != tileRows {
						continue
					}
					stream := r.IntN(2) == 0
					p := tilePanel{blocks: blocks, steps: steps, a: kerneltest.RandomPairs(r, blocks*steps*area/2),
						b:      kerneltest.RandomPairs(r, steps*area/2),
						resume: resume, end: end, stream: stream, block: make([]float32, area),
						bias: kerneltest.Randoms(r, TileSide)}
					p.ahead = p.b[:len(p.b)/2]
					if resume || end == tileSum {
						p.sum = kerneltest.Randoms(r, blocks*area)
					}
					if end == tileSum {
						p.times, p.aStep, p.bStep = 1+r.IntN(3), blocks*steps*area/2+64, steps*area/2+32
						p.a, p.b = kerneltest.RandomPairs(r, p.times*p.aStep),
							kerneltest.RandomPairs(r, p.times*p.bStep)
					}
					switch p.outStep = TileSide + r.IntN(2)*16; end {
					case tileBlocked, tileBlockedGelu:
						p.outStep, stream = area/2+r.IntN(2)*16, true
					}
					if residual {
						p.residualStep = TileSide + 3
						p.residual = kerneltest.Randoms(r, blocks*TileSide*p.residualStep)
					}
					what := fmt.Sprintf("blocks %d steps %d end %d resume %v residual %v", blocks, steps, end, resume,
						residual)
					run := func(f func(*tilePanel)) []float32 {
						q := p
						q.sum = slices.Clone(p.sum)
						out, check := kerneltest.Guarded(blocks*TileSide*p.outStep + 16)
						clear(out)
						for stream && misaligned(&out[0]) != 0 {
							out = out[1:]
						}
						q.out = out
						f(&q)
						check(t, what)
						if end == tileSum {
							return q.sum
						}
						return out[:blocks*TileSide*p.outStep]
					}
					got, want := run(tilePanelAMX), run(tilePanelByDefinition)
					abs, rel := 1e-4, 1e-5
					if end == tileBlocked || end == tileBlockedGelu {
						abs, rel = 2e-4, 1.0/128
						got, want = unpaired(got), unpaired(want)
					}
					exact := make([]float64, len(want))
					for i, x := range want {
						exact[i] = float64(x)
					}
					kerneltest.Compare(t, what, got, exact, abs, rel)
				}
			}
		}
	}
}

// TestTileGelu checks that the error of gelu is within the bound stated at tileGelu. The product is 0, so the bias is
// the argument.
func TestTileGelu(t *testing.T) {
	if !slices.Contains(isa.Features(), "amx") {
		t.Skip("no AMX on this processor")
	}
	const area = TileSide * TileSide
	bias, out := make([]float32, TileSide), make([]float32, area/2+16)
	for misaligned(&out[0]) != 0 {
		out = out[1:]
	}
	p := tilePanel{blocks: 1, steps: 1, a: make([]float32, area/2), b: make([]float32, area/2), end: tileBlockedGelu,
		block: make([]float32, area), bias: bias, out: out, outStep: area / 2}
	check := func() {
		tilePanelAMX(&p)
		got := unpaired(out[:area/2])
		for i, x := range bias {
			want := elementwise.Exact(elementwise.Gelu, max(float64(x), -100)) // gelu(-Inf) is 0, the limit
			for r := range TileSide {
				if !kerneltest.Near(got[r*TileSide+i], want, 5e-5, 1.0/256) {
					t.Fatalf("gelu(%v) in row %d is %v, want %v", x, r, got[r*TileSide+i], want)
				}
			}
		}
	}
	for x := float32(-9); x < 9; {
		for i := range bias {
			bias[i] = x
			x += 1.0 / 512
		}
		check()
	}
	copy(bias, []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-42, -1e-42, 0, 1e30,
		-1e30})
	check()
}

// unpaired returns the bfloat16 in x as floats.
func unpaired(x []float32) []float32 {
	var out []float32
	for _, v := range x {
		u := math.Float32bits(v)
		out = append(out, math.Float32frombits(u<<16), math.Float32frombits(u&^0xffff))
	}
	return out
}

// TestTiles compares the assembly with tilesByDefinition.
func TestTiles(t *testing.T) {
	if !slices.Contains(isa.Features(), "amx") {
		t.Skip("no AMX on this processor")
	}
	r := kerneltest.RNG(1)
	for _, d := range [][2]int{{1, 1}, {2, 3}, {5, 16}} {
		blocks, steps := d[0], d[1]
		a, b := kerneltest.RandomPairs(r, blocks*steps*TileSide*TileSide/2),
			kerneltest.RandomPairs(r, steps*TileSide*TileSide/2)
		for _, ldc := range []int{32, 47} {
			init := kerneltest.Randoms(r, blocks*TileSide*40)
			for _, start := range [][]float32{nil, init} {
				got, want := make([]float32, blocks*TileSide*ldc), make([]float32, blocks*TileSide*ldc)
				tilesAMX(blocks, steps, a, b, got, ldc, start, 40)
				tilesByDefinition(blocks, steps, a, b, want, ldc, start, 40)
				exact := make([]float64, len(want))
				for i, x := range want {
					exact[i] = float64(x)
				}
				kerneltest.Compare(t, "tiles", got, exact, 1e-4, 1e-5)
			}
		}
	}
}
