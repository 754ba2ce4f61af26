package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// conv64 computes a convolution in float64 by its definition. A transpose swaps the roles of input and output.
func conv64(g *Args) []float64 {
	made := g.OutSize()
	out := make([]float64, g.N*elementwise.Volume(made)*g.Cout)
	cg, og, taps := g.Cin/g.Groups, g.Cout/g.Groups, elementwise.Volume(g.Kernel)
	place := func(n, c, channels, i, volume int) int {
		if g.Last {
			return (n*volume+i)*channels + c
		}
		return (n*channels+c)*volume + i
	}
	index := func(i int, size [3]int) [3]int {
		return [3]int{i / (size[1] * size[2]), i / size[2] % size[1], i % size[2]}
	}
	from, to := made, g.In // for each element in from, taps are elements of to
	if g.Transposed {
		from, to = g.In, made
	}
	type pair struct{ x, y int } // an element of the input and one of the output
	pairs := make([][]pair, taps)
	for t := range taps {
		tap := index(t, g.Kernel)
		for i := range elementwise.Volume(from) {
			a, at, inside := index(i, from), 0, true
			for k := range 3 {
				b := a[k]*g.Stride[k] - g.Pad[k] + tap[k]*g.Dilation[k]
				inside = inside && b >= 0 && b < to[k]
				at = at*to[k] + b
			}
			switch {
			case inside && g.Transposed:
				pairs[t] = append(pairs[t], pair{i, at})
			case inside:
				pairs[t] = append(pairs[t], pair{at, i})
			}
		}
	}
	inputs, outputs := elementwise.Volume(g.In), elementwise.Volume(made)
	for n := range g.N {
		for o := range g.Cout {
			for i := range outputs {
				if g.Bias != nil {
					out[place(n, o, g.Cout, i, outputs)] = float64(g.Bias[o])
				}
			}
			for c := range cg {
				ci := o/og*cg + c
				for t := range taps {
					wi := (o*cg+c)*taps + t
					if g.Transposed {
						wi = (ci*og+o%og)*taps + t
					}
					w := float64(kerneltest.WeightAt(g.Weight, wi))
					for _, p := range pairs[t] {
						out[place(n, o, g.Cout, p.y, outputs)] += w * float64(g.X[place(n, ci, g.Cin, p.x, inputs)])
					}
				}
			}
		}
	}
	for i := range out {
		if g.Addend != nil {
			out[i] += float64(g.Addend[i])
		}
		out[i] = elementwise.Exact(g.Act, out[i])
		if g.Residual != nil {
			out[i] += float64(g.Residual[i])
		}
	}
	return out
}

// randomConv draws convolutions until conv64 needs at most eight million products, or about 50 ms, for one.
func randomConv(r *rand.Rand, transposed bool) *Args {
	for {
		g := drawConv(r, transposed)
		from := g.OutSize()
		if transposed {
			from = g.In
		}
		if g.N*g.Cout*g.Cin/g.Groups*elementwise.Volume(g.Kernel)*elementwise.Volume(from) <= 8<<20 {
			return g
		}
	}
}

func drawConv(r *rand.Rand, transposed bool) *Args {
	one := [3]int{1, 1, 1}
	g := &Args{Transposed: transposed, N: 1 + r.IntN(2), In: one, Kernel: one, Stride: one, Dilation: one,
		Groups: 1 + r.IntN(3)*r.IntN(2), Last: r.IntN(2) == 0}
	axes := 1 + r.IntN(3)
	most := []int{0, 90, 20, 8}[axes]
	for i := 3 - axes; i < 3; i++ {
		g.Kernel[i], g.Stride[i], g.Dilation[i] = 1+r.IntN(4), 1+r.IntN(3), 1+r.IntN(2)
		g.In[i] = 7 + r.IntN(most)
		if r.IntN(2) == 0 {
			g.Pad[i] = r.IntN(g.Kernel[i])
		}
		if transposed && r.IntN(3) == 0 {
			g.OutputPad[i] = r.IntN(max(g.Stride[i], g.Dilation[i]))
		}
	}
	g.Cin, g.Cout = g.Groups*(1+r.IntN(6)), g.Groups*(1+r.IntN(40))
	switch r.IntN(7) {
	case 0: // patches that do not overlap
		g.Stride, g.Dilation, g.Pad, g.OutputPad, g.Groups = g.Kernel, one, [3]int{}, [3]int{}, 1
	case 1: // one tap
		g.Kernel, g.Stride, g.Pad, g.Dilation, g.OutputPad = one, one, [3]int{}, one, [3]int{}
	case 2: // depthwise
		g.Groups = 1 + r.IntN(37)
		g.Cin, g.Cout = g.Groups, g.Groups*(1+r.IntN(2)*r.IntN(3))
	case 3: // kernels wider than a vector
		g.Kernel[2], g.Stride[2], g.Dilation[2] = 4+r.IntN(20), 1+r.IntN(24), 1
		g.In[2] += 10 * g.Kernel[2]
	case 4: // many channels
		g.Cin, g.Cout = g.Groups*(16+r.IntN(30)), g.Groups*(1+r.IntN(40))
		for i := range g.In {
			g.In[i] = min(g.In[i], 12)
		}
	}
	drawValues(r, g)
	return g
}

// drawValues draws the operands of a convolution whose sizes are known.
func drawValues(r *rand.Rand, g *Args) {
	g.X = kerneltest.Randoms(r, g.N*elementwise.Volume(g.In)*g.Cin)
	g.Weight = kerneltest.RandomWeights(r, []dtype.DType{dtype.F32, dtype.F16, dtype.BF16}[r.IntN(3)],
		g.Cin*g.Cout/g.Groups*elementwise.Volume(g.Kernel))
	if r.IntN(2) == 0 {
		g.Bias = kerneltest.Randoms(r, g.Cout)
	}
	if g.Transposed || r.IntN(3) == 0 {
		return
	}
	g.Act = []elementwise.UnaryOp{elementwise.Identity, elementwise.Relu, elementwise.LeakyRelu.With(0.25)}[r.IntN(3)]
	size := g.N * elementwise.Volume(g.OutSize()) * g.Cout
	if r.IntN(2) == 0 {
		g.Addend = kerneltest.Randoms(r, size)
	}
	if r.IntN(2) == 0 {
		g.Residual = kerneltest.Randoms(r, size)
	}
}

func describeConv(g *Args) string {
	return fmt.Sprintf(
		"transposed %v, %d x %v, channels %d to %d, kernel %v, stride %v pad %v and %v dilation %v groups %d, last %v, "+
			"act %v, addend %v, residual %v",
		g.Transposed, g.N, g.In, g.Cin, g.Cout,
		g.Kernel, g.Stride, g.Pad, g.OutputPad, g.Dilation, g.Groups, g.Last, g.Act, g.Addend != nil, g.Residual != nil)
}

// early lets tasks apply epilogues, except to the smallest results.
func early(t *testing.T) {
	before := lateSize
	lateSize = 1 << 9
	t.Cleanup(func() { lateSize = before })
}

func TestConv(t *testing.T) {
	early(t)
	seed := uint64(0) // each pool gets other cases, since conv64 takes most of the time
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		seed++
		r := kerneltest.RNG(seed)
		for i := range kerneltest.Some(50) {
			g := randomConv(r, i%2 == 1)
			if i%10 == 0 { // an infinite weight, which must not be multiplied by padding
				g.Weight = stored.F32(kerneltest.Randoms(r, g.Weight.Len()))
				g.Weight.Floats[r.IntN(g.Weight.Len())] = float32(math.Inf(1))
			}
			want := conv64(g)
			dst, check := kerneltest.Guarded(len(want))
			g.Out = dst
			for _, g.Packed = range []*Packed{nil, {}} {
				for range 2 { // the second call finds packed weights, if it may keep them
					clear(dst)
					Convolve(p, g)
					check(t, describeConv(g))
					kerneltest.Compare(t, describeConv(g), dst, want, 1e-5, 1e-5)
				}
			}
		}
	})
}

// TestConvFew compares convolutions of small images, with weights that are packed once, with the definition.
func TestConvFew(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(31)
		for i := range kerneltest.Some(60) {
			g := drawFew(r)
			if i%10 == 0 {
				g.Weight = stored.F32(kerneltest.Randoms(r, g.Weight.Len()))
				g.Weight.Floats[r.IntN(g.Weight.Len())] = float32(math.NaN())
			}
			want := conv64(g)
			dst, check := kerneltest.Guarded(len(want))
			g.Out, g.Packed = dst, new(Packed)
			for range 2 {
				clear(dst)
				Convolve(p, g)
				check(t, describeConv(g))
				kerneltest.Compare(t, describeConv(g), dst, want, 1e-5, 1e-5)
			}
		}
	})
}

// TestConvPatches compares convolutions whose kernels hardly overlap with the definition.
func TestConvPatches(t *testing.T) {
	early(t)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(37)
		for i := range kerneltest.Some(40) {
			g := drawPatches(r)
			if i%10 == 0 { // there is no padding, so this is a number like any other
				g.X[r.IntN(len(g.X))] = float32(math.Inf(1))
				g.Weight = stored.F32(kerneltest.Randoms(r, g.Weight.Len()))
				g.Weight.Floats[r.IntN(g.Weight.Len())] = float32(math.NaN())
			}
			want := conv64(g)
			dst, check := kerneltest.Guarded(len(want))
			g.Out, g.Packed = dst, new(Packed)
			for range 2 {
				clear(dst)
				Convolve(p, g)
				check(t, describeConv(g))
				kerneltest.Compare(t, describeConv(g), dst, want, 1e-5, 1e-5)
			}
			if g.Packed.patches == nil && (g.Cin > 1 || elementwise.Volume(g.Kernel) > channelTaps) {
				t.Errorf("%s was computed in another way", describeConv(g))
			}
		}
	})
}

// drawPatches draws a convolution whose kernels do not overlap, or only a little.
func drawPatches(r *rand.Rand) *Args {
	one := [3]int{1, 1, 1}
	g := &Args{N: 1 + r.IntN(3), In: one, Kernel: one, Stride: one, Dilation: one, Groups: 1}
	for i := r.IntN(3); i < 3; i++ {
		g.Kernel[i] = 1 + r.IntN(3)
		if i == 2 {
			g.Kernel[i] = patchRun + r.IntN(6)
		}
		g.Stride[i] = g.Kernel[i] + r.IntN(2)*r.IntN(3)
		g.In[i] = g.Kernel[i] + r.IntN(g.Stride[i]*(1+r.IntN(5)))
	}
	if r.IntN(4) == 0 {
		g.In[2] = g.Stride[2] * 32 // whole vectors
	}
	if r.IntN(3) == 0 { // they overlap a little
		g.Stride = [3]int{g.Kernel[0], g.Kernel[1], patchStride}
		g.Kernel[2] = patchStride + 1 + r.IntN(6)
		g.In[2] = g.Kernel[2] + r.IntN(70)
	}
	g.Cin, g.Cout = 1+r.IntN(4), 1+r.IntN(50)
	drawValues(r, g)
	return g
}

// drawFew draws a convolution of a small image, often with several images and groups.
func drawFew(r *rand.Rand) *Args {
	one := [3]int{1, 1, 1}
	g := &Args{N: 1 + r.IntN(9), In: one, Kernel: one, Stride: one, Dilation: one, Groups: 1 + r.IntN(3)*r.IntN(2)}
	if r.IntN(3) == 0 {
		g.N = 1
	}
	for i := 1 + r.IntN(2); i < 3; i++ {
		g.Kernel[i], g.Stride[i], g.Dilation[i] = 1+r.IntN(3), 1+r.IntN(2), 1+r.IntN(2)
		g.Pad[i] = r.IntN(g.Kernel[i])
		g.In[i] = max(1, 1+g.Dilation[i]*(g.Kernel[i]-1)-2*g.Pad[i]) + r.IntN(4+3*r.IntN(2))
	}
	if r.IntN(3) == 0 {
		g.Kernel, g.Stride, g.Pad = one, one, [3]int{}
	}
	g.Cin, g.Cout = g.Groups*(1+r.IntN(70)), g.Groups*(1+r.IntN(90))
	if r.IntN(4) == 0 {
		g.Cout = g.Groups * (64 + r.IntN(100))
	}
	if r.IntN(4) == 0 { // depthwise
		g.Groups = 1 + r.IntN(70)
		g.Cin, g.Cout = g.Groups, g.Groups
	}
	drawValues(r, g)
	return g
}

func TestConvThreads(t *testing.T) {
	for seed := range uint64(12) {
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			g := randomConv(kerneltest.RNG(2+seed), seed%3 == 1)
			switch seed % 4 {
			case 0, 2:
				g = drawFew(kerneltest.RNG(seed))
			case 3:
				g = drawPatches(kerneltest.RNG(seed))
			}
			g.Packed = new(Packed)
			g.In[2] += 50
			g.Addend, g.Residual, g.Act = nil, nil, elementwise.Identity
			drawValues(kerneltest.RNG(3+seed), g)
			g.Out = make([]float32, g.N*elementwise.Volume(g.OutSize())*g.Cout)
			Convolve(p, g)
			return g.Out
		})
	}
}

// conv2D returns a convolution of a square image by a square kernel.
func conv2D(size, cin, cout, kernel, stride, pad, groups int, last bool) Args {
	return Args{N: 1, In: [3]int{1, size, size}, Cin: cin, Cout: cout, Kernel: [3]int{1, kernel, kernel},
		Stride: [3]int{1, stride, stride},
		Pad:    [3]int{0, pad, pad}, Dilation: [3]int{1, 1, 1}, Groups: groups, Last: last}
}

func BenchmarkConv(b *testing.B) {
	video := Args{N: 1, In: [3]int{8, 56, 56}, Cin: 64, Cout: 64, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Groups: 1}
	up := conv2D(64, 256, 64, 2, 2, 0, 1, false)
	up.Transposed = true
	voice := Args{Transposed: true, N: 1, In: [3]int{1, 1, 512}, Cin: 256, Cout: 128, Kernel: [3]int{1, 1, 16},
		Stride: [3]int{1, 1, 8}, Pad: [3]int{0, 0, 4},
		Dilation: [3]int{1, 1, 1}, Groups: 1}
	for _, c := range []struct {
		name string
		g    Args
	}{
		{"sam_neck3x3_last", conv2D(64, 256, 256, 3, 1, 1, 1, true)},
		{"sam_neck3x3", conv2D(64, 256, 256, 3, 1, 1, 1, false)},
		{"sam_patches", conv2D(1024, 3, 768, 16, 16, 0, 1, false)},
		{"resnet_stem7x7", conv2D(224, 3, 64, 7, 2, 3, 1, false)},
		{"resnet_3x3_56", conv2D(56, 64, 64, 3, 1, 1, 1, false)},
		{"resnet_3x3_28_s2", conv2D(56, 128, 128, 3, 2, 1, 1, false)},
		{"resnet_3x3_14", conv2D(14, 256, 256, 3, 1, 1, 1, false)},
		{"resnet_3x3_7", conv2D(7, 512, 512, 3, 1, 1, 1, false)},
		{"resnet_1x1_56", conv2D(56, 256, 64, 1, 1, 0, 1, false)},
		{"resnet_1x1_14", conv2D(14, 256, 1024, 1, 1, 0, 1, false)},
		{"depthwise_112", conv2D(112, 32, 32, 3, 1, 1, 32, false)},
		{"depthwise_112_s2", conv2D(112, 96, 96, 3, 2, 1, 96, false)},
		{"depthwise_14", conv2D(14, 512, 512, 3, 1, 1, 512, false)},
		{"depthwise_14_last", conv2D(14, 512, 512, 3, 1, 1, 512, true)},
		{"video3x3x3", video},
		{"upsample2x2", up},
		{"upsample16_1d", voice},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := kerneltest.NewPool(b, 0, "")
			g := c.g
			r := kerneltest.RNG(1)
			area := elementwise.Volume(g.OutSize())
			g.X, g.Weight, g.Out = kerneltest.Randoms(r, elementwise.Volume(g.In)*g.Cin),
				stored.F32(kerneltest.Randoms(r, g.Cin*g.Cout/g.Groups*elementwise.Volume(g.Kernel))),
				make([]float32, area*g.Cout)
			for b.Loop() {
				Convolve(p, &g)
			}
			if g.Transposed {
				area = elementwise.Volume(g.In)
			}
			b.ReportMetric(
				float64(b.N)*2*float64(area*g.Cout*g.Cin/g.Groups*elementwise.Volume(g.Kernel))/b.Elapsed().Seconds()/1e9,
				"GFLOP/s")
		})
	}
}
