package kernels

import (
	"fmt"
	"math"
	"testing"
)

// TestAdaptiveMean compares adaptive means, of windows of equal sizes and others, with sums in float64.
func TestAdaptiveMean(t *testing.T) {
	r := rng(51)
	eachPool(t, func(t *testing.T, p *Pool) {
		for _, c := range []struct{ outer, d, h, w, h2, w2 int }{
			{512, 1, 28, 28, 7, 7}, {3, 1, 6, 6, 3, 2}, {2, 4, 15, 34, 5, 17}, {1, 2, 8, 3000, 2, 1500}, {1, 1, 7, 9, 1, 3}, {5, 1, 4, 6, 4, 6},
			{3, 1, 9, 1, 3, 1}, {2, 1, 10, 13, 4, 7}, {2, 1, 12, 13, 4, 7}, {2, 1, 3, 28, 7, 7},
		} {
			g := WindowArgs{Op: Mean, Outer: c.outer, Inner: 1, In: [3]int{c.d, c.h, c.w}, Out: [3]int{c.d, c.h2, c.w2}, Adaptive: true}
			x := randoms(r, c.outer*volume(g.In))
			x[len(x)/2], x[len(x)/3] = float32(math.Inf(1)), 1e38
			want := make([]float64, c.outer*volume(g.Out))
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
			dst, check := guarded(len(want))
			Windows(p, g, dst, x)
			check(t, fmt.Sprint(c))
			compare(t, fmt.Sprint(c), dst, want, 1e-6, 1e-6)
			if size := g.ScratchSize(p); size.Worker < 4*int64(p.workers[0].scratch.most) {
				t.Errorf("%v takes %d bytes, more than %d", c, 4*p.workers[0].scratch.most, size.Worker)
			}
		}
	})
	g := WindowArgs{Op: Mean, Outer: 99, Inner: 1, In: [3]int{1, 28, 28}, Out: [3]int{1, 7, 7}, Adaptive: true}
	x := randoms(r, g.Outer*volume(g.In))
	sameForAnyThreads(t, func(p *Pool) []float32 {
		dst := make([]float32, g.Outer*volume(g.Out))
		Windows(p, g, dst, x)
		return dst
	})
}
