package conv

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Depthwise convolutions of images with long lines and channels first, without a copy. Masks remove what taps read
// before and after a line of the image. A line is computed in whole vectors. What the last one stores past the end of
// the line is overwritten by the next line.

// byLine reports whether alongLines computes a convolution for which byChannel is true.
func (g *convolution) byLine() bool {
	if g.Last || g.In[0] != 1 || g.Kernel[0] != 1 || g.Pad[0] != 0 || g.Stride[2] > 2 ||
		vec.On(g.p.Set).StencilLines == nil {
		return false
	}
	lanes, n := g.p.Set.Lanes, g.lineRoom()
	lo, hi := g.inner(2)
	return 4*g.out[2] >= 3*n && lo <= lanes && hi >= n-lanes // only the first vector and the last one need masks
}

// inner returns the range of elements along an axis whose taps are all inside of x.
func (g *convolution) inner(axis int) (lo, hi int) {
	step := g.Stride[axis]
	lo = pool.CeilDiv(g.Pad[axis], step)
	return lo, min(g.out[axis], floorDiv(g.In[axis]-1+g.Pad[axis]-g.span[axis], step)+1)
}

// lineRoom returns the number of floats of a line of the result, in whole vectors.
func (g *convolution) lineRoom() int { return pool.CeilDiv(g.out[2], g.p.Set.Lanes) * g.p.Set.Lanes }

// lineSource returns the number of floats that the taps of a line read, with padding, in whole vectors.
func (g *convolution) lineSource() int {
	return g.span[1]*g.In[2] + g.span[2] + g.Stride[2]*g.lineRoom()
}

// lineScratch returns the bytes that a worker needs.
func (g *convolution) lineScratch() int64 { return pool.FloatBytes(g.lineRoom(), g.lineSource()) }

// alongLines computes the convolution. Its weights are in g.weights.
func (g *convolution) alongLines() {
	lanes, n := g.p.Set.Lanes, g.lineRoom()
	for i := range g.masks {
		g.masks[i] = g.p.Shared.Floats(len(g.taps) * lanes)
	}
	g.at = g.at[:0]
	for t := range g.taps {
		at := g.taps[t].at
		g.at = append(g.at, (at[1]+g.Pad[1])*g.In[2]+at[2]+g.Pad[2])
		for i := range lanes {
			for m, w := range [2]int{i, n - lanes + i} {
				x, bits := w*g.Stride[2]+at[2], uint32(0)
				if x >= 0 && x < g.In[2] {
					bits = math.MaxUint32
				}
				g.masks[m][t*lanes+i] = math.Float32frombits(bits)
			}
			g.masks[2][t*lanes+i] = math.Float32frombits(math.MaxUint32)
		}
	}
	g.p.Share(g.N*g.Cout, 1+pool.Grain/(elementwise.Volume(g.out)*len(g.taps)), (*convAlong)(g))
}

// convAlong computes channels of the result, counted over images.
type convAlong convolution

func (x *convAlong) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	sc, taps := g.p.Scratch(worker), len(g.taps)
	top, bottom := g.inner(1)
	for t := lo; t < hi; t++ {
		o := t % g.Cout
		c := lineChannel{from: (t/g.Cout*g.Cin + o/g.og) * elementwise.Volume(g.In),
			dst: g.Out[t*elementwise.Volume(g.out):][:elementwise.Volume(g.out)], weights: g.weights[o*taps:][:taps]}
		if g.Bias != nil {
			c.bias = g.Bias[o]
		}
		for h := 0; h < g.out[1]; {
			// The lines all of whose taps are inside of x are computed at once, except where vectors would read past x
			// or write past the channel.
			end := h + 1
			if h >= top && h < bottom && g.lineFits(&c, h, h+1) {
				for end = bottom; !g.lineFits(&c, h, end); {
					end--
				}
			}
			g.alongSome(&c, h, end, sc)
			h = end
		}
		g.finish(t*elementwise.Volume(g.out), elementwise.Volume(g.out))
	}
}

// A lineChannel is a channel of the result. The channel of x that it reads begins at from.
type lineChannel struct {
	from         int
	dst, weights []float32
	bias         float32
}

// lineFits reports whether lines [h, end) can be computed without buffers, if all taps are inside of x.
func (g *convolution) lineFits(c *lineChannel, h, end int) bool {
	n := g.lineRoom()
	first := c.from + (h*g.Stride[1]-g.Pad[1])*g.In[2] - g.Pad[2]
	last := first + (end-1-h)*g.Stride[1]*g.In[2] + g.lineSource()
	return first >= 0 && last <= len(g.X) && (end-1)*g.out[2]+n <= len(c.dst)
}

// alongSome computes lines [h, end). If there are several, lineFits is true.
func (g *convolution) alongSome(c *lineChannel, h, end int, sc *pool.Scratch) {
	lanes, n, wide, kernel := g.p.Set.Lanes, g.lineRoom(), g.In[2], g.Kernel[2]
	first, last := g.tapLines(h)
	if first >= last {
		vec.Fill(c.dst[h*g.out[2]:end*g.out[2]], c.bias)
		return
	}
	stencil := vec.On(g.p.Set).StencilLines
	if g.Stride[2] == 2 {
		stencil = vec.On(g.p.Set).StencilEvenLines
	}
	at, w, masks, most := g.at, c.weights, g.masks, g.at[len(g.at)-1]
	if first > 0 || last < g.Kernel[1] {
		sc.At = sc.At[:0]
		for _, k := range g.at[first*kernel : last*kernel] {
			sc.At = append(sc.At, k-first*g.Dilation[1]*wide)
		}
		at, w, most = sc.At, w[first*kernel:last*kernel], sc.At[len(sc.At)-1]
		for i := range masks {
			masks[i] = masks[i][first*kernel*lanes : last*kernel*lanes]
		}
	}
	y := h*g.Stride[1] - g.Pad[1]
	from := c.from + (y+first*g.Dilation[1])*wide - g.Pad[2]
	if end > h+1 || first == 0 && last == g.Kernel[1] && g.lineFits(c, h, end) {
		stencil(c.dst[h*g.out[2]:], g.out[2], g.X[from:], g.Stride[1]*wide, at, most, w, c.bias, masks, n, end-h)
		return
	}
	mark := sc.Mark()
	made, copied := sc.Floats(n), sc.Floats(most+g.Stride[2]*n)
	before := max(0, -from)
	clear(copied[:before])
	clear(copied[before+copy(copied[before:], g.X[from+before:]):])
	stencil(made, n, copied, 0, at, most, w, c.bias, masks, n, 1)
	copy(c.dst[h*g.out[2]:][:g.out[2]], made)
	sc.Release(mark)
}

// tapLines returns the range of lines of the kernel that are inside of the image for line h of the result.
func (g *convolution) tapLines(h int) (first, last int) {
	y, d := h*g.Stride[1]-g.Pad[1], g.Dilation[1]
	first = min(g.Kernel[1], max(0, pool.CeilDiv(-y, d)))
	return first, max(first, min(g.Kernel[1], floorDiv(g.In[1]-1-y, d)+1))
}
