package kernels

import "fmt"

// Conv2DArgs describes a 2-d convolution (cross-correlation) or its transpose, with symmetric zero padding.
type Conv2DArgs struct {
	N, H, W, Cin, Cout int
	KH, KW             int
	Stride, Pad        [2]int // vertical, horizontal
	Dilation           [2]int
	OutputPad          [2]int // of ConvTranspose2D only
	Groups             int

	X          []float32 // [N, H, W, Cin] if XLast, else [N, Cin, H, W]
	XLast      bool
	Weight     Weights   // Conv2D: [Cout, Cin/Groups, KH, KW]; ConvTranspose2D: [Cin, Cout/Groups, KH, KW]
	Bias       []float32 // [Cout], or nil
	Act        Act
	Out        []float32 // [N, Ho, Wo, Cout] if OutLast, else [N, Cout, Ho, Wo]; must not overlap X
	OutLast    bool
	transposed bool
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
	if g.XLast && g.OutLast && g.Groups == 1 && g.KH == 1 && g.KW == 1 && g.Stride == [2]int{1, 1} && g.Pad == [2]int{} {
		Gemm(p, &GemmArgs{M: g.N * g.H * g.W, N: g.Cout, K: g.Cin, A: g.X, LDA: g.Cin, B: g.Weight, LDB: g.Cin, TransB: true,
			C: g.Out, LDC: g.Cout, Bias: g.Bias, Act: g.Act})
		return
	}
	c := *g
	c.transposed = false
	h, w := g.OutSize()
	c.run(p, h, w)
}

// ConvTranspose2D computes the transposed convolution: every input pixel adds weight * x to a patch of the output.
func ConvTranspose2D(p *Pool, g *Conv2DArgs) {
	h, w := g.OutSizeTransposed()
	if g.XLast && g.OutLast && g.Groups == 1 && g.Stride == [2]int{g.KH, g.KW} && g.Pad == [2]int{} && g.OutputPad == [2]int{} &&
		g.Dilation == [2]int{1, 1} {
		g.disjoint(p, w)
		return
	}
	c := *g
	c.transposed = true
	c.run(p, h, w)
}

// disjoint is the transpose whose patches do not overlap: each row of patches is a plain product, written in place.
func (g *Conv2DArgs) disjoint(p *Pool, wo int) {
	if g.N == 0 {
		return // Gemm reads a batch of 0 as 1
	}
	cols := g.KW * g.Cout
	weight := make([]float32, g.Cin*cols) // [Cin, KW, Cout] for one row of the patch
	bias := make([]float32, cols)
	for kx := range g.KW {
		if g.Bias != nil {
			copy(bias[kx*g.Cout:(kx+1)*g.Cout], g.Bias)
		}
	}
	buf := make([]float32, g.Cout*g.KH*g.KW)
	for ky := range g.KH {
		for c := range g.Cin {
			row := g.Weight.row(p.isa, c*len(buf), len(buf), buf)
			for o := range g.Cout {
				for kx := range g.KW {
					weight[c*cols+kx*g.Cout+o] = row[(o*g.KH+ky)*g.KW+kx]
				}
			}
		}
		Gemm(p, &GemmArgs{M: g.W, N: cols, K: g.Cin, A: g.X, LDA: g.Cin, B: F32(weight), LDB: cols, C: g.Out[ky*wo*g.Cout:], LDC: cols,
			Bias: bias, Act: g.Act, Batch: g.N * g.H, StrideA: g.W * g.Cin, StrideC: g.KH * wo * g.Cout})
	}
}

// run computes either kind, with an output of ho x wo.
func (g *Conv2DArgs) run(p *Pool, ho, wo int) {
	s := p.isa
	if g.Groups < 1 || g.Cin%g.Groups != 0 || g.Cout%g.Groups != 0 || len(g.X) < g.N*g.H*g.W*g.Cin || len(g.Out) < g.N*ho*wo*g.Cout ||
		g.Weight.Len() < g.Cin*g.Cout/g.Groups*g.KH*g.KW || g.Bias != nil && len(g.Bias) < g.Cout {
		panic(fmt.Sprintf("BUG: convolution of %d x [%d, %d, %d] to %d channels in %d groups", g.N, g.H, g.W, g.Cin, g.Cout, g.Groups))
	}
	cg, og := g.Cin/g.Groups, g.Cout/g.Groups
	k := cg * g.KH * g.KW
	if g.N*ho*wo*g.Cout == 0 {
		return
	}
	// All groups' weights, as packed panels.
	panels := (og + s.nr - 1) / s.nr
	p.shared.reset()
	packed := p.shared.floats(g.Groups*panels*s.nr*k + spill)
	weights := p.shared.floats(g.Cout * k)
	g.weights(s, weights, cg, og)
	products := make([]GemmArgs, g.Groups)
	for i := range products {
		products[i] = GemmArgs{M: ho * wo, N: og, K: k, B: F32(weights[i*og*k:]), LDB: k, TransB: true, LDC: g.Cout, Act: g.Act}
		if g.Bias != nil {
			products[i].Bias = g.Bias[i*og : (i+1)*og]
		}
		p.packPanels(&products[i], packed[i*panels*s.nr*k:], 0, 1, 0, panels)
	}
	high := 4 * s.mr
	across := (ho*wo + high - 1) / high
	p.Run(g.N*across, func(t, worker int) {
		n, m := t/across, t%across*high
		rows := min(high, ho*wo-m)
		sc := p.scratch(worker)
		gathered, a := sc.floats(rows*k), sc.floats(rows*k+spill)
		out := sc.floats(rows * g.Cout) // for channels first: the block, to be turned
		for i := range products {
			g.gather(gathered, n, i*cg, cg, m, rows, wo)
			q := products[i] // a copy per task: C differs
			q.A, q.LDA = gathered, k
			q.packA(s, sc, a, 0, 0, rows)
			if g.OutLast {
				q.C = g.Out[(n*ho*wo+m)*g.Cout+i*og:]
			} else {
				q.C = out[i*og:]
			}
			q.tiles(s, sc, 0, 0, rows, 0, og, a, packed[i*panels*s.nr*k:], panels, 0)
		}
		if !g.OutLast {
			for c := range g.Cout {
				dst := g.Out[(n*g.Cout+c)*ho*wo+m:][:rows]
				for r := range dst {
					dst[r] = out[r*g.Cout+c]
				}
			}
		}
	})
}

// weights copies the weights to out, as [Groups][og, k] with k in the order of gather: channel, ky, kx for channels first, else ky, kx,
// channel.
func (g *Conv2DArgs) weights(s *isa, out []float32, cg, og int) {
	taps := g.KH * g.KW
	buf := make([]float32, taps)
	for o := range g.Cout {
		group := o / og
		for c := range cg {
			at := (o*cg + c) * taps
			if g.transposed {
				at = ((group*cg+c)*og + o%og) * taps
			}
			for t, x := range g.Weight.row(s, at, taps, buf) {
				if g.XLast {
					out[(o*taps+t)*cg+c] = x
				} else {
					out[(o*cg+c)*taps+t] = x
				}
			}
		}
	}
}

// gather fills dst[rows, k] with what output pixels [m, m+rows) of image n read of channels [c0, c0+cg); zeros outside the image.
func (g *Conv2DArgs) gather(dst []float32, n, c0, cg, m, rows, wo int) {
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

// source is the input coordinate that tap k of output coordinate o reads along one axis; ok is false where there is none.
func (g *Conv2DArgs) source(o, k, axis, size int) (i int, ok bool) {
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
