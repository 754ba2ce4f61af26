package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// drawWinograd draws a convolution that winograd computes.
func drawWinograd(r *rand.Rand) *Args {
	g := conv2D(0, 16+r.IntN(30), 16+r.IntN(60), 3, 1, 0, 1, false)
	g.N = 1 + r.IntN(3)*r.IntN(2)
	g.In[1], g.In[2] = 7+r.IntN(9), 7+r.IntN(9)
	switch r.IntN(5) {
	case 0: // several blocks of k
		g.Cin, g.Cout, g.In[1] = 513+r.IntN(50), 16, 7
	case 1: // long lines
		g.In[1], g.In[2], g.Cin, g.Cout = 3+r.IntN(3), 30+r.IntN(60), 16+r.IntN(9), 16+r.IntN(9)
	case 2: // many lines
		g.In[1], g.In[2], g.Cin, g.Cout = 30+r.IntN(60), 5+r.IntN(9), 16+r.IntN(9), 16+r.IntN(9)
	}
	g.Pad[1], g.Pad[2] = r.IntN(3), r.IntN(3)
	drawValues(r, &g)
	return &g
}

// TestWinograd compares convolutions by Winograd's algorithm with the definition, within the tolerance of the op.
func TestWinograd(t *testing.T) {
	seed := uint64(40)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		seed++
		r := kerneltest.RNG(seed)
		for i := range kerneltest.Some(16) {
			g := drawWinograd(r)
			if i%4 == 3 { // a weight or a pixel with which the sums of other elements would be wrong
				special := []float32{float32(math.Inf(1)), float32(math.NaN()), 1e38, -1e30}[r.IntN(4)]
				g.Weight = stored.F32(kerneltest.Randoms(r, g.Weight.Len()))
				if i%8 == 7 {
					g.Weight.Floats[r.IntN(g.Weight.Len())] = special
				} else {
					g.X[r.IntN(len(g.X))] = special
				}
			}
			want := conv64(g)
			dst, check := kerneltest.Guarded(len(want))
			g.Out, g.Packed = dst, new(Packed)
			for range 2 {
				clear(dst)
				Convolve(p, g)
				check(t, describeConv(g))
				kerneltest.Compare(t, describeConv(g), dst, want, 1e-6*math.Sqrt(float64(9*g.Cin)), 1e-5)
			}
			if winogradOn(p.Set).input != nil && g.Packed.winograd == nil &&
				elementwise.Volume(tilesOf(g.OutSize())) >= winogradTiles*p.Set.Lanes {
				t.Errorf("%s is not computed by Winograd's algorithm", describeConv(g))
			}
		}
	})
}

// TestWinogradThreads checks that the bits of a result depend neither on the number of threads nor on other images.
func TestWinogradThreads(t *testing.T) {
	for seed := range uint64(6) {
		r := kerneltest.RNG(60 + seed)
		g := drawWinograd(r)
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			g.Packed = new(Packed)
			g.Out = make([]float32, g.N*elementwise.Volume(g.OutSize())*g.Cout)
			Convolve(p, g)
			return g.Out
		})
	}
}

// BenchmarkWinograd compares Winograd's algorithm with direct convolution on one thread. of-tolerance is the largest
// error, as a part of the tolerance of the op.
func BenchmarkWinograd(b *testing.B) {
	for _, c := range []struct{ size, cin, cout int }{
		{100, 32, 32}, {56, 64, 64}, {28, 128, 128}, {14, 256, 256}, {7, 512, 512}, {16, 64, 64}, {55, 16, 64},
	} {
		g := conv2D(c.size, c.cin, c.cout, 3, 1, 1, 1, false)
		r := kerneltest.RNG(1)
		g.X = kerneltest.Randoms(r, c.size*c.size*c.cin)
		g.Weight = stored.F32(kerneltest.Randoms(r, 9*c.cin*c.cout))
		g.Out = make([]float32, c.size*c.size*c.cout)
		var want []float64
		for _, direct := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dx%d,%d-%d,direct=%v", c.size, c.size, c.cin, c.cout, direct), func(b *testing.B) {
				p := kerneltest.NewPool(b, 1, "")
				run := g
				run.Packed = new(Packed)
				k := pool.Keep[convolution](p)
				k.Args, k.p = run, p
				k.begin()
				if !direct && !k.byWinograd() {
					b.Skip("too few tiles for this instruction set")
				}
				for b.Loop() {
					if direct {
						k.Args, k.p = run, p
						k.begin()
						k.direct()
					} else {
						Convolve(p, &run)
					}
				}
				if want == nil {
					want = conv64(&g)
				}
				worst, exact := 0.0, 1e-6*math.Sqrt(float64(9*c.cin))
				for i, v := range want {
					worst = max(worst, math.Abs(v-float64(g.Out[i]))/(exact+1e-5*math.Abs(v)))
				}
				b.ReportMetric(worst, "of-tolerance")
			})
		}
	}
}
