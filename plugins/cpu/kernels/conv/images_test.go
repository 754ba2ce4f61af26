package conv

import (
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// drawImages draws a convolution of several images.
func drawImages(r *rand.Rand, kind int) *Args {
	g := randomConv(r, false)
	switch kind % 5 {
	case 1:
		g = drawFew(r)
	case 2:
		g = drawWinograd(r)
	case 3:
		g = drawLines(r)
	case 4:
		g = drawTiny(r)
	}
	g.N, g.Last, g.Epilogue = []int{2, 3, 6, 12, 13}[r.IntN(5)], false, Epilogue{}
	drawValues(r, g)
	g.Out = make([]float32, g.N*g.Cout*elementwise.Volume(g.OutSize()))
	return g
}

// TestImages checks that workers with images of their own, as in all calls but the first, compute the same bits as one
// thread.
func TestImages(t *testing.T) {
	own := 0
	for i := range kerneltest.Some(24) {
		g := drawImages(kerneltest.RNG(uint64(90+i)), i)
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			g.Packed = new(Packed)
			Convolve(p, g)
			clear(g.Out)
			if k := (convolution{Args: *g, p: p}); k.byImage() {
				own++
			}
			Convolve(p, g)
			return append([]float32(nil), g.Out...)
		})
	}
	if own == 0 {
		t.Error("no worker had images of its own")
	}
}
