package conv

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

func TestConvScratch(t *testing.T) {
	r := kerneltest.RNG(8)
	for i := range kerneltest.Some(75) {
		g := randomConv(r, i%3 == 1)
		switch i % 7 {
		case 0:
			g = drawFew(r)
		case 1:
			g = drawPatches(r)
		case 2:
			g = drawWinograd(r)
		case 3:
			g = drawLines(r)
		case 4:
			g = drawImages(r, i/6)
		case 5:
			g = drawTiny(r)
		case 6:
			g = drawWinogradLast(r)
		}
		g.Out = make([]float32, g.N*elementwise.Volume(g.OutSize())*g.Cout)
		larger := *g // memory for a larger convolution must suffice
		larger.N, larger.In[2] = g.N+r.IntN(2), g.In[2]+r.IntN(2)*40
		kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
			need := larger.ScratchSize(p)
			kerneltest.Reserve(t, p, need)
			g.Packed = new(Packed)
			need.Packed = g.PackedSize(p, false)
			for range 2 { // workers may have images of their own in the second call
				Convolve(p, g)
			}
			kept := pool.FloatBytes(len(g.Packed.left), len(g.Packed.right), len(g.Packed.pixels), len(g.Packed.tiny),
				len(g.Packed.phases), len(g.Packed.winograd), len(g.Packed.last))
			if kept > need.Packed {
				t.Errorf("packed weights of %s take %d bytes, more than %d", describeConv(g), kept, need.Packed)
			}
			c := pool.Keep[convolution](p)
			other := pool.FloatBytes(cap(c.patch), cap(c.bias),
				cap(c.row)) + pool.SizeOf[product.GemmArgs](cap(c.each)) +
				pool.SizeOf[tap](cap(c.taps)) + pool.SizeOf[phase](cap(c.phases)) +
				pool.SizeOf[int](cap(c.at)+cap(c.places)) + pool.SizeOf[lastRun](cap(c.last.line)) +
				pool.SizeOf[lastSpan](cap(c.last.spans))
			kerneltest.Fits(t, p, need, other, fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(),
				describeConv(g)))
		})
	}
}

// TestEmptyConv checks that convolutions without images, channels of the result or pixels do nothing.
func TestEmptyConv(t *testing.T) {
	r := kerneltest.RNG(9)
	draws := []func(i int) *Args{
		func(i int) *Args { return randomConv(r, i%2 == 1) },
		func(int) *Args { return drawFew(r) },
		func(int) *Args { return drawPatches(r) },
		func(int) *Args { return drawWinograd(r) },
		func(int) *Args { return drawLines(r) },
		func(i int) *Args { return drawImages(r, i) },
		func(int) *Args { return drawTiny(r) },
		func(int) *Args { return drawWinogradLast(r) },
	}
	seen := 0
	for i := range kerneltest.Some(48) {
		g := draws[i%len(draws)](i)
		switch i / len(draws) % 3 {
		case 0:
			g.N = 0
		case 1:
			g.Stride[1], g.In[1] = 1, max(0, g.Dilation[1]*(g.Kernel[1]-1)-2*g.Pad[1])
		case 2:
			g.Cout, g.Groups, g.Bias = 0, 1, nil
		}
		g.Epilogue = Epilogue{}
		if !g.empty() {
			continue
		}
		seen++
		g.Out = []float32{}
		kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
			kerneltest.Reserve(t, p, g.ScratchSize(p))
			if n := g.PackedSize(p, false); n != 0 {
				t.Errorf("packed weights of %s take %d bytes", describeConv(g), n)
			}
			g.Packed = new(Packed)
			Convolve(p, g)
		})
	}
	if seen == 0 {
		t.Error("no convolution is empty")
	}
}
