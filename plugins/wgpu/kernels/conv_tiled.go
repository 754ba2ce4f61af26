package kernels

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// patch is the geometry of a convolution of one group over [batch, height, width, channels], for the tiled product.
type patch struct {
	CIn, COut            int
	KH, KW               int
	StrideH, StrideW     int
	PadH, PadW           int
	DilationH, DilationW int
	Block                int // channels that are read before the next tap
	// Sizes of the images, as WGSL: numbers where they are known, else parameters.
	HIn, WIn, HOut, WOut string
}

// Taps is the number of a filter's positions.
func (p patch) Taps() int { return p.KH * p.KW }

// patchFields are the parameters that a patch may name.
var patchFields = []string{"h_in", "w_in", "h_out", "w_out"}

func newPatch(n *ir.Node, g op.ConvGeometry) *patch {
	x, w, y := n.In[0].Type.Shape, n.In[1].Type.Shape, n.Type.Shape
	size := func(d ir.Dim, field string) string {
		if d.IsStatic() {
			return fmt.Sprintf("%du", d.B)
		}
		return "P." + field
	}
	p := &patch{
		CIn: int(x[3].B), COut: int(y[3].B), KH: int(w[2].B), KW: int(w[3].B), StrideH: g.Stride[0], StrideW: g.Stride[1],
		PadH: g.Padding[0], PadW: g.Padding[1], DilationH: g.Dilation[0], DilationW: g.Dilation[1], Block: 4,
		HIn: size(x[1], "h_in"), WIn: size(x[2], "w_in"), HOut: size(y[1], "h_out"), WOut: size(y[2], "w_out"),
	}
	if p.CIn%16 == 0 {
		p.Block = 16
	}
	return p
}

// multiplies reports whether the tiled product can compute a convolution: one group, channels last and in fours, f32.
func multiplies(n *ir.Node, g op.ConvGeometry) bool {
	x, w := n.In[0].Type, n.In[1].Type
	if g.C != 3 || g.Groups != 1 || x.DType != dtype.F32 || n.Type.DType != dtype.F32 || !allAligned(n.In) {
		return false
	}
	return w.Shape.IsStatic() && fours(x.Shape[3]) && fours(n.Type.Shape[3])
}

// convTiled is the product of the patches of x with the weight, which is stored [out, in, kh, kw].
func convTiled(n *ir.Node, g op.ConvGeometry, l Limits) (s Shader, ok bool) {
	if !multiplies(n, g) {
		return s, false
	}
	p := newPatch(n, g)
	c := tiled{Vec: 4}
	c.A.Patch, c.B.Patch = p, p
	return convProduct(n, c, l, p.COut, p.CIn*p.Taps(), 0), true
}

// convTransposeTiled is the product of the pixels of x with the weight, [in, out, kh, kw] seen as a matrix, where each pixel
// becomes kh x kw pixels, which do not overlap.
func convTransposeTiled(n *ir.Node, g op.ConvGeometry, l Limits) (s Shader, ok bool) {
	w := n.In[1].Type.Shape
	if !multiplies(n, g) {
		return s, false
	}
	for i := range 2 {
		if g.Stride[i] != int(w[2+i].B) || g.Padding[i] != 0 || g.Dilation[i] != 1 || g.OutputPadding[i] != 0 {
			return s, false
		}
	}
	p := newPatch(n, g)
	c := tiled{Spread: p}
	c.B.Across = true
	return convProduct(n, c, l, p.COut*p.Taps(), p.CIn, 4), true
}

// convProduct is the shader of a convolution as a product with the given number of columns and depth of sums; vecB is the number of
// weights per access. Rows are the pixels of the result, or those of x for a transposed convolution.
func convProduct(n *ir.Node, c tiled, l Limits, columns, depth, vecB int) Shader {
	pixels := func(in, out []int) int {
		if c.Spread != nil {
			return numel(in[:3])
		}
		return numel(out[:3])
	}
	product := func(rows int) product { return product{m: rows, n: columns, k: depth, matrix: 1} }
	most := n.Graph.Syms.Largest
	c.Tile = chooseTile(product(pixels(most(n.In[0].Type.Shape), most(n.Type.Shape))), l)
	c.Bias = len(n.In) == 3
	c = c.specialise(pixels(fixed(n.In[0].Type), fixed(n.Type)), columns, depth)
	bias := -1
	if c.Bias {
		bias = 2
	}
	s := Shader{Name: n.Op.Name, Body: matmulFinishWGSL + matmulWGSL, Consts: c, Fields: slices.Concat(productFields, patchFields),
		Bindings: []Binding{{Name: "a", Operand: 0, Vec: 4, DType: dtype.F32}, {Name: "b", Operand: 1, Vec: vecB, DType: n.In[1].Type.DType}}}
	s.Bindings = append(s.Bindings, epilogue(bias, -1, c.Vec)...)
	s.Loops = func(*Call) int { return c.loops(depth) }
	s.Groups = func(call *Call) int { return c.groups(product(pixels(call.In[0].Shape, call.Out.Shape))) }
	s.Params = func(call *Call) []uint32 {
		if numel(call.Out.Shape) == 0 {
			return nil
		}
		in, out := call.In[0].Shape, call.Out.Shape
		p := product(pixels(in, out))
		p.batch, p.aBatch, p.bBatch = dims(nil), strides(nil), strides(nil)
		return append(c.params(p, finish{}), uint32(in[1]), uint32(in[2]), uint32(out[1]), uint32(out[2]))
	}
	return s
}
