package kernels

import (
	"fmt"
	"slices"
)

// Conv2DArgs describes a 2-d convolution (cross-correlation) or its transpose, with symmetric zero padding.
type Conv2DArgs struct {
	N, H, W, Cin, Cout int
	KH, KW             int
	Stride, Pad        [2]int // vertical, horizontal
	Dilation           [2]int
	OutputPad          [2]int // of ConvTranspose2D only
	Groups             int

	X       []float32 // [N, H, W, Cin] if XLast, else [N, Cin, H, W]
	XLast   bool
	Weight  Weights   // Conv2D: [Cout, Cin/Groups, KH, KW]; ConvTranspose2D: [Cin, Cout/Groups, KH, KW]
	Bias    []float32 // [Cout], or nil
	Act     UnaryOp
	Out     []float32 // [N, Ho, Wo, Cout] if OutLast, else [N, Cout, Ho, Wo]; must not overlap X
	OutLast bool
}

// OutSize is the height and width of the result of Conv2D.
func (g *Conv2DArgs) OutSize() (h, w int) {
	return (g.H+2*g.Pad[0]-g.Dilation[0]*(g.KH-1)-1)/g.Stride[0] + 1, (g.W+2*g.Pad[1]-g.Dilation[1]*(g.KW-1)-1)/g.Stride[1] + 1
}

// OutSizeTransposed is the height and width of the result of ConvTranspose2D.
func (g *Conv2DArgs) OutSizeTransposed() (h, w int) {
	return (g.H-1)*g.Stride[0] + g.OutputPad[0] + g.Dilation[0]*(g.KH-1) - 2*g.Pad[0] + 1,
		(g.W-1)*g.Stride[1] + g.OutputPad[1] + g.Dilation[1]*(g.KW-1) - 2*g.Pad[1] + 1
}

// Conv2D computes the convolution as a matrix product: a row per output pixel, gathered tile by tile where it is used.
func Conv2D(p *Pool, g *Conv2DArgs) {
	c := keep[convolution](p)
	if g.XLast && g.OutLast && g.Groups == 1 && g.KH == 1 && g.KW == 1 && g.Stride == [2]int{1, 1} && g.Pad == [2]int{} {
		c.plain = GemmArgs{M: g.N * g.H * g.W, N: g.Cout, K: g.Cin, A: g.X, LDA: g.Cin, B: g.Weight, LDB: g.Cin, TransB: true,
			C: g.Out, LDC: g.Cout, Bias: g.Bias, Act: g.Act}
		Gemm(p, &c.plain)
		return
	}
	c.Conv2DArgs, c.transposed = *g, false
	c.ho, c.wo = g.OutSize()
	c.run(p)
}

// ConvTranspose2D computes the transposed convolution: every input pixel adds weight * x to a patch of the output.
func ConvTranspose2D(p *Pool, g *Conv2DArgs) {
	c := keep[convolution](p)
	c.Conv2DArgs, c.transposed = *g, true
	c.ho, c.wo = g.OutSizeTransposed()
	if g.XLast && g.OutLast && g.Groups == 1 && g.Stride == [2]int{g.KH, g.KW} && g.Pad == [2]int{} && g.OutputPad == [2]int{} &&
		g.Dilation == [2]int{1, 1} {
		c.disjoint(p)
		return
	}
	c.run(p)
}

// convolution is the state of one call. Its slices are kept for the next call.
type convolution struct {
	Conv2DArgs
	transposed bool
	p          *Pool
	ho, wo, k  int        // of the result; products per output element
	products   []GemmArgs // by group
	plain      GemmArgs
	packed     []float32 // panels of all groups' weights
	panels     int       // of a group
	weights    []float32 // [Cout, k] in the order of gather
	exact      bool      // a weight is infinite or NaN, so it must not be multiplied by the zeros of the padding

	patch, bias, row []float32 // of disjoint
}

// resized is a slice of n floats with arbitrary contents, s itself where it is long enough.
func resized(s []float32, n int) []float32 { return slices.Grow(s[:0], n)[:n] }

// disjoint is the transpose where patches of the output do not overlap. Each row of patches is a plain product, written in place.
func (g *convolution) disjoint(p *Pool) {
	if g.N == 0 {
		return // Gemm reads a batch of 0 as 1
	}
	cols := g.KW * g.Cout
	g.patch = resized(g.patch, g.Cin*cols) // [Cin, KW, Cout] for one row of the patch
	g.bias = resized(g.bias, cols)
	clear(g.bias)
	for kx := range g.KW {
		if g.Bias != nil {
			copy(g.bias[kx*g.Cout:(kx+1)*g.Cout], g.Bias)
		}
	}
	n := g.Cout * g.KH * g.KW
	g.row = resized(g.row, n)
	for ky := range g.KH {
		for c := range g.Cin {
			row := g.Weight.row(p.isa, c*n, n, g.row)
			for o := range g.Cout {
				for kx := range g.KW {
					g.patch[c*cols+kx*g.Cout+o] = row[(o*g.KH+ky)*g.KW+kx]
				}
			}
		}
		g.plain = GemmArgs{M: g.W, N: cols, K: g.Cin, A: g.X, LDA: g.Cin, B: F32(g.patch), LDB: cols, C: g.Out[ky*g.wo*g.Cout:], LDC: cols,
			Bias: g.bias, Act: g.Act, Batch: g.N * g.H, StrideA: g.W * g.Cin, StrideC: g.KH * g.wo * g.Cout}
		Gemm(p, &g.plain)
	}
}

// run computes either kind.
func (g *convolution) run(p *Pool) {
	s := p.isa
	if g.Groups < 1 || g.Cin%g.Groups != 0 || g.Cout%g.Groups != 0 || len(g.X) < g.N*g.H*g.W*g.Cin || len(g.Out) < g.N*g.ho*g.wo*g.Cout ||
		g.Weight.Len() < g.Cin*g.Cout/g.Groups*g.KH*g.KW || g.Bias != nil && len(g.Bias) < g.Cout {
		panic(fmt.Sprintf("BUG: convolution of %d x [%d, %d, %d] to %d channels in %d groups", g.N, g.H, g.W, g.Cin, g.Cout, g.Groups))
	}
	og, area := g.Cout/g.Groups, g.ho*g.wo
	g.p, g.k = p, g.Cin/g.Groups*g.KH*g.KW
	if g.N*area*g.Cout == 0 {
		return
	}
	g.panels = (og + s.nr - 1) / s.nr
	p.shared.reset()
	g.packed = p.shared.floats(g.Groups*g.panels*s.nr*g.k + spill)
	g.weights = p.shared.floats(g.Cout * g.k)
	g.row = resized(g.row, g.KH*g.KW)
	g.orderWeights()
	g.exact = !allFinite(s, g.weights)
	g.products = slices.Grow(g.products[:0], g.Groups)
	for i := range g.Groups {
		q := GemmArgs{M: area, N: og, K: g.k, B: F32(g.weights[i*og*g.k:]), LDB: g.k, TransB: true, LDC: g.Cout, Act: g.Act}
		if g.Bias != nil {
			q.Bias = g.Bias[i*og : (i+1)*og]
		}
		g.products = append(g.products, q)
	}
	for i := range g.products {
		p.packPanels(&g.products[i], g.packed[i*g.panels*s.nr*g.k:], 0, 1, 0, g.panels)
	}
	p.each(g.N*g.across(), 1, g)
}

// high is the number of output pixels of a task, across the number of tasks of an image.
func (g *convolution) high() int   { return 4 * g.p.isa.mr }
func (g *convolution) across() int { return (g.ho*g.wo + g.high() - 1) / g.high() }

func (g *convolution) do(lo, hi, worker int) {
	for t := lo; t < hi; t++ {
		g.pixels(t/g.across(), t%g.across()*g.high(), worker)
	}
}

// pixels computes the output pixels of image n from m on.
func (g *convolution) pixels(n, m, worker int) {
	s, sc := g.p.isa, g.p.scratch(worker)
	cg, og, k, area := g.Cin/g.Groups, g.Cout/g.Groups, g.k, g.ho*g.wo
	rows := min(g.high(), area-m)
	gathered, a := sc.floats(rows*k), sc.floats(rows*k+spill)
	out := g.Out[(n*area+m)*g.Cout:]
	if !g.OutLast {
		out = sc.floats(rows * g.Cout) // the block, to be transposed
	}
	for i := range g.products {
		g.gather(gathered, n, i*cg, cg, m, rows, g.wo)
		q := g.products[i] // a copy, since each task has its own C
		q.A, q.LDA, q.C = gathered, k, out[i*og:]
		used, need := sc.used, sc.need
		q.packA(s, sc, a, 0, 0, rows)
		q.tiles(s, sc, 0, 0, rows, 0, og, a, g.packed[i*g.panels*s.nr*k:], g.panels, 0)
		sc.giveBack(used, need)
		if g.exact {
			g.sums(q.C, gathered, i, m, rows)
		}
	}
	if !g.OutLast {
		for c := range g.Cout {
			dst := g.Out[(n*g.Cout+c)*area+m:][:rows]
			for r := range dst {
				dst[r] = out[r*g.Cout+c]
			}
		}
	}
}

// sums computes the output pixels [m, m+rows) of a group by their definition, and skips the taps that are in the padding.
func (g *convolution) sums(out, gathered []float32, group, m, rows int) {
	og, taps := g.Cout/g.Groups, g.KH*g.KW
	for r := range rows {
		row := out[r*g.Cout:][:og]
		for o := range row {
			sum, w := 0.0, g.weights[(group*og+o)*g.k:][:g.k]
			if g.Bias != nil {
				sum = float64(g.Bias[group*og+o])
			}
			for t := range taps {
				_, okY := g.source((m+r)/g.wo, t/g.KW, 0, g.H)
				_, okX := g.source((m+r)%g.wo, t%g.KW, 1, g.W)
				if !okY || !okX {
					continue
				}
				at, step := t, taps // channels first: a tap of each channel
				if g.XLast {
					at, step = t*(g.k/taps), 1
				}
				for range g.k / taps {
					sum += float64(w[at]) * float64(gathered[r*g.k+at])
					at += step
				}
			}
			row[o] = float32(sum)
		}
		if g.Act != Identity {
			g.p.isa.apply(g.Act, row, row)
		}
	}
}

// allFinite reports whether no element is infinite or NaN.
func allFinite(s *isa, x []float32) bool {
	if sum := s.sum(x); sum-sum == 0 {
		return true
	}
	for _, v := range x { // the sum of finite numbers may overflow
		if v-v != 0 {
			return false
		}
	}
	return true
}

// orderWeights copies the weights as [Groups][og, k] with k in the order of gather: channel, ky, kx for channels first, else ky, kx,
// channel.
func (g *convolution) orderWeights() {
	taps, cg, og := g.KH*g.KW, g.Cin/g.Groups, g.Cout/g.Groups
	for o := range g.Cout {
		group := o / og
		for c := range cg {
			at := (o*cg + c) * taps
			if g.transposed {
				at = ((group*cg+c)*og + o%og) * taps
			}
			for t, x := range g.Weight.row(g.p.isa, at, taps, g.row) {
				if g.XLast {
					g.weights[(o*taps+t)*cg+c] = x
				} else {
					g.weights[(o*cg+c)*taps+t] = x
				}
			}
		}
	}
}

// gather fills dst[rows, k] with what output pixels [m, m+rows) of image n read of channels [c0, c0+cg); zeros outside the image.
func (g *convolution) gather(dst []float32, n, c0, cg, m, rows, wo int) {
	taps := g.KH * g.KW
	for r := range rows {
		oy, ox := (m+r)/wo, (m+r)%wo
		row := dst[r*cg*taps : (r+1)*cg*taps]
		for ky := range g.KH {
			y, okY := g.source(oy, ky, 0, g.H)
			if !g.XLast && okY && !g.transposed && g.Dilation[1] == 1 { // runs of taps are runs of pixels
				x0 := ox*g.Stride[1] - g.Pad[1]
				if x0 >= 0 && x0+g.KW <= g.W {
					for c := range cg {
						copy(row[c*taps+ky*g.KW:][:g.KW], g.X[((n*g.Cin+c0+c)*g.H+y)*g.W+x0:])
					}
					continue
				}
			}
			for kx := range g.KW {
				x, ok := g.source(ox, kx, 1, g.W)
				ok = ok && okY
				t := ky*g.KW + kx
				switch {
				case g.XLast && ok:
					copy(row[t*cg:(t+1)*cg], g.X[((n*g.H+y)*g.W+x)*g.Cin+c0:])
				case g.XLast:
					clear(row[t*cg : (t+1)*cg])
				case ok:
					for c := range cg {
						row[c*taps+t] = g.X[((n*g.Cin+c0+c)*g.H+y)*g.W+x]
					}
				default:
					for c := range cg {
						row[c*taps+t] = 0
					}
				}
			}
		}
	}
}

// source is the input coordinate that tap k of output coordinate o reads along one axis; ok is false in the padding.
func (g *convolution) source(o, k, axis, size int) (i int, ok bool) {
	if !g.transposed {
		i = o*g.Stride[axis] - g.Pad[axis] + k*g.Dilation[axis]
		return i, i >= 0 && i < size
	}
	i = o + g.Pad[axis] - k*g.Dilation[axis]
	if i < 0 || i%g.Stride[axis] != 0 {
		return 0, false
	}
	i /= g.Stride[axis]
	return i, i < size
}
