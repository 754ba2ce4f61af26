package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// drawLast draws a convolution with channels last whose tiles have any shape: small and wide images, lines that several
// tasks share, volumes at whose edges planes are added one by one, and padding beyond the kernel.
func drawLast(r *rand.Rand) *Args {
	one := [3]int{1, 1, 1}
	g := &Args{Last: true, N: 1 + r.IntN(3), In: one, Kernel: one, Stride: one, Dilation: one, Groups: 1,
		Transposed: r.IntN(4) == 0}
	axes, most := 1+r.IntN(3), 1+r.IntN(14)
	for i := 3 - axes; i < 3; i++ {
		g.Kernel[i], g.Stride[i], g.Dilation[i] = 1+r.IntN(5), 1+r.IntN(3), 1+r.IntN(2)
		g.In[i] = 1 + r.IntN(most)
		if g.Transposed {
			g.Pad[i] = r.IntN(g.Kernel[i])
		} else {
			g.Pad[i] = r.IntN(g.Kernel[i]*g.Dilation[i] + 2)
		}
		for g.OutSize()[i] < 1 || !g.Transposed && g.In[i]+2*g.Pad[i] <= (g.Kernel[i]-1)*g.Dilation[i] {
			g.In[i]++
		}
	}
	g.Cin, g.Cout = 1+r.IntN(20), 1+r.IntN(100)
	switch r.IntN(6) {
	case 0: // depthwise
		g.Groups = 2 + r.IntN(90)
		g.Cin, g.Cout = g.Groups, g.Groups*(1+r.IntN(4)/3)
	case 1: // several channels a group
		g.Groups = 2 + r.IntN(4)
		g.Cin, g.Cout = g.Groups*(1+r.IntN(9)), g.Groups*(1+r.IntN(40))
	case 2: // a line that tasks share
		g.In[2], g.Cin, g.Cout = 100+r.IntN(300), 1+r.IntN(4), 1+r.IntN(150)
		g.In[1], g.Kernel[1], g.Pad[1] = 1, 1, 0
		g.In[0], g.Kernel[0], g.Pad[0] = 1, 1, 0
	case 3: // patches
		g.Transposed, g.Cin, g.Pad, g.Dilation = false, 1+r.IntN(9), [3]int{}, one
		for i := 3 - axes; i < 3; i++ {
			g.Stride[i] = max(1, g.Kernel[i]-r.IntN(2))
			g.In[i] = g.Kernel[i]*(1+r.IntN(7)) + r.IntN(2)
		}
	}
	return g
}

// TestConvLast compares convolutions with channels last with the definition.
func TestConvLast(t *testing.T) {
	early(t)
	seed := uint64(70)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		seed++
		r := kerneltest.RNG(seed)
		for i := 0; i < kerneltest.Some(60); {
			g := drawLast(r)
			if g.N*g.Cout*g.Cin/g.Groups*elementwise.Volume(g.Kernel)*elementwise.Volume(g.OutSize()) > 2<<20 {
				continue
			}
			i++
			drawValues(r, g)
			if special := float32(math.Inf(1 - i%4)); i%4 < 2 && r.IntN(2) == 0 {
				g.X[r.IntN(len(g.X))] = special
				g.X[r.IntN(len(g.X))] = float32(math.NaN())
			} else if i%4 == 2 {
				g.Weight = stored.F32(kerneltest.Randoms(r, g.Weight.Len()))
				g.Weight.Floats[r.IntN(g.Weight.Len())] = special
			}
			want := conv64(g)
			dst, check := kerneltest.Guarded(len(want))
			g.Out = dst
			for _, g.Packed = range []*Packed{nil, {}} {
				for range 2 {
					clear(dst)
					Convolve(p, g)
					check(t, describeConv(g))
					kerneltest.Compare(t, describeConv(g), dst, want, 1e-5, 1e-5)
				}
			}
		}
	})
}

// TestConvLastThreads checks that the bits of a result do not depend on the number of threads.
func TestConvLastThreads(t *testing.T) {
	for seed := range uint64(12) {
		r := kerneltest.RNG(90 + seed)
		g := drawLast(r)
		g.In[2] += r.IntN(40)
		drawValues(r, g)
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			g.Packed = new(Packed)
			g.Out = make([]float32, g.N*elementwise.Volume(g.OutSize())*g.Cout)
			Convolve(p, g)
			return g.Out
		})
	}
}
