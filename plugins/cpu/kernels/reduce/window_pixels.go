package reduce

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// windowPixels computes pixels with adjacent channels one by one: sums stay in registers while a routine goes through
// the pixels of a window.
type windowPixels windowLines

const (
	pixelLeast = 8  // channels from which this is faster than going through lines
	pixelArea  = 64 // pixels of a window up to which it is, and up to which float32 has room for sums
)

// inPixels reports whether windowPixels computes the windows.
func (g *WindowArgs) inPixels(s *isa.Set) bool {
	area := g.most(1) * g.most(2)
	if On(s).Folds == nil || On(s).Folds.pixels[g.Op] == nil || g.Inner < pixelLeast || area > pixelArea {
		return false
	}
	if g.In[0] != 1 || g.Out[0] != 1 || !g.Adaptive && (g.Kernel[0] != 1 || g.Pad[0] != 0) {
		return false
	}
	return g.Adaptive || g.Stride[2] > 1 // windows at every pixel share much, which lines compute once
}

func (x *windowPixels) Do(lo, hi, worker int) {
	g := (*windowLines)(x)
	s, sc := g.p.Set, g.p.Scratch(worker)
	mark := sc.Mark()
	line := g.Out[2] * g.Inner
	count := sc.Floats(line)
	vec.Fill(count, float32(g.Kernel[1]*g.Kernel[2]))
	first, last := g.wholeWindows()
	for t := lo; t < hi; t++ {
		h0, h1 := g.window(1, t%g.Out[1])
		y := g.dst[t*line : (t+1)*line]
		image := g.src[t/g.Out[1]*g.In[1]*g.In[2]*g.Inner:][:g.In[1]*g.In[2]*g.Inner]
		for i := 0; i < g.Out[2]; {
			n := 1
			if i == first {
				n = max(1, last-first)
			}
			w0, w1 := g.window(2, i)
			if g.Adaptive {
				vec.Fill(count[i*g.Inner:(i+1)*g.Inner], float32((h1-h0)*(w1-w0)))
			}
			g.pixels(s, y[i*g.Inner:(i+n)*g.Inner], image, h0, h1, w0, w1)
			i += n
		}
		if g.Op == Mean {
			elementwise.On(s).Binary[elementwise.Div](y, y, count)
		}
	}
	sc.Release(mark)
}

// wholeWindows returns the range of windows along a line without padding and of the same size.
func (g *WindowArgs) wholeWindows() (first, last int) {
	if g.Adaptive {
		return 0, 0
	}
	first = pool.CeilDiv(g.Pad[2], g.Stride[2])
	for last = first; last < g.Out[2] && last*g.Stride[2]-g.Pad[2]+g.Kernel[2] <= g.In[2]; last++ {
	}
	return first, last
}

// pixels reduces windows of the same size to adjacent pixels y. The first is that of lines [h0, h1) and columns [w0, w1).
func (g *windowLines) pixels(s *isa.Set, y, image []float32, h0, h1, w0, w1 int) {
	if h0 >= h1 || w0 >= w1 {
		vec.Fill(y, windowFolds[g.Op].start)
		return
	}
	n, down := len(y)/g.Inner, g.In[2]*g.Inner
	x := image[h0*down+w0*g.Inner:]
	_ = x[(n-1)*g.Stride[2]*g.Inner+(h1-h0-1)*down+(w1-w0)*g.Inner-1]
	On(s).Folds.pixels[g.Op](&y[0], &x[0], g.Inner, w1-w0, h1-h0, down, g.Stride[2]*g.Inner, n)
}
