package conv

import "github.com/rlx-go/rlx/plugins/cpu/kernels/pool"

// Im2ColArgs describes the patches of images [N, C, In[0], In[1]]. Pairs are height and width.
type Im2ColArgs struct {
	N, C           int
	In, Out        [2]int
	Kernel, Stride [2]int
	Pad, Dilation  [2]int
}

// Im2Col writes the patches as rows of dst [N*Out, C*Kernel], with zeros outside of the image.
func Im2Col[T any](p *pool.Pool, g Im2ColArgs, dst, src []T) {
	columns := g.C * g.Kernel[0] * g.Kernel[1]
	rows := g.N * g.Out[0]
	if len(src) < g.N*g.C*g.In[0]*g.In[1] || len(dst) < rows*g.Out[1]*columns {
		panic("BUG: Im2Col: a slice is short")
	}
	pool.Split(p, rows, 1+pool.Grain/max(1, g.Out[1]*columns), patches[T]{g, dst, src})
}

type patches[T any] struct {
	Im2ColArgs
	dst, src []T
}

func (g *patches[T]) Do(lo, hi, _ int) {
	kh, kw := g.Kernel[0], g.Kernel[1]
	plane := g.In[0] * g.In[1]
	for t := lo; t < hi; t++ {
		image := g.src[t/g.Out[0]*g.C*plane:]
		y := t%g.Out[0]*g.Stride[0] - g.Pad[0]
		for ox := range g.Out[1] {
			row := g.dst[(t*g.Out[1]+ox)*g.C*kh*kw:][:g.C*kh*kw]
			x := ox*g.Stride[1] - g.Pad[1]
			// Taps [first, end) of a line are inside of the image.
			first := min(kw, max(0, (-x+g.Dilation[1]-1)/g.Dilation[1]))
			end := max(first, min(kw, (g.In[1]-x+g.Dilation[1]-1)/g.Dilation[1]))
			for a := range kh {
				h := y + a*g.Dilation[0]
				if h < 0 || h >= g.In[0] {
					for c := range g.C {
						clear(row[(c*kh+a)*kw:][:kw])
					}
					continue
				}
				at := h*g.In[1] + x
				for c := range g.C {
					to := row[(c*kh+a)*kw:][:kw]
					clear(to[:first])
					clear(to[end:])
					from := c*plane + at + first*g.Dilation[1]
					for i := first; i < end; i++ {
						to[i] = image[from]
						from += g.Dilation[1]
					}
				}
			}
		}
	}
}
