package sam3

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// A level is one scale of the neck: features [1,F,h,w], and the encoding of their positions with the same shape.
type level struct {
	name          string
	features, pos *ir.Node
}

// neckAlone builds the neck for an input tokens [1,g*g,C], with the heads of the given name.
func neckAlone(c config, root nn.Scope, heads string) {
	tokens := op.Input(root.Graph, "tokens", ir.TypeOf(dtype.F32, 1, c.grid*c.grid, c.width))
	returnLevels(root.Graph, neck(c, root.At(heads), op.Reshape(tokens, ir.ShapeOf(1, c.grid, c.grid, c.width))))
}

// branches names the two necks by the first part of their tensors' names.
var branches = map[string]string{"convs": "the detector's neck", "sam2_convs": "the tracker's neck"}

// scales are the sides of the levels in sides of the grid, rounded down.
var scales = []float64{4, 2, 1, 0.5}

// levelName returns "the detector's neck, scale 4" for convs and 0.
func levelName(heads string, level int) string {
	return fmt.Sprintf("%s, scale %v", branches[heads], scales[level])
}

// neck maps x [1,g,g,C] to levels with sides 4g, 2g, g and g/2 (rounded down), one for each head.
func neck(c config, heads nn.Scope, x *ir.Node) (levels []level) {
	for i := range scales {
		h := head(c, heads, i, x)
		levels = append(
			levels, level{fmt.Sprint("level", i), op.Transpose(h, 0, 3, 1, 2),
				sine(heads.Graph, c.fpn, h.Type.Shape[1].Const)})
	}
	return levels
}

// head returns level i of a neck [1,h,w,F].
func head(c config, heads nn.Scope, i int, x *ir.Node) *ir.Node {
	s, h := heads.At(i).About(levelName(heads.Path(), i)), x
	switch i {
	case 0:
		h = op.Gelu(double(s.At("dconv_2x2_0"), h))
		h = double(s.At("dconv_2x2_1"), h)
	case 1:
		h = double(s.At("dconv_2x2"), h)
	case 3:
		h = op.Pool(h, op.PoolAttrs{Kind: "max", Kernel: []int{2, 2}, Stride: []int{2, 2}, Layout: op.NHWC})
	}
	in := h.Type.Shape[3].Const
	one := s.At("conv_1x1")
	h = hir.Linear(h, op.Reshape(one.Param("weight", c.fpn, in, 1, 1), ir.ShapeOf(c.fpn, in)),
		one.Param("bias", c.fpn), "").Named(one.Path())
	three := s.At("conv_3x3")
	return op.Conv2D(h, three.Param("weight", c.fpn, c.fpn, 3, 3), three.F32("bias", c.fpn),
		op.ConvAttrs{Stride: []int{1, 1}, Padding: []int{1, 1}, Dilation: []int{1, 1},
			Layout: op.NHWC}).Named(three.Path())
}

// double maps x [1,h,w,C] to [1,2h,2w,C/2] by a transposed convolution.
func double(s nn.Scope, x *ir.Node) *ir.Node {
	in := x.Type.Shape[3].Const
	return op.ConvTranspose2D(x, s.Param("weight", in, in/2, 2, 2), s.F32("bias", in/2),
		op.ConvTransposeAttrs{Stride: []int{2, 2}, Padding: []int{0, 0}, OutputPadding: []int{0, 0},
			Dilation: []int{1, 1}, Layout: op.NHWC}).Named(s.Path())
}

// sine returns the encoding [1,F,side,side] of the positions in a square (Carion et al., arXiv:2005.12872): F/2
// channels for y, then F/2 for x. Sines and cosines alternate, at frequencies 10000^(-2j/(F/2)), for positions from
// 2π/side to 2π. It folds to a constant.
func sine(g *ir.Graph, channels, side int64) *ir.Node {
	n := channels / 2
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F64)) }
	t := ir.TypeOf(dtype.F64, n/2, 1, side)
	at := op.Mul(op.Add(op.Iota(g, 2, t), number(1)), number(2*math.Pi/(float64(side)+1e-6)))
	angle := op.Mul(at, op.Exp(op.Mul(op.Iota(g, 0, t), number(-2*math.Log(10000)/float64(n)))))
	axis := op.Cast(op.Reshape(op.Concat(1, op.Sin(angle), op.Cos(angle)), ir.ShapeOf(n, side)), dtype.F32)
	square := ir.ShapeOf(n, side, side)
	y := op.Expand(op.Reshape(axis, ir.ShapeOf(n, side, 1)), square)
	x := op.Expand(op.Reshape(axis, ir.ShapeOf(n, 1, side)), square)
	return op.Reshape(op.Concat(0, y, x), ir.ShapeOf(1, channels, side, side))
}
