package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// BlockAttrs are the attributes of depth_to_space and space_to_depth.
type BlockAttrs struct {
	Size int `attr:"size"` // side of a block, 1 or more
	// Order numbers the channels of a block. For row i, column j and channel c, "crd" is (c*size+i)*size+j and "dcr" is
	// (i*size+j)*C+c.
	Order string `attr:"order"`
}

// Orders of channels.
const (
	CRD = "crd" // as in PyTorch's pixel_shuffle
	DCR = "dcr" // as in ONNX's SpaceToDepth
)

func (a BlockAttrs) check(x ir.Type) error {
	if x.Rank() != 4 {
		return fmt.Errorf("x is %v; want rank 4, [N,C,H,W]", x)
	}
	if a.Order != CRD && a.Order != DCR {
		return fmt.Errorf("order is %q; want %q or %q", a.Order, CRD, DCR)
	}
	return checkSize("size", a.Size, 1)
}

// channel returns the number, within a block, of row i, column j and channel c of the given number of channels.
func (a BlockAttrs) channel(i, j, c, channels int) int {
	if a.Order == CRD {
		return (c*a.Size+i)*a.Size + j
	}
	return (i*a.Size+j)*channels + c
}

// DepthToSpaceDef turns channels into blocks of pixels. It is a block: one transpose.
var DepthToSpaceDef = ir.Define(ir.Def[BlockAttrs]{
	Name: "depth_to_space",
	Doc: "x [N, C*size^2, H, W] as [N, C, H*size, W*size]: the channels of a pixel become a block of size by size pixels, in the order that order says. " +
		"Order crd is PyTorch's pixel_shuffle, both are in ONNX's DepthToSpace.",
	Block:    true,
	Operands: "x",
	Infer: func(s ir.Sig[BlockAttrs]) (ir.Type, error) {
		x, a := s.In[0], s.Attrs
		if err := a.check(x); err != nil {
			return ir.Type{}, err
		}
		square, _ := ir.Static(int64(a.Size)).Mul(ir.Static(int64(a.Size)))
		c, divides := x.Shape[1].Div(square)
		h, err := times(x.Shape[2], "size", a.Size)
		if err != nil {
			return ir.Type{}, err
		}
		w, err := times(x.Shape[3], "size", a.Size)
		if err != nil {
			return ir.Type{}, err
		}
		if square == (ir.Dim{}) || !divides {
			return ir.Type{}, fmt.Errorf("x is %v; want channels that the square of size, %d, divides", x, a.Size)
		}
		return ir.Type{DType: x.DType, Shape: ir.Shape{x.Shape[0], c, h, w}}, nil
	},
	Eval: func(a BlockAttrs, in []*tensor.Array, out *tensor.Array) error {
		a.pair(out.Shape, func(space, depth int) { take(out, space, in[0], depth) })
		return nil
	},
	FLOPs: noFLOPs[BlockAttrs],
	Tol:   exact[BlockAttrs],
	Cases: func() []ir.Case[BlockAttrs] {
		return blockCases(func(n, c, h, w, size int64) []int64 { return []int64{n, c * size * size, h, w} })
	},
})

// pair visits the pairs of corresponding elements of a tensor of pixels with the given shape and of the tensor with
// blocks in the channels.
func (a BlockAttrs) pair(space []int, visit func(space, depth int)) {
	n, channels, h, w := space[0], space[1], space[2]/a.Size, space[3]/a.Size
	at := 0
	for b := range n {
		for c := range channels {
			for y := range h * a.Size {
				for x := range w * a.Size {
					k := b*channels*a.Size*a.Size + a.channel(y%a.Size, x%a.Size, c, channels)
					visit(at, (k*h+y/a.Size)*w+x/a.Size)
					at++
				}
			}
		}
	}
}

// blockCases are cases of operands with the shape of n images of c channels and h by w blocks.
func blockCases(shape func(n, c, h, w, size int64) []int64) []ir.Case[BlockAttrs] {
	var cases []ir.Case[BlockAttrs]
	for _, order := range []string{CRD, DCR} {
		for _, s := range [][5]int64{{1, 1, 1, 1, 1}, {1, 1, 2, 3, 2}, {2, 3, 3, 2, 2}, {1, 2, 2, 1, 3},
			{0, 2, 2, 2, 2}, {2, 1, 0, 3, 2}} {
			x := f32(shape(s[0], s[1], s[2], s[3], s[4])...)
			cases = append(cases, ir.Case[BlockAttrs]{Attrs: BlockAttrs{int(s[4]), order}, In: []ir.Type{x}})
		}
	}
	for _, d := range elementTypes() {
		cases = append(
			cases, ir.Case[BlockAttrs]{Attrs: BlockAttrs{2, CRD}, In: []ir.Type{ir.TypeOf(d, shape(1, 2, 2, 3, 2)...)}})
	}
	return cases
}

var _ = ir.Lower(DepthToSpaceDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, out := n.Attrs.(BlockAttrs), n.Type.Shape
	size, x := ir.Static(int64(a.Size)), in[0]
	if h, w := x.Type.Shape[2], x.Type.Shape[3]; a.Order == CRD {
		x = Transpose(Reshape(x, ir.Shape{out[0], out[1], size, size, h, w}), 0, 1, 4, 2, 5, 3)
	} else {
		x = Transpose(Reshape(x, ir.Shape{out[0], size, size, out[1], h, w}), 0, 3, 4, 1, 5, 2)
	}
	return Reshape(x, out)
})

// DepthToSpace adds x with the channels of each pixel turned into a block of pixels.
func DepthToSpace(x *ir.Node, a BlockAttrs) *ir.Node { return x.Graph.Add(DepthToSpaceDef, a, x) }

// PixelShuffle is DepthToSpace in PyTorch's order.
func PixelShuffle(x *ir.Node, size int) *ir.Node { return DepthToSpace(x, BlockAttrs{size, CRD}) }
