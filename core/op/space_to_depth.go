package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// SpaceToDepthDef turns blocks of pixels into channels. It is a block: one transpose.
var SpaceToDepthDef = ir.Define(ir.Def[BlockAttrs]{
	Name: "space_to_depth",
	Doc: "x [N, C, H*size, W*size] as [N, C*size^2, H, W]: each block of size by size pixels becomes channels of one pixel, in the order that order says. " +
		"The inverse of depth_to_space. Order crd is PyTorch's pixel_unshuffle, dcr ONNX's SpaceToDepth.",
	Block:    true,
	Operands: "x",
	Infer: func(s ir.Sig[BlockAttrs]) (ir.Type, error) {
		x, a := s.In[0], s.Attrs
		if err := a.check(x); err != nil {
			return ir.Type{}, err
		}
		h, ok := x.Shape[2].Div(ir.Static(int64(a.Size)))
		w, ok2 := x.Shape[3].Div(ir.Static(int64(a.Size)))
		if !ok || !ok2 {
			return ir.Type{}, fmt.Errorf("x is %v; want height and width that size, %d, divides", x, a.Size)
		}
		c, err := times(x.Shape[1], "size", a.Size)
		if err == nil {
			c, err = times(c, "size", a.Size)
		}
		return ir.Type{DType: x.DType, Shape: ir.Shape{x.Shape[0], c, h, w}}, err
	},
	Eval: func(a BlockAttrs, in []*tensor.Array, out *tensor.Array) error {
		a.pair(in[0].Shape, func(space, depth int) { take(out, depth, in[0], space) })
		return nil
	},
	FLOPs: noFLOPs[BlockAttrs],
	Tol:   exact[BlockAttrs],
	Cases: func() []ir.Case[BlockAttrs] {
		return blockCases(func(n, c, h, w, size int64) []int64 { return []int64{n, c, h * size, w * size} })
	},
})

var _ = ir.Lower(SpaceToDepthDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x, out := n.Attrs.(BlockAttrs), in[0], n.Type.Shape
	size := ir.Static(int64(a.Size))
	perm := []int{0, 1, 3, 5, 2, 4}
	if a.Order == DCR {
		perm = []int{0, 3, 5, 1, 2, 4}
	}
	return Reshape(Transpose(Reshape(x, ir.Shape{out[0], x.Type.Shape[1], out[2], size, out[3], size}), perm...), out)
})

// SpaceToDepth adds x with each block of pixels turned into the channels of one pixel.
func SpaceToDepth(x *ir.Node, a BlockAttrs) *ir.Node { return x.Graph.Add(SpaceToDepthDef, a, x) }

// PixelUnshuffle is SpaceToDepth in PyTorch's order.
func PixelUnshuffle(x *ir.Node, size int) *ir.Node { return SpaceToDepth(x, BlockAttrs{size, CRD}) }
