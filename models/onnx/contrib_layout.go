package onnx

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops of com.microsoft whose channels are the last axis, as ONNX Runtime's optimizers write them for
// quantized models and for diffusion models. They are the ops of the default domain between two transposes.

// The ranks of inputs.
var (
	_ = ranks("3-5 one one 3-5 0-1 0-1 one one 1", "com.microsoft.QLinearConv")
	_ = ranks("3-5", "com.microsoft.NhwcMaxPool")
	_ = ranks("3-5 3-5 1 3-5", "com.microsoft.NhwcConv", "com.microsoft.NhwcFusedConv")
	_ = ranks("3-5 1 1 2-5 1", "com.microsoft.GroupNorm", "com.microsoft.SkipGroupNorm")
	_ = ranks("1+ 1", "com.microsoft.BiasSplitGelu")
)

var (
	_ = contrib("QLinearConv", "", func(n *node) []*value {
		if n.int("channels_last", 0) == 0 {
			return asDefault("QLinearConv")(n)
		}
		return n.channelsLast(asDefault("QLinearConv"))
	})
	_ = contrib("NhwcMaxPool", "", func(n *node) []*value { return n.channelsLast(asDefault("MaxPool")) })
	_ = contrib("NhwcConv", "", nhwcConv)
	_ = contrib("NhwcFusedConv", "", nhwcConv)
	_ = contrib("GroupNorm", "", func(n *node) []*value { return many(n.groupNorm(n.x(0))) })
	_ = contrib("SkipGroupNorm", "", func(n *node) []*value {
		x := n.biased(n.x(0), 4) // along the channels, which are last
		skip := n.x(3)
		if s := skip.Type.Shape; len(s) == 2 && x.Type.Rank() == 4 { // for each image, [N,C]
			skip = op.Reshape(skip, ir.Shape{s[0], ir.Static(1), ir.Static(1), s[1]})
		}
		x = op.Add(x, skip)
		return many(n.groupNorm(x), x)
	})
	_ = contrib("BiasSplitGelu", "", func(n *node) []*value {
		x := n.biased(n.x(0), 1)
		last := x.Type.Rank() - 1
		width := n.features(x)
		if width%2 != 0 {
			n.fail("input is %v; want a last axis of two halves", x.Type)
		}
		half := func(i int) *ir.Node { return op.Narrow(x, last, i*width/2, width/2) }
		return one(op.Mul(half(0), op.Gelu(half(1))))
	})
)

// channelsSecond returns a tensor whose channels are last with the channels second.
func channelsSecond(x *ir.Node) *ir.Node {
	perm := []int{0, x.Type.Rank() - 1}
	for i := 1; i < x.Type.Rank()-1; i++ {
		perm = append(perm, i)
	}
	return op.Transpose(x, perm...)
}

// channelsEnd returns a tensor whose channels are second with the channels last.
func channelsEnd(x *ir.Node) *ir.Node {
	perm := []int{0}
	for i := 2; i < x.Type.Rank(); i++ {
		perm = append(perm, i)
	}
	return op.Transpose(x, append(perm, 1)...)
}

// channelsLast converts a node whose first input and result have the channels last.
func (n *node) channelsLast(convert func(n *node) []*value) []*value {
	m := *n
	m.in = slices.Clone(n.in)
	x := channelsSecond(n.x(0))
	m.in[0] = &value{name: n.in[0].name, typ: x.Type, node: x, narrow: n.in[0].narrow}
	out := convert(&m)
	n.bounded = m.bounded
	y := channelsEnd(n.b.at(out[0]))
	return []*value{{typ: y.Type, node: y, narrow: out[0].narrow}}
}

// nhwcConv is NhwcConv, and NhwcFusedConv with a sum and an activation. Its weights have the channels last, too.
func nhwcConv(n *node) []*value {
	y := channelsEnd(n.conv(channelsSecond(n.x(0)), channelsSecond(n.x(1)), n.maybe(2)))
	return one(n.activated(n.biased(y, 3)))
}

// groupNorm is the norm of groups of channels, with SiLU after it if the node says so.
func (n *node) groupNorm(x *ir.Node) *ir.Node {
	last := n.int("channels_last", 1) != 0
	if last {
		x = channelsSecond(x)
	}
	groups := n.int("groups", 0)
	if c := x.Type.Shape[1]; groups < 1 || !c.IsStatic() || c.Const%int64(groups) != 0 {
		n.fail("groups is %d for %v channels; want a divisor", groups, c)
	}
	y := op.GroupNorm(x, cast(n.x(1), x.Type.DType), cast(n.x(2), x.Type.DType), groups, n.float32("epsilon", 1e-5))
	switch a := n.int("activation", 0); a {
	case 0:
	case 1:
		y = op.Silu(y)
	default:
		n.fail("activation is %d; allowed are 0 and 1 (SiLU)", a)
	}
	if last {
		y = channelsEnd(y)
	}
	return y
}

// The distances between rows, as skl2onnx writes them for neighbours and Gaussian processes.
var (
	_ = ranks("2 2", "com.microsoft.CDist")
	_ = ranks("2+ one", "com.microsoft.Trilu")
	_ = contrib("Trilu", "", asDefault("Trilu"))
	_ = contrib("CDist", "", func(n *node) []*value {
		a, b := n.x(0), n.x(1)
		s, w := a.Type.Shape, b.Type.Shape
		d := op.Sub(op.Reshape(a, ir.Shape{s[0], ir.Static(1), s[1]}), b)
		y := op.Reshape(op.ReduceSum(op.Square(d), false, 2), ir.Shape{s[0], w[0]})
		switch metric := n.str("metric", "sqeuclidean"); metric {
		case "sqeuclidean":
		case "euclidean":
			y = op.Sqrt(y)
		default:
			n.fail("metric is %q; allowed are sqeuclidean and euclidean", metric)
		}
		return one(y)
	})
)

// nf4 and fp4 have the values of MatMulBnb4, of bitsandbytes: quantiles of the normal distribution, and floats of 4
// bits that are scaled to 1.
var (
	nf4 = []float64{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
		-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
		0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}
	fp4 = []float64{0, 5.208333333e-03, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25}
)

// bnbTable returns the 16 values of a quant_type.
func (n *node) bnbTable() []float64 {
	switch n.int("quant_type", 0) {
	case 1:
		return nf4
	case 0:
		all := slices.Clone(fp4)
		for _, v := range fp4 {
			all = append(all, math.Copysign(v, -1))
		}
		return all
	}
	n.fail("quant_type is %d; allowed are 0 (FP4) and 1 (NF4)", n.int("quant_type", 0))
	return nil
}
