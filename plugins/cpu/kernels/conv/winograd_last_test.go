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

// always makes convolutions of all sizes be computed by Winograd's algorithm, in tasks of few tiles.
func always(t *testing.T) {
	room, chosen := winogradLastRoom, winogradLastAlways
	winogradLastRoom, winogradLastAlways = 1<<12, true
	t.Cleanup(func() { winogradLastRoom, winogradLastAlways = room, chosen })
}

// drawWinogradLast draws a convolution that winogradLast can compute.
func drawWinogradLast(r *rand.Rand) *Args {
	g := conv2D(0, 1+r.IntN(40), 1+r.IntN(90), 3, 1, 0, 1, false)
	g.Last, g.N = true, 1+r.IntN(3)
	g.In[1], g.In[2] = 3+r.IntN(12), 3+r.IntN(12)
	switch r.IntN(4) {
	case 0: // many channels
		g.Cin, g.Cout, g.In[1], g.In[2] = 500+r.IntN(50), 16+r.IntN(9), 3, 4
	case 1: // long lines
		g.In[1], g.In[2], g.Cin, g.Cout = 3+r.IntN(3), 30+r.IntN(60), 1+r.IntN(25), 1+r.IntN(25)
	case 2: // several units of pixels
		g.In[1], g.In[2], g.Cin, g.Cout = 30+r.IntN(30), 9+r.IntN(9), 1+r.IntN(9), 1+r.IntN(9)
	}
	g.Pad[1], g.Pad[2] = r.IntN(4), r.IntN(4)
	drawValues(r, &g)
	return &g
}

// TestWinogradLast compares convolutions by Winograd's algorithm with the definition, within the tolerance of the op.
func TestWinogradLast(t *testing.T) {
	always(t)
	early(t)
	seed := uint64(140)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		seed++
		r := kerneltest.RNG(seed)
		exists := winogradLastOn(p.Set).in != nil // NEON has no such kernel
		for i := range kerneltest.Some(24) {
			g := drawWinogradLast(r)
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
			if by := g.Packed.winograd != nil; by != (exists && !g.Packed.direct) {
				t.Errorf("%s: by Winograd's algorithm %v, directly %v", describeConv(g), by, g.Packed.direct)
			}
		}
	})
}

// TestWinogradLastThreads checks that the bits of a result depend neither on the number of threads nor on which of them
// runs a task.
func TestWinogradLastThreads(t *testing.T) {
	always(t)
	for seed := range uint64(8) {
		r := kerneltest.RNG(160 + seed)
		g := drawWinogradLast(r)
		if seed%4 == 3 { // an image that is computed directly
			g.X[r.IntN(len(g.X))] = 1e20
		}
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			g.Packed = new(Packed)
			g.Out = make([]float32, g.N*elementwise.Volume(g.OutSize())*g.Cout)
			for range 2 {
				Convolve(p, g)
			}
			return g.Out
		})
	}
}

// TestWinogradLastImages checks that a pixel that rules out the algorithm does so for its own image only, and that the
// bits of the others do not depend on it.
func TestWinogradLastImages(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		if winogradLastOn(p.Set).in == nil { // NEON has no such kernel
			return
		}
		r := kerneltest.RNG(170)
		g := conv2D(9, 32, 32, 3, 1, 1, 1, false)
		g.Last, g.N = true, 3
		drawValues(r, &g)
		g.Packed = new(Packed)
		size := elementwise.Volume(g.OutSize()) * g.Cout
		run := func() []float32 {
			g.Out = make([]float32, g.N*size)
			Convolve(p, &g)
			return g.Out
		}
		first := run()
		if g.Packed.winograd == nil {
			t.Fatal("not computed by Winograd's algorithm")
		}
		g.X[len(g.X)/2] = 1e25
		for i, v := range run() {
			if n := i / size; n != 1 && v != first[i] {
				t.Fatalf("element %d of image %d is %v, and %v beside other images", i%size, n, v, first[i])
			}
		}
		kerneltest.Compare(t, describeConv(&g), g.Out[size:2*size], conv64(&g)[size:2*size], 1e-4, 1e-5)
	})
}

// BenchmarkWinogradLast compares Winograd's algorithm with direct convolution on one thread, with channels last.
func BenchmarkWinogradLast(b *testing.B) {
	before := winogradLastAlways
	winogradLastAlways = true
	b.Cleanup(func() { winogradLastAlways = before })
	for _, l := range []struct{ n, h, w, cin, cout int }{
		{1, 56, 56, 64, 64}, {1, 28, 28, 128, 128}, {1, 14, 14, 256, 256}, {1, 7, 7, 512, 512}, {2, 16, 16, 64, 64},
		{1, 4, 8, 256, 256}, {1, 4, 8, 512, 512}, {1, 5, 5, 256, 256}, {1, 4, 4, 256, 256}, {1, 3, 3, 256, 256},
		{1, 2, 2, 64, 64}, {1, 2, 4, 64, 64}, {1, 16, 16, 8, 64}, {1, 16, 16, 16, 16}, {1, 16, 16, 16, 32},
		{1, 16, 16, 32, 32}, {1, 16, 16, 32, 64}, {1, 16, 16, 64, 8},
	} {
		a := conv2D(0, l.cin, l.cout, 3, 1, 1, 1, false)
		a.N, a.In[1], a.In[2], a.Last = l.n, l.h, l.w, true
		for _, direct := range []bool{true, false} {
			run := a
			run.Packed = &Packed{direct: direct}
			b.Run(fmt.Sprintf("%dx%dx%d,%d-%d,direct=%v", l.n, l.h, l.w, l.cin, l.cout, direct),
				func(b *testing.B) { measureLayer(b, run) })
		}
	}
}
