package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// gridAttention64 computes grid attention in float64 by its definition: it builds each padded window, then computes
// softmax attention. It rounds q, k and v to the precision, but not the weights.
func gridAttention64(g *GridArgs) []float64 {
	e := g.Heads * g.Dim
	wh, ww := g.Window, g.Window
	if g.Window == 0 {
		wh, ww = g.GH, g.GW
	}
	out := make([]float64, g.B*g.GH*g.GW*e)
	round := func(x float64) float64 {
		if g.Precision == product.BFloat16 {
			return float64(product.RoundBF16(float32(x)))
		}
		return x
	}
	for b := range g.B {
		at := func(y, x, i int) float64 {
			if y >= g.GH || x >= g.GW {
				if g.Pad == nil {
					return 0
				}
				return float64(g.Pad[i])
			}
			return float64(g.QKV[((b*g.GH+y)*g.GW+x)*3*e+i])
		}
		for h := range g.Heads {
			for y := range g.GH {
				for x := range g.GW {
					y0, x0 := y/wh*wh, x/ww*ww
					s := make([]float64, wh*ww)
					top := math.Inf(-1)
					for j := range s {
						ky, kx := j/ww, j%ww
						for d := range g.Dim {
							q := at(y, x, h*g.Dim+d)
							s[j] += float64(g.Scale) * round(q) * round(at(y0+ky, x0+kx, e+h*g.Dim+d))
							if g.RelH != nil {
								s[j] += q * (float64(g.RelH[((y-y0)*wh+ky)*g.Dim+d]) +
									float64(g.RelW[((x-x0)*ww+kx)*g.Dim+d]))
							}
						}
						top = max(top, s[j])
					}
					sum := 0.0
					o := out[((b*g.GH+y)*g.GW+x)*e+h*g.Dim:][:g.Dim]
					for j := range s {
						w := math.Exp(s[j] - top)
						sum += w
						for d := range g.Dim {
							o[d] += w * round(at(y0+j/ww, x0+j%ww, 2*e+h*g.Dim+d))
						}
					}
					for d := range o {
						o[d] /= sum
					}
				}
			}
		}
	}
	return out
}

func randomGrid(r *rand.Rand, b, gh, gw, heads, dim, win int, rel, pad bool) *GridArgs {
	g := &GridArgs{B: b, GH: gh, GW: gw, Heads: heads, Dim: dim, Window: win,
		Scale: float32(1 / math.Sqrt(float64(dim)))}
	g.QKV = kerneltest.Randoms(r, b*gh*gw*3*heads*dim)
	for i := range g.QKV {
		g.QKV[i] *= 2
	}
	wh, ww := win, win
	if win == 0 {
		wh, ww = gh, gw
	}
	if rel {
		g.RelH, g.RelW = kerneltest.Randoms(r, wh*wh*dim), kerneltest.Randoms(r, ww*ww*dim)
	}
	if pad {
		g.Pad = kerneltest.Randoms(r, 3*heads*dim)
	}
	return g
}

func runGrid(t *testing.T, p *pool.Pool, g *GridArgs) []float32 {
	out, check := kerneltest.Guarded(g.B * g.GH * g.GW * g.Heads * g.Dim)
	g.Out = out
	Grid(p, g)
	check(t, "grid attention")
	return out
}

func TestGridAttention(t *testing.T) {
	references := map[string][]float64{} // every pool gets the same operands
	check := func(t *testing.T, p *pool.Pool, what string, g *GridArgs, abs float64) {
		t.Helper()
		want, ok := references[what]
		if !ok {
			want = gridAttention64(g)
			references[what] = want
		}
		kerneltest.Compare(t, what, runGrid(t, p, g), want, abs, 1e-5)
	}
	withPanels(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(1)
		for i, c := range []struct {
			b, gh, gw, heads, dim, win int
			rel, pad                   bool
		}{
			{1, 8, 8, 2, 32, 3, true, true}, // the tiny model: windows with padding on two sides
			{1, 8, 8, 2, 32, 0, true, false},
			{1, 20, 23, 2, 16, 0, true, false}, // several tiles of keys, rows that straddle them
			{2, 5, 7, 3, 8, 4, true, true},
			{1, 5, 7, 1, 5, 4, false, true},
			{1, 6, 6, 2, 64, 3, true, false}, // windows that fit
			{1, 6, 5, 2, 20, 14, true, true}, // a window larger than the grid
			{1, 1, 1, 1, 1, 0, true, false},
			{1, 3, 300, 1, 12, 0, true, false}, // a row longer than a tile
			{1, 4, 4, 1, 80, 3, true, false},   // padding that is zero
			{1, 17, 17, 1, 80, 0, false, false},
		} {
			if testing.Short() && i%2 == 1 {
				continue
			}
			what := fmt.Sprintf("%+v", c)
			g := randomGrid(r, c.b, c.gh, c.gw, c.heads, c.dim, c.win, c.rel, c.pad)
			check(t, p, what, g, 1e-5)
			g.Precision = product.BFloat16
			check(t, p, "bf16 "+what, g, weightError(p))
		}
	})
}

// weightError bounds the error of a weighted mean of values below 2 in magnitude if weights are rounded to bfloat16,
// each with a relative error of up to 2^-8. The worst case is two values 4 apart with equal weights, both of them
// rounded: the mean moves by a quarter of the error of their ratio. If the largest score is subtracted first, the
// largest weight is 1, which is exact.
func weightError(p *pool.Pool) float64 {
	if on(p.Set).attend != nil {
		return 4.0 / 4 * 2 / 256
	}
	return 4e-3
}

// TestGridAttentionLargeScores has scores of thousands, which overflow exp unless the running maximum is subtracted.
func TestGridAttentionLargeScores(t *testing.T) {
	withPanels(t, func(t *testing.T, p *pool.Pool) {
		for _, win := range []int{0, 14} { // with padding of large scores, too
			g := randomGrid(kerneltest.RNG(2), 1, 20, 20, 1, 16, win, true, win > 0)
			for i := range g.QKV {
				g.QKV[i] *= 16
			}
			for i := range g.Pad {
				g.Pad[i] *= 30
			}
			kerneltest.Compare(t, "large", runGrid(t, p, g), gridAttention64(g), 2e-2, 1e-3)
			// Position terms of thousands are only as exact as their two halves: scores that rival the largest are off
			// by some hundredths.
			g.Precision = product.BFloat16
			kerneltest.Compare(t, "large, bf16", runGrid(t, p, g), gridAttention64(g), 1, 1e-3)
		}
	})
}

func TestGridAttentionNaN(t *testing.T) {
	withPanels(t, func(t *testing.T, p *pool.Pool) {
		for _, precision := range []product.Precision{product.Float32, product.BFloat16} {
			gridAttentionNaN(t, p, precision)
		}
	})
}

func gridAttentionNaN(t *testing.T, p *pool.Pool, precision product.Precision) {
	random := func(gh int, rel, pad bool) *GridArgs {
		g := randomGrid(kerneltest.RNG(3), 1, gh, 6, 1, 16, 3, rel, pad)
		g.Precision = precision
		return g
	}
	g := random(6, true, false)
	nan := float32(math.NaN())
	g.QKV[16+3] = nan // a key of the first window: all its queries, and no others
	for i, x := range runGrid(t, p, g) {
		token := i / 16
		inside := token/6 < 3 && token%6 < 3
		if inside != math.IsNaN(float64(x)) {
			t.Fatalf("%v: token %d is %v, want NaN: %v", precision, token, x, inside)
		}
	}
	// A padding key: all queries of the windows that have padding.
	g = random(5, true, true)
	g.Pad[16+5] = nan
	for i, x := range runGrid(t, p, g) {
		if padded := i/16/6 >= 3; padded != math.IsNaN(float64(x)) {
			t.Fatalf("%v: token %d is %v beside a padding key that is NaN", precision, i/16, x)
		}
	}
	// An infinite padding key has no weight for the queries that it scores -Inf, and makes the others NaN.
	for _, rel := range []bool{true, false} {
		g = random(5, rel, true)
		g.Pad[16+5] = float32(math.Inf(1))
		tolerance := 1e-5
		if precision == product.BFloat16 {
			tolerance = weightError(p)
		}
		kerneltest.Compare(t, "infinite padding", runGrid(t, p, g), gridAttention64(g), tolerance, 1e-5)
	}
}

func TestGridAttentionThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute where the processor is emulated; how work is divided does not depend on it")
	}
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		r := kerneltest.RNG(4)
		var out []float32
		for _, precision := range []product.Precision{product.Float32, product.BFloat16} {
			for _, g := range []*GridArgs{randomGrid(r, 1, 9, 8, 3, 24, 5, true, true),
				randomGrid(r, 1, 19, 20, 2, 16, 0, true, false), randomGrid(r, 1, 19, 20, 7, 32, 4, true, true)} {
				g.Precision = precision
				out = append(out, runGrid(t, p, g)...)
			}
		}
		return out
	})
}

// TestGridAttentionScratch checks that earlier contents of scratch memory do not influence the result.
func TestGridAttentionScratch(t *testing.T) {
	withPanels(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(5)
		for _, g := range []*GridArgs{randomGrid(r, 1, 9, 8, 3, 24, 5, true, true),
			randomGrid(r, 1, 5, 7, 1, 64, 0, true, false), randomGrid(r, 1, 17, 9, 1, 40, 0, true, false),
			randomGrid(r, 1, 5, 3, 2, 16, 0, false, false)} {
			for _, precision := range []product.Precision{product.Float32, product.BFloat16} {
				g.Precision = precision
				var want []float32
				for round := range 4 {
					for i := range p.Threads() {
						block := p.Scratch(i).Floats(1 << 16)
						for j := range block {
							block[j] = (r.Float32() - 0.5) * float32(math.Pow(30, float64(round)))
						}
					}
					got := runGrid(t, p, g)
					if want == nil {
						want = got
					}
					for i, x := range want {
						if math.Float32bits(got[i]) != math.Float32bits(x) {
							t.Fatalf("%v, dim %d: element %d is %v, was %v", precision, g.Dim, i, got[i], x)
						}
					}
				}
			}
		}
	})
}

func TestGridAttentionAllocatesNothing(t *testing.T) {
	for _, name := range kerneltest.Sets(t) {
		p := kerneltest.NewPool(t, 1, name) // with several workers, one may get its largest task late
		r := kerneltest.RNG(6)
		gs := []*GridArgs{randomGrid(r, 1, 9, 8, 3, 32, 5, true, true),
			randomGrid(r, 1, 18, 7, 2, 20, 0, true, false), randomGrid(r, 1, 5, 3, 2, 16, 0, false, false)}
		for _, g := range gs {
			g.Out = make([]float32, g.B*g.GH*g.GW*g.Heads*g.Dim)
		}
		for _, precision := range []product.Precision{product.Float32, product.BFloat16} {
			run := func() {
				for _, g := range gs {
					g.Precision = precision
					Grid(p, g)
				}
			}
			for range 4 {
				run()
			}
			if a := testing.AllocsPerRun(kerneltest.Some(10), run); a > 0 {
				t.Errorf("%s, %v: %v allocations", name, precision, a)
			}
		}
	}
}

func BenchmarkGridAttention(b *testing.B) {
	for _, name := range isa.Features()[1:] {
		for _, precision := range []product.Precision{product.Float32, product.BFloat16} {
			for _, win := range []int{0, 14} {
				p := kerneltest.NewPool(b, 0, name)
				b.Run(fmt.Sprintf("%s/%v/window%d/threads%d", name, precision, win, p.Threads()), func(b *testing.B) {
					g := randomGrid(kerneltest.RNG(1), 1, 64, 64, 12, 64, win, true, true)
					g.Out, g.Precision = make([]float32, 4096*768), precision
					keys := 4096
					if win > 0 {
						keys = win * win
					}
					for b.Loop() {
						Grid(p, g)
					}
					b.ReportMetric(float64(b.N)*4096*float64(keys)*768*4/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
