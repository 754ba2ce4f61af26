package reduce

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestWindowPixels compares reductions of windows of pixels with adjacent channels with the same one by one, in float64.
func TestWindowPixels(t *testing.T) {
	r := kerneltest.RNG(54)
	kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
		for i := range kerneltest.Some(60) {
			g := WindowArgs{Op: []Op{Max, Mean, Sum, Min}[i%4], Outer: 1 + r.IntN(3), Inner: 1 + r.IntN(70),
				In: [3]int{1, 1, 1}, Kernel: [3]int{1, 1, 1}, Stride: [3]int{1, 1, 1}, Out: [3]int{1, 1, 1}}
			for k := 1; k < 3; k++ {
				g.Kernel[k], g.Stride[k] = 1+r.IntN(5), 1+r.IntN(3)
				g.Pad[k] = r.IntN(g.Kernel[k]/2 + 1)
				g.In[k] = g.Kernel[k] + r.IntN(12)
				// a last window that is cut, as with ceil_mode
				g.Out[k] = (g.In[k]+2*g.Pad[k]-g.Kernel[k]+r.IntN(g.Stride[k]))/g.Stride[k] + 1
			}
			if g.Op == Mean && i%8 == 1 {
				g.Adaptive, g.Out[1], g.Out[2] = true, 1+r.IntN(g.In[1]), 1+r.IntN(g.In[2])
			}
			x := kerneltest.Randoms(r, g.Outer*elementwise.Volume(g.In)*g.Inner)
			x[len(x)/2], x[len(x)/3], x[len(x)/5] = float32(math.Inf(1)), -1e38, float32(math.NaN())
			what := fmt.Sprintf("%+v", g)
			dst, check := kerneltest.Guarded(g.Outer * elementwise.Volume(g.Out) * g.Inner)
			p.Scratch(0).Reset() // this worker may get no task
			Windows(p, g, dst, x)
			check(t, what)
			kerneltest.Compare(t, what, dst, windowsOneByOne(g, x), 1e-6, 1e-6)
			if size := g.ScratchSize(p); size.Worker < p.Scratch(0).Peak() {
				t.Errorf("%s takes %d bytes, more than %d", what, p.Scratch(0).Peak(), size.Worker)
			}
		}
	})
	g := WindowArgs{Op: Mean, Outer: 2, Inner: 35, In: [3]int{1, 40, 41}, Out: [3]int{1, 20, 21},
		Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 2, 2}, Pad: [3]int{0, 1, 1}}
	x := kerneltest.Randoms(r, g.Outer*elementwise.Volume(g.In)*g.Inner)
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		dst := make([]float32, g.Outer*elementwise.Volume(g.Out)*g.Inner)
		Windows(p, g, dst, x)
		return dst
	})
}

// windowsOneByOne reduces images to images.
func windowsOneByOne(g WindowArgs, x []float32) []float64 {
	want := make([]float64, g.Outer*elementwise.Volume(g.Out)*g.Inner)
	f := reduction[float32, float64](g.Op)
	for i := range want {
		c, pixel := i%g.Inner, i/g.Inner
		image := x[pixel/g.Out[1]/g.Out[2]*g.In[1]*g.In[2]*g.Inner:]
		h0, h1 := g.window(1, pixel/g.Out[2]%g.Out[1])
		w0, w1 := g.window(2, pixel%g.Out[2])
		a, count := f.start, g.Kernel[1]*g.Kernel[2]
		if g.Adaptive {
			count = (h1 - h0) * (w1 - w0)
		}
		for h := h0; h < h1; h++ {
			for w := w0; w < w1; w++ {
				a = f.step(a, image[(h*g.In[2]+w)*g.Inner+c])
			}
		}
		want[i] = float64(f.end(a, count))
	}
	return want
}
