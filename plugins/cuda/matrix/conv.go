package matrix

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

//go:embed pack_conv.wgsl
var packConvWGSL string

var (
	_ = register("conv1d", convolutions)
	_ = register("conv2d", convolutions)
	_ = register("conv3d", convolutions)
	_ = register("fused_conv1d", convolutions)
	_ = register("fused_conv2d", convolutions)
	_ = register("fused_conv3d", convolutions)
)

// convolutions runs convolutions with one group as products of filters and patches (implicit GEMM). x is copied with
// its padding, as rows of channels, and the product finds the pixels of a patch in the copy. If x has few channels, the
// patches themselves are copied. Padding multiplies no weight, so elements that are not finite, which zeros of the
// padding times an infinite weight may have made, are computed again. The same shader adds what follows a fused
// convolution and applies its activation.
func convolutions(d Device) (kernels.Own, bool) {
	return kernels.Own{
		Shaders: func(n *ir.Node, l kernels.Limits) []kernels.Shader {
			c, ok := d.convOf(n, l)
			if !ok {
				return nil
			}
			return c.shaders()
		},
		Scratch: func(n *ir.Node, l kernels.Limits) int64 {
			c, _ := d.convOf(n, l)
			return c.image.scratch + c.filters.scratch
		},
		Kept: func(n *ir.Node, l kernels.Limits) int64 {
			c, _ := d.convOf(n, l)
			return c.filters.kept
		},
	}, d.tiles() != nil
}

// conv is a convolution on matrix units.
type conv struct {
	op.Geometry
	node           *ir.Node
	typ            dtype.DType
	exact          bool
	CIn, COut      int
	Channels       int  // CIn, rounded up to whole parts of K
	Columns        bool // patches are copied, rather than x with its padding
	Tile           Tile
	image, filters operand
}

// leastChannels is the number of channels from which parts of K of a single tap are mostly full.
const leastChannels = 32

// Taps is the number of positions of a filter.
func (c conv) Taps() int { return c.Kernel[0] * c.Kernel[1] * c.Kernel[2] }

// convOf returns the convolution of a node, or false if it does not run on matrix units.
func (d Device) convOf(n *ir.Node, l kernels.Limits) (c conv, ok bool) {
	a, isConv := n.Attrs.(op.ConvAttrs)
	if fused, ok := n.Attrs.(op.FusedConvAttrs); ok {
		a, isConv = fused.Conv(), true
	}
	c.typ = narrow(l)
	if c.typ == 0 && d.TermTiles() != nil { // f32, and tf32, which rounds only operands of products
		c.typ, c.exact = dtype.BF16, true
	}
	if !isConv || c.typ == 0 || !n.In[1].Type.Shape.IsStatic() {
		return c, false
	}
	x, w := n.In[0], n.In[1]
	g, err := a.Geometry()
	if err != nil || g.Groups != 1 {
		return c, false
	}
	for k, v := range append([]*ir.Node{n}, n.In...) {
		if k != 2 && v != nil && v.Type.DType != dtype.F32 { // the weight may have another type
			return c, false
		}
	}
	shape := w.Type.Shape.Eval(nil)
	g.Kernel = g.Kernels(shape)
	c.Geometry, c.node, c.COut, c.CIn = g, n, shape[0], shape[1]
	c.Channels, c.Columns = padded(c.CIn), c.CIn < leastChannels
	most := n.Graph.Syms.Largest(n.Type.Shape)
	batch, pixels := most[0], int(numberOf(most)/max(1, int64(most[0]))/int64(max(1, c.COut)))
	if numberOf(most)*int64(c.CIn)*int64(c.Taps()) < d.least(c.exact) || c.COut < leastColumns {
		return c, false
	}
	c.image.terms, c.filters.terms = 1, 1
	if c.exact {
		c.image.terms, c.filters.terms = 3, termsOf(w.Type.DType)
	}
	c.filters.node, c.filters.packed, c.image.packed = 1, true, true
	rows := int64(batch) * int64(pixels)
	if !c.Columns {
		_, _, size := c.Sizes(n.Graph.Syms.Largest(x.Type.Shape))
		rows = int64(batch)
		for i := range size {
			rows *= int64(size[i] + 2*c.Padding[i])
		}
	}
	c.image.scratch = halfBytes(int64(c.image.terms) * rows * int64(c.row()))
	bytes := halfBytes(int64(c.filters.terms) * int64(c.COut) * int64(c.depth()))
	if l.Keeps && kernels.IsWeight(w) {
		c.filters.kept = bytes
	} else {
		c.filters.scratch, c.filters.begin = bytes, c.image.scratch
	}
	tiles := d.tiles()
	if c.exact {
		tiles = d.TermTiles()
	}
	rowsOfTile, columns := pixels, c.COut
	if !c.Last {
		rowsOfTile, columns = columns, rowsOfTile
	}
	c.Tile, _ = d.choose(tiles, rowsOfTile, columns, batch)
	return c, c.image.scratch+c.filters.scratch <= mostBytes && bytes <= mostBytes &&
		4*numberOf(most) <= mostBytes && 4*numberOf(n.Graph.Syms.Largest(x.Type.Shape)) <= mostBytes
}

// leastColumns is the number of filters from which tiles are not mostly empty.
const leastColumns = 16

// depth is K of the product, with zeros; row is the number of values in a row of the copy of x or of its patches.
func (c conv) depth() int {
	if c.Columns {
		return padded(c.CIn * c.Taps())
	}
	return c.Channels * c.Taps()
}

func (c conv) row() int {
	if c.Columns {
		return c.depth()
	}
	return c.Channels
}

func (c conv) shaders() []kernels.Shader {
	what := "image"
	if c.Columns {
		what = "patches"
	}
	return []kernels.Shader{c.pack(c.filters, "filters"), c.pack(c.image, what), c.multiply(),
		kernels.ConvRepair(c.node)}
}

// sizes returns the sizes of x and of the result, and those of the copy of x or of its patches.
func (c conv) sizes(call *kernels.Call) (in, out, rows [3]int) {
	_, _, in = c.Sizes(call.In[0].Shape)
	_, _, out = c.Sizes(call.Out.Shape)
	if c.Columns {
		return in, out, out
	}
	for i := range in {
		rows[i] = in[i] + 2*c.Padding[i]
	}
	return in, out, rows
}

// pack returns the shader that writes an operand to scratch memory, or to kept memory.
func (c conv) pack(o operand, what string) kernels.Shader {
	fours := what == "image" && c.Last && c.CIn%4 == 0 && kernels.BeginsAt(c.node.In[0], 16)
	x := kernels.Binding{Name: "x0", Operand: o.node, DType: c.node.In[o.node].Type.DType}
	if fours {
		x.Vec = 4
	}
	count := func(call *kernels.Call) (rows, quads int) {
		switch what {
		case "filters":
			return c.COut, c.depth() / 4
		case "taps":
			return c.Taps() * c.COut, c.row() / 4
		}
		_, _, size := c.sizes(call)
		return call.In[0].Shape[0] * size[0] * size[1] * size[2], c.row() / 4
	}
	consts := conv{Geometry: c.Geometry, CIn: c.CIn, Channels: c.Channels, Columns: c.Columns}
	if what == "taps" {
		consts.COut = c.COut
	}
	return kernels.Shader{
		Name: "operand of a convolution", Body: termsWGSL + packConvWGSL, Once: o.kept > 0,
		Consts: struct {
			conv
			What  string
			Fours bool
			Terms int
		}{consts, what, fours, o.terms},
		Bindings: []kernels.Binding{x, {Name: "y", Operand: o.memory(), Vec: 4, DType: c.typ}},
		Fields:   []string{"rows", "quads", "begin", "d_in", "h_in", "w_in", "d_rows", "h_rows", "w_rows"},
		Params: func(call *kernels.Call) []uint32 {
			rows, quads := count(call)
			if rows*quads == 0 || o.kept == 0 && empty(call) {
				return nil
			}
			in, _, size := c.sizes(call)
			return []uint32{uint32(rows), uint32(quads), uint32(o.begin / 8), uint32(in[0]), uint32(in[1]),
				uint32(in[2]), uint32(size[0]), uint32(size[1]), uint32(size[2])}
		},
		Groups: func(call *kernels.Call) int {
			rows, quads := count(call)
			return ceilDiv(rows*quads, 256)
		},
	}
}

// multiply returns the shader of the product: patches times filters, or filters times patches where channels are not
// the last axis.
func (c conv) multiply() kernels.Shader {
	x := productText{Tile: c.Tile, Type: c.typ, Bias: c.node.In[op.ConvBias] != nil, RowBias: !c.Last}
	if c.exact {
		x.Terms, x.NoRepair = [2]int{c.image.terms, c.filters.terms}, true
	}
	if !c.Columns {
		x.Patch = patchText{Operand: 1, Taps: c.Kernel, Parts: c.Channels / depth}
	}
	filters := kernels.Binding{Name: "filters", Operand: c.filters.memory(), DType: dtype.U32}
	bindings := []kernels.Binding{{Name: "image", Operand: kernels.Scratch, DType: dtype.U32}, filters}
	last := ir.Static(int64(c.COut))
	if !c.Last {
		bindings[0], bindings[1] = bindings[1], bindings[0]
		x.Terms[0], x.Terms[1] = x.Terms[1], x.Terms[0]
		x.Patch.Operand *= 2
		last = c.node.Type.Shape[c.node.Type.Rank()-1]
	}
	x.Pairs = last.IsStatic() && last.Const%2 == 0
	if x.Bias {
		bindings = append(bindings, kernels.Binding{Name: "bias", Operand: op.ConvBias, DType: dtype.F32})
	}
	bindings = append(bindings, kernels.Binding{Name: "y", Operand: kernels.Out, DType: dtype.F32})
	rowsColumns := func(call *kernels.Call) (m, n, count int) {
		_, out, _ := c.sizes(call)
		m, n, count = out[0]*out[1]*out[2], c.COut, call.In[0].Shape[0]
		if !c.Last {
			m, n = n, m
		}
		return m, n, count
	}
	groups := func(call *kernels.Call) int { return c.Tile.groups(rowsColumns(call)) }
	s := kernels.Shader{
		Name: "product", Consts: x, Bindings: bindings, Fields: productFields, Source: x.source(bindings),
		Groups: groups,
		Params: func(call *kernels.Call) []uint32 {
			if empty(call) {
				return nil
			}
			m, n, _ := rowsColumns(call)
			_, out, size := c.sizes(call)
			row := c.image.terms * c.row() / 8
			image := []uint32{0, uint32(row), uint32(size[0] * size[1] * size[2] * row)}
			filters := []uint32{uint32(c.filters.begin / 16), uint32(c.filters.terms * c.depth() / 8), 0}
			list := []uint32{uint32(groups(call)), uint32(m), uint32(n), uint32(c.depth() / depth)}
			if c.Last {
				list = append(append(list, image...), filters...)
			} else {
				list = append(append(list, filters...), image...)
			}
			list = append(list, 0)
			if x.Patch.Operand > 0 {
				list = append(list, c.patchParams(out, size, row)...)
			}
			return list
		},
	}
	if x.Patch.Operand > 0 {
		s.Fields = append(append([]string{}, productFields...), patchFields...)
	}
	return s
}

// patchParams returns the values of patchFields for the sizes of the result and of the copy of x, whose pixels take row
// units.
func (c conv) patchParams(out, size [3]int, row int) []uint32 {
	line, plane := size[2]*row, size[1]*size[2]*row
	x := c.Dilation[2]*row - row
	y := c.Dilation[1]*line - (c.Kernel[2]-1)*c.Dilation[2]*row - row
	z := c.Dilation[0]*plane - (c.Kernel[1]-1)*c.Dilation[1]*line - (c.Kernel[2]-1)*c.Dilation[2]*row - row
	k := c.Kernel
	all := k[0] * (k[1]*(k[2]*row+(k[2]-1)*x) + (k[1]-1)*y)
	all += k[0] * z // the last jump is one to another plane, too
	return []uint32{uint32(out[2]), uint32(out[1]), uint32(c.Stride[2] * row), uint32(c.Stride[1] * line),
		uint32(c.Stride[0] * plane), uint32(x), uint32(y), uint32(z), uint32(all)}
}
