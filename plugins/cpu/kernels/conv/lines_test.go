package conv

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// drawLines draws a depthwise convolution with long lines.
func drawLines(r *rand.Rand) *Args {
	g := conv2D(0, 1+r.IntN(3), 0, 1, 1, 0, 1, false)
	g.N, g.Groups = 1+r.IntN(2), g.Cin
	g.Cout = g.Groups * (1 + r.IntN(2))
	for i := 1; i < 3; i++ {
		g.Kernel[i], g.Stride[i], g.Dilation[i] = 1+r.IntN(5), 1+r.IntN(2), 1+r.IntN(4)/3
		g.Pad[i] = r.IntN(g.Dilation[i]*g.Kernel[i] + 1)
	}
	g.In[1], g.In[2] = g.Dilation[1]*g.Kernel[1]+r.IntN(20), 20+r.IntN(150)
	drawValues(r, &g)
	return &g
}

// drawSpecial puts an infinity into x, or a NaN into the weights, in two of six cases.
func drawSpecial(r *rand.Rand, g *Args, i int) {
	switch i % 6 {
	case 1:
		g.X[r.IntN(len(g.X))] = float32(math.Inf(1))
	case 2:
		g.Weight = stored.F32(kerneltest.Randoms(r, g.Weight.Len()))
		g.Weight.Floats[r.IntN(g.Weight.Len())] = float32(math.NaN())
	}
}

// TestConvLines compares depthwise convolutions with the definition. An infinity in x must not spread.
func TestConvLines(t *testing.T) {
	early(t)
	seed := uint64(80)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		seed++
		r := kerneltest.RNG(seed)
		for i := range kerneltest.Some(60) {
			g := drawLines(r)
			drawSpecial(r, g, i)
			want := conv64(g)
			dst, check := kerneltest.Guarded(len(want))
			g.X, g.Out, g.Packed = slices.Clip(g.X), dst, new(Packed)
			Convolve(p, g)
			check(t, describeConv(g))
			kerneltest.Compare(t, describeConv(g), dst, want, 1e-6*math.Sqrt(float64(g.Kernel[1]*g.Kernel[2])), 1e-5)
		}
	})
}
