package conv

import (
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Convolutions with channels last, as matrix products, on processors without the routines of last.go: arm64, and amd64
// without AVX2. A row of the left operand holds the elements of x for one element of the result. The weights are the
// right operand.

// disjoint reports whether each element of x results in a patch of its own: a transpose whose patches do not overlap
// and leave no gaps.
func (g *convolution) disjoint() bool {
	return g.Transposed && g.Groups == 1 && g.Stride == g.Kernel && g.Pad == [3]int{} && g.OutputPad == [3]int{} &&
		g.Dilation == [3]int{1, 1, 1}
}

// spread computes a disjoint transpose. Each row of patches is a matrix product that writes the result in place.
func (g *convolution) spread() {
	p, kw := g.p, g.Kernel[2]
	cols := kw * g.Cout
	g.patch = pool.Sized(g.patch, g.Cin*cols) // weights [Cin, KW, Cout] of one row of a patch
	g.bias = pool.Sized(g.bias, cols)
	clear(g.bias)
	for k := range kw {
		if g.Bias != nil {
			copy(g.bias[k*g.Cout:(k+1)*g.Cout], g.Bias)
		}
	}
	taps := elementwise.Volume(g.Kernel)
	g.row = pool.Sized(g.row, g.Cout*taps)
	line := g.out[2] * g.Cout
	for k := range taps / kw {
		for c := range g.Cin {
			row := g.Weight.Row(p.Set, c*g.Cout*taps, g.Cout*taps, g.row)
			for o := range g.Cout {
				for x := range kw {
					g.patch[c*cols+x*g.Cout+o] = row[o*taps+k*kw+x]
				}
			}
		}
		for d := range g.N * g.In[0] { // the lines of one depth are evenly spaced: a batch
			to := (d*g.Kernel[0]+k/g.Kernel[1])*g.out[1] + k%g.Kernel[1]
			g.product = product.GemmArgs{M: g.In[2], N: cols, K: g.Cin, A: g.X[d*g.In[1]*g.In[2]*g.Cin:], LDA: g.Cin,
				B: stored.F32(g.patch), LDB: cols,
				C: g.Out[to*line:], LDC: cols, Bias: g.bias, Batch: g.In[1], StrideA: g.In[2] * g.Cin,
				StrideC: g.Kernel[1] * line}
			product.Gemm(p, &g.product)
		}
	}
}

// rows computes the phase.
func (g *convolution) rows() {
	p, s := g.p, g.p.Set
	nr := product.On(s).NR
	g.check(g.weights[:g.Cout*g.k])
	if p.Bad.Load() != 0 {
		return
	}
	g.panels = (g.og + nr - 1) / nr
	g.packed = p.Shared.Floats(g.Groups*g.panels*nr*g.k + product.Spill)
	g.each = slices.Grow(g.each[:0], g.Groups)
	area := elementwise.Volume(g.count)
	for i := range g.Groups {
		q := product.GemmArgs{M: area, N: g.og, K: g.k, B: stored.F32(g.weights[i*g.og*g.k:]), LDB: g.k, TransB: true,
			LDC: g.Cout}
		if g.Bias != nil {
			q.Bias = g.Bias[i*g.og : (i+1)*g.og]
		}
		g.each = append(g.each, q)
	}
	for i := range g.each {
		product.PackPanels(p, &g.each[i], g.packed[i*g.panels*nr*g.k:], 0, 1, 0, g.panels)
	}
	g.wide = rowsHigh * product.On(s).MR
	g.across = (area + g.wide - 1) / g.wide
	p.Each(g.N*g.across, 1, (*convRows)(g))
}

const rowsHigh = 4 // panels of A in a task

type convRows convolution

func (x *convRows) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, sc, area := g.p.Set, g.p.Scratch(worker), elementwise.Volume(g.count)
	for t := lo; t < hi; t++ {
		n, m := t/g.across, t%g.across*g.wide
		mark := sc.Mark()
		rows := min(g.wide, area-m)
		gathered, a := sc.Floats(rows*g.k), sc.Floats(rows*g.k+product.Spill)
		out := g.Out[n*elementwise.Volume(g.out)*g.Cout:]
		if g.whole() {
			out = out[m*g.Cout:]
		} else {
			out = sc.Floats(rows * g.Cout)
		}
		for i := range g.each {
			g.gatherRows(gathered, n, i*g.cg, m, rows)
			q := g.each[i] // a copy, since tasks have different C
			q.A, q.LDA, q.C = gathered, g.k, out[i*g.og:]
			packed := sc.Mark()
			q.PackA(s, sc, a, 0, 0, rows)
			q.Tiles(s, sc, 0, 0, rows, 0, g.og, a, g.packed[i*g.panels*product.On(s).NR*g.k:], g.panels, 0)
			sc.Release(packed)
		}
		for r := 0; !g.whole() && r < rows; r++ {
			copy(g.Out[(n*elementwise.Volume(g.out)+g.resultPixel(m+r, g.out))*g.Cout:][:g.Cout], out[r*g.Cout:])
		}
		if g.whole() {
			g.finish((n*elementwise.Volume(g.out)+m)*g.Cout, rows*g.Cout)
		}
		sc.Release(mark)
	}
}

// gatherRows fills dst [rows, k] with the elements of channels [c0, c0+cg) that elements [m, m+rows) of the result
// read, in image n, with zeros outside of the image.
func (g *convolution) gatherRows(dst []float32, n, c0, m, rows int) {
	image, pixels := g.X[n*elementwise.Volume(g.In)*g.Cin+c0:], places(g.In)
	for r := range rows {
		row := dst[r*g.k : (r+1)*g.k]
		at := g.pixel(m + r)
		for t := 0; t < len(g.phaseTaps); {
			from, inside := g.source(at, &g.phaseTaps[t])
			run := 1 // taps that read adjacent pixels
			if inside && g.Groups == 1 {
				for last := g.phaseTaps[t].at; t+run < len(g.phaseTaps) && from[2]+run < g.In[2]; run++ {
					last[2]++
					if g.phaseTaps[t+run].at != last {
						break
					}
				}
			}
			to := row[t*g.cg : (t+run)*g.cg]
			if inside {
				copy(to, image[dot3(from, pixels)*g.Cin:])
			} else {
				clear(to)
			}
			t += run
		}
	}
}
