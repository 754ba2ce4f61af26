package conv

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// drawTiny draws a depthwise convolution of images of a few pixels.
func drawTiny(r *rand.Rand) *Args {
	for {
		channels := 1 + r.IntN(70)
		if r.IntN(3) == 0 {
			channels = 100 + r.IntN(400)
		}
		g := conv2D(0, channels, channels, 1, 1, 0, 1, false)
		g.N, g.Groups = 1+r.IntN(3), channels
		for i := r.IntN(2); i < 3; i++ {
			g.In[i], g.Kernel[i], g.Stride[i], g.Dilation[i] = 1+r.IntN(4), 1+r.IntN(5), 1+r.IntN(2), 1+r.IntN(4)/3
			g.Pad[i] = r.IntN(g.Dilation[i]*g.Kernel[i] + 1)
			if r.IntN(3) > 0 {
				g.Pad[i] = g.Dilation[i] * (g.Kernel[i] - 1) / 2
			}
		}
		if out := g.OutSize(); min(out[0], out[1], out[2]) > 0 && elementwise.Volume(out) <= 2*tinyResult {
			drawValues(r, &g)
			return &g
		}
	}
}

// TestConvTiny compares depthwise convolutions of tiny images with the definition. An infinity in x must not spread.
func TestConvTiny(t *testing.T) {
	early(t)
	seed := uint64(120)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		seed++
		r, met := kerneltest.RNG(seed), 0
		for i := range kerneltest.Some(60) {
			g := drawTiny(r)
			drawSpecial(r, g, i)
			want := conv64(g)
			dst, check := kerneltest.Guarded(len(want))
			g.X, g.Out = slices.Clip(g.X), dst
			for _, g.Packed = range []*Packed{nil, {}} {
				for range 2 {
					clear(dst)
					Convolve(p, g)
					check(t, describeConv(g))
					kerneltest.Compare(t, describeConv(g), dst, want, 1e-5, 1e-5)
				}
			}
			if g.Packed.tiny != nil {
				met++
			}
		}
		if met == 0 && vec.On(p.Set).StencilPixels != nil {
			t.Error("no image was tiny")
		}
	})
}
