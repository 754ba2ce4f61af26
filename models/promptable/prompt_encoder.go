package promptable

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// scalar returns an f32 constant that broadcasts.
func scalar(g *ir.Graph, v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F32)) }

// positions encodes coordinates in [0,1] (x, y on the last axis) with random Fourier features (arXiv:2006.10739):
// [sin(2π(2p−1)·G), cos(2π(2p−1)·G)].
func (d Decoder) positions(s nn.Scope, p *ir.Node) *ir.Node {
	p = op.Sub(op.Mul(p, scalar(s.Graph, 2)), scalar(s.Graph, 1))
	p = op.MatMul(p, s.F32("pe_layer.positional_encoding_gaussian_matrix", 2, d.Embed/2), op.MatMulAttrs{})
	p = op.Mul(p, scalar(s.Graph, 2*math.Pi))
	return op.Concat(p.Type.Rank()-1, op.Sin(p), op.Cos(p))
}

// sparsePrompts maps points [P,N,2] (pixels of the square input) with labels [P,N] to [P,N,C]. Labels are -1 for
// padding, 0 for background, 1 for foreground, 2 and 3 for corners of a box. Any other is an index out of range at run
// time.
func (d Decoder) sparsePrompts(s nn.Scope, points, labels *ir.Node) *ir.Node {
	g := s.Graph
	// The centre of a pixel is half a pixel from its corner.
	at := op.Mul(op.Add(points, scalar(g, 0.5)), scalar(g, 1/float64(d.ImageSize)))
	pe := d.positions(s, at)
	one := op.Const(g, 1, ir.TypeOf(dtype.I32))
	kind := op.Gather(d.Kinds(s), op.Add(labels, one), 0)
	padding := op.Eq(labels, op.Const(g, -1, ir.TypeOf(dtype.I32)))
	padding = op.Reshape(padding, append(append(ir.Shape{}, labels.Type.Shape...), ir.Static(1)))
	return op.Add(op.Where(padding, scalar(g, 0), pe), kind)
}

// densePrompt maps a mask prompt [1,1,4g,4g] of logits to [1,g*g,C]. A mask of NaN means no mask, and gives the operand
// none, [1,C].
func (d Decoder) densePrompt(s nn.Scope, mask, none *ir.Node) *ir.Node {
	absent := op.Isnan(mask)
	x := op.Where(absent, scalar(s.Graph, 0), mask) // keeps NaN out of the convolutions
	x = op.Reshape(x, ir.ShapeOf(1, 4*d.Grid, 4*d.Grid, 1))
	s = s.At("mask_downscaling")
	in := int64(1)
	for i, conv := range []int{0, 3} {
		out := d.MaskChannels[i]
		x = op.Conv2D(x, s.Param(fmt.Sprint(conv, ".weight"), out, in, 2, 2), s.F32(fmt.Sprint(conv, ".bias"), out),
			op.ConvAttrs{Stride: []int{2, 2}, Padding: []int{0, 0}, Dilation: []int{1, 1}, Layout: "nhwc"}).Named(s.At(
			conv).Path())
		norm := s.At(conv + 1)
		x = hir.LayerNorm2d(x, norm.Param("weight", out), norm.Param("bias", out), d.MaskEps, "nhwc").Named(norm.Path())
		x = op.Activate(x, d.MaskAct)
		in = out
	}
	x = op.Reshape(x, ir.ShapeOf(1, d.Grid*d.Grid, in))
	last := s.At(6)
	x = hir.Linear(x, op.Reshape(last.Param("weight", d.Embed, in, 1, 1), ir.ShapeOf(d.Embed, in)),
		last.Param("bias", d.Embed), "").Named(last.Path())
	first := op.Reshape(op.Narrow(op.Narrow(absent, 2, 0, 1), 3, 0, 1), ir.ShapeOf(1, 1, 1))
	return op.Where(first, none, x)
}

// gridPositions returns the encoding of the centres of the token grid, [1, g*g, C]. It has no run-time operand and
// folds to a constant.
func (d Decoder) gridPositions(s nn.Scope) *ir.Node {
	t := ir.TypeOf(dtype.I32, d.Grid, d.Grid, 1)
	axis := func(i int) *ir.Node {
		x := op.Cast(op.Iota(s.Graph, i, t), dtype.F32)
		return op.Mul(op.Add(x, scalar(s.Graph, 0.5)), scalar(s.Graph, 1/float64(d.Grid)))
	}
	pe := d.positions(s, op.Concat(2, axis(1), axis(0)))
	return op.Reshape(pe, ir.ShapeOf(1, d.Grid*d.Grid, d.Embed))
}
