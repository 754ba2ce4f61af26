package conv

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// drawMixed draws a convolution with one tap and few output channels.
func drawMixed(r *rand.Rand) *Args {
	groups := 1 + r.IntN(4)/3*2
	g := conv2D(0, groups*(2+r.IntN(12)), groups*(1+r.IntN(6)), 1, 1, 0, groups, false)
	g.N = 1 + r.IntN(2)
	if r.IntN(4) == 0 {
		g.Cin = groups * (60 + r.IntN(100))
	}
	g.In[1], g.In[2] = 1+r.IntN(40), 20+r.IntN(80)
	drawValues(r, &g)
	return &g
}

// TestConvMixed compares such convolutions with the definition, also with special values.
func TestConvMixed(t *testing.T) {
	early(t)
	seed := uint64(90)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		seed++
		r, taken := kerneltest.RNG(seed), 0
		n := kerneltest.Some(60)
		for i := range n {
			g := drawMixed(r)
			drawSpecial(r, g, i)
			c := convolution{Args: *g, p: p, cg: g.Cin / g.Groups, og: g.Cout / g.Groups, out: g.OutSize()}
			if c.mixed() {
				taken++
			}
			want := conv64(g)
			dst, check := kerneltest.Guarded(len(want))
			g.X, g.Out = slices.Clip(g.X), dst
			for _, g.Packed = range []*Packed{nil, {}} {
				clear(dst)
				Convolve(p, g)
				check(t, describeConv(g))
				kerneltest.Compare(t, describeConv(g), dst, want, 1e-5, 1e-5)
			}
		}
		if !vec.On(p.Set).StencilsInGo && n >= 20 && taken < n/4 {
			t.Errorf("only %d of %d convolutions had few output channels", taken, n)
		}
	})
}

func TestConvMixedThreads(t *testing.T) {
	for seed := range uint64(6) {
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			g := drawMixed(kerneltest.RNG(seed))
			g.In[1] += 30
			drawValues(kerneltest.RNG(seed), g)
			g.Out = make([]float32, len(conv64(g)))
			Convolve(p, g)
			return g.Out
		})
	}
}
