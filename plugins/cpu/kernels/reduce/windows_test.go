package reduce

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestAdaptiveMean compares adaptive means, of windows of equal sizes and others, with sums in float64.
func TestAdaptiveMean(t *testing.T) {
	r := kerneltest.RNG(51)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for _, c := range []struct{ outer, d, h, w, h2, w2 int }{
			{512, 1, 28, 28, 7, 7}, {3, 1, 6, 6, 3, 2}, {2, 4, 15, 34, 5, 17}, {1, 2, 8, 3000, 2, 1500},
			{1, 1, 7, 9, 1, 3}, {5, 1, 4, 6, 4, 6},
			{3, 1, 9, 1, 3, 1}, {2, 1, 10, 13, 4, 7}, {2, 1, 12, 13, 4, 7}, {2, 1, 3, 28, 7, 7},
		} {
			g := WindowArgs{Op: Mean, Outer: c.outer, Inner: 1, In: [3]int{c.d, c.h, c.w}, Out: [3]int{c.d, c.h2, c.w2},
				Adaptive: true}
			x := kerneltest.Randoms(r, c.outer*elementwise.Volume(g.In))
			x[len(x)/2], x[len(x)/3] = float32(math.Inf(1)), 1e38
			want := make([]float64, c.outer*elementwise.Volume(g.Out))
			for i := range want {
				h0, h1 := g.window(1, i/c.w2%c.h2)
				w0, w1 := g.window(2, i%c.w2)
				for h := h0; h < h1; h++ {
					for w := w0; w < w1; w++ {
						want[i] += float64(x[(i/c.w2/c.h2*c.h+h)*c.w+w])
					}
				}
				want[i] /= float64((h1 - h0) * (w1 - w0))
			}
			dst, check := kerneltest.Guarded(len(want))
			Windows(p, g, dst, x)
			check(t, fmt.Sprint(c))
			kerneltest.Compare(t, fmt.Sprint(c), dst, want, 1e-6, 1e-6)
			if size := g.ScratchSize(p); size.Worker < p.Scratch(0).Peak() {
				t.Errorf("%v takes %d bytes, more than %d", c, p.Scratch(0).Peak(), size.Worker)
			}
		}
	})
	g := WindowArgs{Op: Mean, Outer: 99, Inner: 1, In: [3]int{1, 28, 28}, Out: [3]int{1, 7, 7}, Adaptive: true}
	x := kerneltest.Randoms(r, g.Outer*elementwise.Volume(g.In))
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		dst := make([]float32, g.Outer*elementwise.Volume(g.Out))
		Windows(p, g, dst, x)
		return dst
	})
}

// TestWindowLines compares reductions of windows with strides along a line with the same one by one, in float64.
func TestWindowLines(t *testing.T) {
	r := kerneltest.RNG(52)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for _, op := range []Op{Max, Mean} {
			for _, c := range []struct{ w, kernel, stride, pad, out int }{
				// the last windows are cut
				{4096, 4, 4, 0, 1024}, {71, 4, 4, 0, 17}, {67, 4, 4, 1, 17}, {64, 8, 8, 0, 8}, {37, 16, 16, 0, 2},
				{13, 4, 4, 0, 4},
				{112, 3, 2, 1, 56}, {65, 2, 2, 0, 32}, {33, 5, 2, 2, 17}, {40, 3, 3, 0, 13}, {1, 2, 2, 1, 1},
			} {
				const lines = 3
				g := WindowArgs{Op: op, Outer: lines, Inner: 1, In: [3]int{1, 1, c.w}, Out: [3]int{1, 1, c.out},
					Kernel: [3]int{1, 1, c.kernel},
					Stride: [3]int{1, 1, c.stride}, Pad: [3]int{0, 0, c.pad}}
				x := kerneltest.Randoms(r, lines*c.w)
				x[len(x)/2], x[len(x)/3] = float32(math.Inf(1)), -1e38
				want := make([]float64, lines*c.out)
				for i := range want {
					lo, hi := g.window(2, i%c.out)
					if op == Max {
						want[i] = math.Inf(-1)
					}
					for _, v := range x[i/c.out*c.w:][lo:hi] {
						if op == Max {
							want[i] = max(want[i], float64(v))
						} else {
							want[i] += float64(v) / float64(c.kernel)
						}
					}
				}
				dst, check := kerneltest.Guarded(len(want))
				Windows(p, g, dst, x)
				what := fmt.Sprint(op, c)
				check(t, what)
				kerneltest.Compare(t, what, dst, want, 1e-6, 1e-6)
				if size := g.ScratchSize(p); size.Worker < p.Scratch(0).Peak() {
					t.Errorf("%s takes %d bytes, more than %d", what, p.Scratch(0).Peak(), size.Worker)
				}
			}
		}
	})
}

// TestWindowPlanes compares reductions of windows of images with the same one by one, in float64.
func TestWindowPlanes(t *testing.T) {
	r := kerneltest.RNG(53)
	kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
		for i := range kerneltest.Some(50) {
			g := WindowArgs{Op: []Op{Max, Mean, Sum, Min}[i%4], Outer: 1 + r.IntN(40), Inner: 1, In: [3]int{1, 1, 1},
				Kernel: [3]int{1, 1, 1}, Stride: [3]int{1, 1, 1}, Out: [3]int{1, 1, 1}}
			for k := 1; k < 3; k++ {
				g.Kernel[k], g.Stride[k] = 1+r.IntN(5), 1+r.IntN(2+k%2)
				g.Pad[k] = r.IntN(g.Kernel[k]/2 + 1)
				g.In[k] = g.Kernel[k] + r.IntN(30)
				// a last window that is cut, as with ceil_mode
				g.Out[k] = (g.In[k]+2*g.Pad[k]-g.Kernel[k]+r.IntN(g.Stride[k]))/g.Stride[k] + 1
			}
			x := kerneltest.Randoms(r, g.Outer*elementwise.Volume(g.In))
			x[len(x)/2], x[len(x)/3] = float32(math.Inf(1)), -1e38
			want := make([]float64, g.Outer*elementwise.Volume(g.Out))
			f := reduction[float32, float64](g.Op)
			for j := range want {
				plane := x[j/g.Out[1]/g.Out[2]*g.In[1]*g.In[2]:]
				h0, h1 := g.window(1, j/g.Out[2]%g.Out[1])
				w0, w1 := g.window(2, j%g.Out[2])
				want[j] = f.start
				for h := h0; h < h1; h++ {
					for w := w0; w < w1; w++ {
						want[j] = f.step(want[j], plane[h*g.In[2]+w])
					}
				}
				if g.Op == Mean {
					want[j] /= float64(elementwise.Volume(g.Kernel))
				}
			}
			dst, check := kerneltest.Guarded(len(want))
			larger := g // memory for a larger image must suffice
			larger.In[1], larger.In[2] = g.In[1]+r.IntN(2)*40, g.In[2]+r.IntN(2)*400
			larger.Out[1] += (larger.In[1] - g.In[1]) / g.Stride[1]
			larger.Out[2] += (larger.In[2] - g.In[2]) / g.Stride[2]
			q := kerneltest.NewPool(t, p.Threads(), p.Features())
			need := larger.ScratchSize(q)
			kerneltest.Reserve(t, q, need)
			Windows(q, g, dst, x)
			kerneltest.Fits(t, q, need, 0, fmt.Sprint(g))
			what := fmt.Sprint(g)
			check(t, what)
			kerneltest.Compare(t, what, dst, want, 1e-6, 1e-6)
		}
	})
}
