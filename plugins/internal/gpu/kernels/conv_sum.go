package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

//go:embed conv_sum.wgsl
var convSumWGSL string

// convPart says how the sums of a tiled convolution reach the result: as Parts partial sums in scratch memory, which
// another shader adds and finishes. If there are no parts, the product itself finishes its sums.
//
// A convolution of few pixels has fewer tiles than a large GPU has processors, so K is split as in matmul_split.go. A
// convolution with padding has one part at least, unless it is large: the shader that finishes the sums also computes
// those again that are not finite, which otherwise takes two more shaders.
type convPart struct {
	convSizes
	Tile    Tile
	Parts   int
	Repairs bool // sums that are not finite are computed again without the padding
}

// mostSummed is the number of elements up to which a convolution with padding passes through scratch memory: as many
// as stay in the cache of a large GPU.
const mostSummed = 1 << 22

// mostConvParts is the largest number of parts of K of a convolution.
const mostConvParts = 16

// convParts chooses the tile of a tiled convolution, and the number of parts.
func convParts(n *ir.Node, s convSizes, l Limits) (c convPart) {
	c.convSizes, c.Repairs = s, s.padded()
	if !takesTiles(n, s) {
		return c
	}
	p := convProductOf(n, s)(n.Graph.Syms.Largest(n.In[0].Type.Shape), n.Graph.Syms.Largest(n.Type.Shape))
	if s.Transposed || arranged(n, s) {
		c.Tile = chooseTile(p, l)
		c.Tile.Splits = 0
		return c
	}
	c.Tile = chooseSplit(p, l, mostConvParts)
	c.Parts = c.Tile.Splits
	if c.Parts < 2 {
		c.Parts, c.Tile.Splits = 0, 0
		if s.padded() && numel(n.Graph.Syms.Largest(n.Type.Shape)) <= mostSummed {
			c.Parts = 1
		}
	}
	return c
}

// convSum returns the shader that finishes the sums of a convolution.
func convSum(n *ir.Node, c convPart) Shader {
	c.Summed = true
	fields := append([]string{"matrix"}, convFields...)
	sh := mapped(n, n.Op.Name, convDirectWGSL+convSumWGSL, c, fields, func(call *Call) []uint32 {
		matrix := numel(call.Out.Shape)
		if !c.Last {
			matrix /= max(1, call.Out.Shape[0])
		}
		return append([]uint32{uint32(matrix)}, c.images(call)...)
	}).withLoops(n, func(*Call) int { return c.loops() })
	if c.Parts > 0 {
		sh.Bindings = append(sh.Bindings, Binding{Name: "part", Operand: Scratch, DType: dtype.F32})
	}
	return sh
}

// parted completes the shader of a product whose sums go to scratch memory.
func (c convPart) parted(sh Shader, t tiled) Shader {
	t.Sliced, t.Bias, t.RowBias, t.Addend, t.Residual, t.Acts = c.Parts > 1, false, false, false, false, nil
	sh.Consts = t
	sh.Bindings = append(sh.Bindings[:2:2], Binding{Name: "y", Operand: Scratch, Vec: t.Vec, DType: dtype.F32})
	return sh
}
