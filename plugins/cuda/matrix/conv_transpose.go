package matrix

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

var (
	_ = register("conv_transpose1d", transposed)
	_ = register("conv_transpose2d", transposed)
)

// transposed runs transposed convolutions whose taps do not overlap, because the stride is the kernel: as upscaling
// layers are. Each pixel of x makes its own pixels of the result, so that is a product of the pixels and the filters of
// all taps, whose rows are written to several lines.
func transposed(d Device) (kernels.Own, bool) {
	return kernels.Own{
		Shaders: func(n *ir.Node, l kernels.Limits) []kernels.Shader {
			c, ok := d.transposedOf(n, l)
			if !ok {
				return nil
			}
			return []kernels.Shader{c.pack(c.filters, "taps"), c.pack(c.image, "image"), c.scatter(),
				kernels.ConvRepair(n)}
		},
		Scratch: func(n *ir.Node, l kernels.Limits) int64 {
			c, _ := d.transposedOf(n, l)
			return c.image.scratch + c.filters.scratch
		},
		Kept: func(n *ir.Node, l kernels.Limits) int64 {
			c, _ := d.transposedOf(n, l)
			return c.filters.kept
		},
	}, d.tiles() != nil
}

// transposedOf returns the transposed convolution of a node, or false if it does not run on matrix units: those in
// groups, with overlapping taps, with channels before pixels, and at f32.
func (d Device) transposedOf(n *ir.Node, l kernels.Limits) (c conv, ok bool) {
	a, isTransposed := n.Attrs.(op.ConvTransposeAttrs)
	c.typ = narrow(l)
	if !isTransposed || c.typ == 0 || !n.In[1].Type.Shape.IsStatic() {
		return c, false
	}
	x, w := n.In[0], n.In[1]
	g, err := a.Geometry()
	if err != nil || g.Groups != 1 || !g.Last || g.Axes > 2 {
		return c, false
	}
	for _, v := range []*ir.Node{x, n.In[op.ConvBias], n} {
		if v != nil && v.Type.DType != dtype.F32 {
			return c, false
		}
	}
	shape := w.Type.Shape.Eval(nil)
	g.Kernel = g.Kernels(shape)
	if g.Kernel != g.Stride || g.Padding != [3]int{} || g.OutputPadding != [3]int{} || g.Dilation != [3]int{1, 1, 1} {
		return c, false
	}
	c.Geometry, c.node, c.CIn, c.COut = g, n, shape[0], shape[1]
	c.Channels = padded(c.CIn)
	pixels := numberOf(n.Graph.Syms.Largest(x.Type.Shape)) / max(1, int64(c.CIn))
	columns := c.Taps() * c.COut
	if pixels*int64(c.CIn)*int64(columns) < d.least(false) || c.CIn < leastChannels || c.COut < leastColumns {
		return c, false
	}
	c.image.terms, c.filters.terms = 1, 1
	c.filters.node, c.filters.packed, c.image.packed = 1, true, true
	c.image.scratch = halfBytes(pixels * int64(c.Channels))
	bytes := halfBytes(int64(columns) * int64(c.Channels))
	if l.Keeps && kernels.IsWeight(w) {
		c.filters.kept = bytes
	} else {
		c.filters.scratch, c.filters.begin = bytes, c.image.scratch
	}
	c.Tile, _ = d.choose(d.tiles(), int(pixels), columns, 1)
	return c, c.image.scratch+c.filters.scratch <= mostBytes && bytes <= mostBytes &&
		4*numberOf(n.Graph.Syms.Largest(n.Type.Shape)) <= mostBytes && 4*pixels*int64(c.CIn) <= mostBytes
}

// scatter returns the shader of the product. Pixels of all batch elements are rows of one matrix.
func (c conv) scatter() kernels.Shader {
	x := productText{Tile: c.Tile, Type: c.typ, Bias: c.node.In[op.ConvBias] != nil, Pairs: c.COut%2 == 0,
		Scatter: scatterText{Run: c.Kernel[2] * c.COut, Filters: c.COut, Lines: c.Kernel[1]}}
	bindings := []kernels.Binding{{Name: "image", Operand: kernels.Scratch, DType: dtype.U32},
		{Name: "filters", Operand: c.filters.memory(), DType: dtype.U32}}
	if x.Bias {
		bindings = append(bindings, kernels.Binding{Name: "bias", Operand: op.ConvBias, DType: dtype.F32})
	}
	bindings = append(bindings, kernels.Binding{Name: "y", Operand: kernels.Out, DType: dtype.F32})
	columns, row := c.Taps()*c.COut, c.Channels/8
	pixels := func(call *kernels.Call) int { return int(numberOf(call.In[0].Shape)) / c.CIn }
	groups := func(call *kernels.Call) int { return c.Tile.groups(pixels(call), columns, 1) }
	return kernels.Shader{
		Name: "product", Consts: x, Bindings: bindings, Fields: slices.Concat(productFields, scatterFields),
		Source: x.source(bindings), Groups: groups,
		Params: func(call *kernels.Call) []uint32 {
			if empty(call) {
				return nil
			}
			_, _, in := c.Sizes(call.In[0].Shape)
			return []uint32{uint32(groups(call)), uint32(pixels(call)), uint32(columns), uint32(c.Channels / depth),
				0, uint32(row), 0, uint32(c.filters.begin / 16), uint32(row), 0, 0, uint32(in[2])}
		},
	}
}
