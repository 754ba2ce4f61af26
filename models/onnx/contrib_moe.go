package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has the mixtures of experts of com.microsoft, as the builder of onnxruntime-genai writes them.

// The ranks of inputs.
var (
	_ = ranks("2-3 2 3 2 3 2 3 2", "com.microsoft.MoE")
	_ = ranks("2-3 2 3 2-3 2 3 2-3 2 3 2-3 2 2-3 2-3 2-3 2", "com.microsoft.QMoE")
)

var (
	_ = contrib("MoE", "activation_type geglu is refused", func(n *node) []*value {
		layer := func(weights, bias int) func(x, expert *ir.Node) *ir.Node {
			return n.expertLayer(n.maybe(weights), n.maybe(bias))
		}
		return n.experts(layer(2, 3), layer(4, 5), layer(6, 7), nil)
	})
	_ = contrib("QMoE", "of integers in 2, 4 and 8 bits, which become floats; activation_type geglu is refused",
		func(n *node) []*value {
			if kind := n.str("quant_type", "int"); kind != "int" {
				n.fail("quant_type is %s; allowed is int", kind)
			}
			for i := 15; i < len(n.in); i++ {
				if n.has(i) {
					n.fail("input %d (%s) is not supported", i, n.in[i].name)
				}
			}
			if n.int("weights_prepacked", 0) > 0 {
				n.fail("weights_prepacked is %d; want weights in the order of the rows", n.int("weights_prepacked", 0))
			}
			layer := func(first, zero int, bits string) func(x, expert *ir.Node) *ir.Node {
				if !n.has(first) {
					return nil
				}
				return n.expertLayer(n.expertWeights(first, zero, n.int(bits, int64(n.int("expert_weight_bits", 4)))),
					n.maybe(first+2))
			}
			return n.experts(layer(2, 11, "fc1_expert_weight_bits"), layer(5, 12, "fc2_expert_weight_bits"),
				layer(8, 13, "fc3_expert_weight_bits"), n.maybe(14))
		})
)

// expertWeights returns the weights [E,N,K] of a layer of QMoE. Each row, or each block of a row, has a scale and a
// zero point.
func (n *node) expertWeights(i, zero, bits int) *ir.Node {
	packed, scale := n.x(i), n.x(i+1)
	s := packed.Type.Shape
	if bits != 2 && bits != 4 && bits != 8 || !s[2].IsStatic() {
		n.fail("input %d (%s) is %v in %d bits; allowed are 2, 4 and 8", i, n.in[i].name, packed.Type, bits)
	}
	d := scale.Type.DType
	k := int(s[2].Const) * 8 / bits
	w := cast(unpackedBits(packed, bits), d)
	if scale.Type.Rank() == 2 {
		scale = op.Reshape(scale, append(append(ir.Shape{}, scale.Type.Shape...), ir.Static(1)))
	}
	blocks := int(scale.Type.Shape[2].Const)
	if !scale.Type.Shape[2].IsStatic() || blocks < 1 || k%blocks != 0 {
		n.fail("the scales of input %d (%s) are %v; want them for blocks of equal size of %d weights", i, n.in[i].name,
			scale.Type, k)
	}
	each := ir.Shape{s[0], s[1], ir.Static(int64(blocks)), ir.Static(1)}
	w = op.Reshape(w, ir.Shape{s[0], s[1], ir.Static(int64(blocks)), ir.Static(int64(k / blocks))})
	if n.has(zero) {
		z := n.x(zero)
		if z.Type.Rank() == 2 { // packed along the rows
			z = op.Reshape(op.Narrow(unpackedBits(z, bits), 1, 0, int(s[1].Const)), each)
		} else {
			z = op.Reshape(op.Narrow(unpackedBits(z, bits), 2, 0, blocks), each)
		}
		w = op.Sub(w, cast(z, d))
	} else {
		w = op.Sub(w, number(float64(int(1)<<(bits-1)), w))
	}
	w = op.Mul(w, op.Reshape(scale, each))
	return op.Reshape(w, ir.Shape{s[0], s[1], ir.Static(int64(k))})
}

// expertLayer returns the function of a linear layer with weights [E,N,K] and a bias [E,N], which may be nil. It is nil
// if there are no weights.
func (n *node) expertLayer(w, bias *ir.Node) func(x, expert *ir.Node) *ir.Node {
	if w == nil {
		return nil
	}
	return func(x, expert *ir.Node) *ir.Node {
		y := op.GroupedMatMul(x, cast(w, x.Type.DType), expert, op.GroupedMatMulAttrs{TransB: true})
		if bias != nil {
			y = op.Add(y, cast(op.Gather(bias, expert, 0), y.Type.DType))
		}
		return y
	}
}

// experts returns the sum of the k best experts of each row, weighted by the router. weights may be nil; then they are
// the router's probabilities.
func (n *node) experts(fc1, fc2, fc3 func(x, expert *ir.Node) *ir.Node, weights *ir.Node) []*value {
	x, router, k := n.x(0), n.x(1), n.int("k", 1)
	if fc1 == nil || fc2 == nil || n.int("use_sparse_mixer", 0) != 0 {
		n.fail("has no weights of fc1 or fc2, or use_sparse_mixer; want both layers, and the router's probabilities")
	}
	if e := router.Type.Shape[1]; !e.IsStatic() || k < 1 || int64(k) > e.Const {
		n.fail("chooses %d of %v experts; want 1 or more, and a number of experts that is known", k, e)
	}
	s := x.Type.Shape
	width := s[len(s)-1]
	rows := n.product(s[:len(s)-1])
	flat := op.Reshape(x, ir.Shape{rows, width})
	best, at := op.TopK(router, k)
	switch normal := n.int("normalize_routing_weights", 0) != 0; {
	case weights != nil:
		weights = op.GatherBatched(weights, at, 1)
	case normal:
		weights = op.Softmax(best, 1)
	default:
		weights = op.GatherBatched(op.Softmax(router, 1), at, 1)
	}
	count := op.Iota(n.b.g, 0, ir.Type{DType: at.Type.DType, Shape: ir.Shape{n.product(at.Type.Shape)}})
	each := op.Gather(flat, op.Div(count, number(float64(k), count)), 0)
	expert := n.flat(at)
	hidden := fc1(each, expert)
	var linear *ir.Node
	if fc3 != nil {
		linear = fc3(each, expert)
	}
	y := fc2(n.expertActivation(hidden, linear), expert)
	y = op.Mul(y, cast(op.Reshape(weights, ir.Shape{y.Type.Shape[0], ir.Static(1)}), y.Type.DType))
	y = op.ReduceSum(op.Reshape(y, ir.Shape{rows, ir.Static(int64(k)), width}), false, 1)
	return one(op.Reshape(y, s))
}

// expertActivation applies the activation. linear is the result of fc3, or nil.
func (n *node) expertActivation(x, linear *ir.Node) *ir.Node {
	gated := func(y *ir.Node) *ir.Node {
		if linear == nil {
			return y
		}
		return op.Mul(y, linear)
	}
	switch a := n.str("activation_type", "relu"); a {
	case "relu":
		return gated(op.Relu(x))
	case "gelu":
		return gated(op.Gelu(x))
	case "silu":
		return gated(op.Silu(x))
	case "identity":
		return gated(x)
	case "swiglu":
		return n.swiglu(x, linear)
	default:
		n.fail("activation_type is %q; allowed are relu, gelu, silu, swiglu and identity", a)
		return nil
	}
}

// swiglu is g·sigmoid(alpha·g)·(l+beta), where g and l are two tensors, or the even and odd columns, or the halves, of
// one.
func (n *node) swiglu(g, l *ir.Node) *ir.Node {
	if fusion := n.int("swiglu_fusion", 0); fusion != 0 {
		rows, columns := g.Type.Shape[0], g.Type.Shape[1].Const
		if l != nil || columns%2 != 0 {
			n.fail("swiglu_fusion is %d with %d columns; want two halves, and no fc3", fusion, columns)
		}
		half := ir.Static(columns / 2)
		axis, shape := 1, ir.Shape{rows, ir.Static(2), half}
		if fusion == 1 {
			axis, shape = 2, ir.Shape{rows, half, ir.Static(2)}
		}
		both := op.Reshape(g, shape)
		part := func(i int) *ir.Node { return op.Reshape(op.Narrow(both, axis, i, 1), ir.Shape{rows, half}) }
		g, l = part(0), part(1)
	}
	if l == nil {
		n.fail("has no fc3, and swiglu_fusion is 0; want one of both")
	}
	if n.int("swiglu_limit_after_activation", 0) != 0 {
		n.fail("swiglu_limit_after_activation is not supported")
	}
	if limit := n.float("swiglu_limit", math.Inf(1)); !math.IsInf(limit, 1) {
		g, l = op.Clamp(g, math.Inf(-1), limit), op.Clamp(l, -limit, limit)
	}
	g = op.Mul(g, op.Sigmoid(op.Mul(g, number(n.float("activation_alpha", 1), g))))
	return op.Mul(g, op.Add(l, number(n.float("activation_beta", 0), l)))
}
