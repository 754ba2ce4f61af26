package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Convolutions whose kernels do not overlap, or only a little, such as the first layers of transformers for images and
// sounds: a matrix of all patches is not much larger than x. The weights are packed once.

const (
	patchRoom = 1 << 18 // floats of patches that are multiplied at a time
	patchRun  = 4       // elements of a line of the kernel that are worth a copy
	// how much larger than x the matrix may be, if no other way suits the stride
	patchOverlap, patchStride = 4, 3
)

// inPatches reports whether patches computes the convolution. It does not depend on the size of the images.
func (g *convolution) inPatches() bool {
	disjoint := true
	for i, k := range g.Kernel {
		if g.Pad[i] != 0 || g.Dilation[i] != 1 && k > 1 {
			return false
		}
		disjoint = disjoint && g.Stride[i] >= k
	}
	if !disjoint && (g.Stride[2] < patchStride ||
		elementwise.Volume(g.Kernel) > patchOverlap*elementwise.Volume(g.Stride)) {
		return false
	}
	return g.Packed != nil && !g.Transposed && !g.Last && g.Groups == 1 && g.Kernel[2] >= patchRun
}

// patchProduct returns the product of so many patches.
func (g *convolution) patchProduct(rows int) product.GemmArgs {
	k := g.Cin * elementwise.Volume(g.Kernel)
	return product.GemmArgs{M: rows, N: g.Cout, K: k, LDA: k, B: g.Weight, LDB: k, TransB: true, LDC: g.Cout,
		Bias: g.Bias}
}

// patchLines returns how many lines of the result are multiplied at a time.
func (g *convolution) patchLines() int {
	line := g.out[2] * g.Cin * elementwise.Volume(g.Kernel)
	return max(1, min(g.N*g.out[0]*g.out[1], patchRoom/max(1, line)))
}

// patchScratch returns what patches needs, also for smaller images.
func (g *convolution) patchScratch() pool.Size {
	k := g.Cin * elementwise.Volume(g.Kernel)
	q := g.patchProduct(max(g.out[2], min(g.N*elementwise.Volume(g.out), patchRoom/max(1, k))))
	r := q.ScratchSize(g.p)
	r.Other += pool.FloatBytes(q.M*q.K, q.M*q.N+g.p.Set.Lanes*g.Cout)
	return r
}

// patches computes the convolution.
func (g *convolution) patches() {
	p, lines := g.p, g.N*g.out[0]*g.out[1]
	high := g.patchLines()
	q := g.patchProduct(high * g.out[2])
	if g.Packed.patches == nil {
		g.Packed.patches = product.PackWeights(p, &q)
	}
	g.patch, g.row = pool.Sized(g.patch, q.M*q.K), pool.Sized(g.row, q.M*q.N+p.Set.Lanes*g.Cout)
	for g.firstRow = 0; g.firstRow < lines; g.firstRow += high {
		g.rowsNow = min(high, lines-g.firstRow)
		q.M = g.rowsNow * g.out[2]
		p.Share(g.rowsNow, 1+pool.Grain/(g.out[2]*q.K), (*patchGather)(g))
		q.A, q.C, q.Packed = g.patch, g.row, g.Packed.patches
		g.product = q
		product.Gemm(p, &g.product)
		p.Share(g.rowsNow, 1+pool.Grain/(g.out[2]*g.Cout), (*patchResults)(g))
	}
}

// patchGather copies the patches of lines.
type patchGather convolution

func (x *patchGather) Do(lo, hi, _ int) {
	g := (*convolution)(x)
	wide, k := g.Kernel[2], g.Cin*elementwise.Volume(g.Kernel)
	for l := lo; l < hi; l++ {
		line := g.firstRow + l
		n, z, y := line/(g.out[0]*g.out[1]), line/g.out[1]%g.out[0], line%g.out[1]
		at := 0 // in a patch
		for c := range g.Cin {
			for a := range g.Kernel[0] {
				for b := range g.Kernel[1] {
					from := (((n*g.Cin+c)*g.In[0]+z*g.Stride[0]+a)*g.In[1] + y*g.Stride[1] + b) * g.In[2]
					dst := g.patch[l*g.out[2]*k+at:]
					for i := range g.out[2] {
						copy(dst[i*k:][:wide], g.X[from+i*g.Stride[2]:])
					}
					at += wide
				}
			}
		}
	}
}

// patchResults stores lines of products, [pixels, Cout], with channels first.
type patchResults convolution

func (x *patchResults) Do(lo, hi, _ int) {
	g := (*convolution)(x)
	s, wide, area := g.p.Set, g.out[2], elementwise.Volume(g.out)
	lines := g.out[0] * g.out[1]
	for n := 0; lo < hi; lo += n { // the lines of an image are contiguous in both
		line := g.firstRow + lo
		n = min(hi-lo, lines-line%lines)
		dst, src := g.Out[line/lines*g.Cout*area+line%lines*wide:], g.row[lo*wide*g.Cout:]
		pixels, whole := n*wide, g.Cout/s.Lanes*s.Lanes
		at := 0
		for ; at+s.Lanes <= pixels && whole > 0; at += s.Lanes {
			vec.On(s).Transpose(dst[at:], area, src[at*g.Cout:], g.Cout, s.Lanes, whole)
		}
		for o := range g.Cout {
			from := at
			if o >= whole {
				from = 0
			}
			for i := from; i < pixels; i++ {
				dst[o*area+i] = src[i*g.Cout+o]
			}
		}
		g.finishRows(line*wide, pixels, 0, g.Cout)
	}
}
