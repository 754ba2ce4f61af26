package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// The ranks of inputs.
var (
	_ = ranks("3-4 3-4 3-4 1-4 4 4 1", "Attention")
	_ = ranks("3-4 2-3 2-3 2", "RotaryEmbedding")
)

var (
	_ = on("Attention", 23, attention)
	_ = on("RotaryEmbedding", 23, func(n *node) []*value {
		return one(n.rotary(n.x(0), n.x(1), n.x(2), n.maybe(3), n.int("num_heads", 0), n.int("rotary_embedding_dim", 0),
			n.int("interleaved", 0) != 0))
	})
)

// heads returns rows [B,S,H*D] as [B,H,S,D], and a tensor of rank 4 as it is.
func (n *node) heads(x *ir.Node, count int) *ir.Node {
	if x.Type.Rank() == 4 {
		return x
	}
	if x.Type.Rank() != 3 || count < 1 {
		n.fail("operand is %v of %d heads; want [B,S,H*D], or [B,H,S,D]", x.Type, count)
	}
	s := x.Type.Shape
	d, ok := s[2].FloorDiv(int64(count))
	if !ok {
		n.fail("operand is %v of %d heads; want a multiple", x.Type, count)
	}
	return op.Transpose(op.Reshape(x, ir.Shape{s[0], s[1], ir.Static(int64(count)), d}), 0, 2, 1, 3)
}

// attention converts Attention. A causal mask alone stays an attribute. Other masks become one mask of all scores.
func attention(n *node) []*value {
	flat := n.typeOf(0).Rank() == 3
	h, hkv := n.int("q_num_heads", 0), n.int("kv_num_heads", 0)
	q, k, v := n.heads(n.x(0), h), n.heads(n.x(1), hkv), n.heads(n.x(2), hkv)
	past := ir.Static(0)
	if n.has(4) {
		past = n.typeOf(4).Shape[2]
		k, v = op.Concat(2, n.x(4), k), op.Concat(2, n.x(5), v)
	}
	a := op.AttentionAttrs{Heads: int(q.Type.Shape[1].Const), KVHeads: int(k.Type.Shape[1].Const), Layout: op.BHSD,
		Scale: n.float("scale", 0), Softcap: n.float("softcap", 0)}
	sq, sk := q.Type.Shape[2], k.Type.Shape[2]
	causal := n.int("is_causal", 0) != 0
	left, right := n.int("left_window_size", -1), n.int("right_window_size", -1)
	mask := n.maskOf(sk, 3)
	var o op.AttentionOperands
	switch {
	case causal && left < 0 && mask == nil && !n.has(6) && sk == n.sum(past, sq):
		a.Mask = op.MaskCausal
	case !causal && left < 0 && right < 0 && mask == nil && !n.has(6):
	default:
		allowed := n.visible(q, k, past, causal, left, right)
		switch {
		case mask == nil:
			a.Mask, o.Mask = op.MaskCustom, allowed
		case mask.Type.DType == dtype.Bool:
			if allowed != nil {
				mask = op.And(mask, allowed)
			}
			a.Mask, o.Mask = op.MaskCustom, mask
		default:
			if allowed != nil {
				mask = op.Where(allowed, mask, number(math.Inf(-1), mask))
			}
			a.Mask, o.Mask = op.MaskBias, mask
		}
		if r := o.Mask.Type.Rank(); r < 4 {
			shape := ir.Shape{}
			for range 4 - r {
				shape = append(shape, ir.Static(1))
			}
			o.Mask = op.Reshape(o.Mask, append(shape, o.Mask.Type.Shape...))
		}
	}
	y := op.Attention(q, k, v, o, a)
	if flat {
		s := y.Type.Shape
		y = op.Reshape(op.Transpose(y, 0, 2, 1, 3), ir.Shape{s[0], s[2], n.product(ir.Shape{s[1], s[3]})})
	}
	out := many(y, k, v)
	if len(n.p.GetOutput()) > 3 && n.p.GetOutput()[3] != "" {
		out = append(out, many(n.scores(q, k, o.Mask, a))...)
	}
	return out
}

// maskOf returns the mask that is input i, or nil. It extends the mask to sk keys; the added keys take no part.
func (n *node) maskOf(sk ir.Dim, i int) *ir.Node {
	m := n.maybe(i)
	if m == nil {
		return nil
	}
	last := m.Type.Rank() - 1
	have := m.Type.Shape[last]
	if have == sk || have.Is(1) {
		return m
	}
	if !have.IsStatic() || !sk.IsStatic() {
		n.fail("the mask is for %v keys, and there are %v; want the same number", have, sk)
	}
	before, after := make([]int, last+1), make([]int, last+1)
	after[last] = int(sk.Const - have.Const)
	fill := math.Inf(-1)
	if m.Type.DType == dtype.Bool {
		fill = 0
	}
	return op.Pad(m, before, after, fill)
}

// visible returns which keys each query may attend to by its position, bool [B or 1,1,Sq,Sk]; nil if all.
func (n *node) visible(q, k *ir.Node, past ir.Dim, causal bool, left, right int) *ir.Node {
	shape := ir.Shape{ir.Static(1), ir.Static(1), q.Type.Shape[2], k.Type.Shape[2]}
	i, j := n.along(shape, 2), n.along(shape, 3)
	var out *ir.Node
	and := func(c *ir.Node) {
		if out == nil {
			out = c
		} else {
			out = op.And(out, c)
		}
	}
	offset := n.sizeNode(past, dtype.I64)
	if n.has(6) {
		lens := n.at(cast(n.x(6), dtype.I64), 0, 4)
		and(op.Lt(j, lens))
		if !n.has(4) {
			offset = op.Sub(lens, n.sizeNode(shape[2], dtype.I64))
		}
	}
	p := op.Add(i, offset)
	if causal {
		and(op.Le(j, p))
	}
	if left >= 0 {
		and(op.Ge(j, op.Sub(p, number(float64(left), p))))
	}
	if right >= 0 {
		and(op.Le(j, op.Add(p, number(float64(right), p))))
	}
	return out
}

// scores returns the fourth result of Attention: the scores at a stage of the computation.
func (n *node) scores(q, k, mask *ir.Node, a op.AttentionAttrs) *ir.Node {
	d := q.Type.DType
	if a.Heads != a.KVHeads {
		s := k.Type.Shape
		g := int64(a.Heads / a.KVHeads)
		wide := ir.Shape{s[0], s[1], ir.Static(g), s[2], s[3]}
		k = op.Reshape(op.Expand(op.Reshape(k, ir.Shape{s[0], s[1], ir.Static(1), s[2], s[3]}), wide),
			ir.Shape{s[0], q.Type.Shape[1], s[2], s[3]})
	}
	mode := n.int("qk_matmul_output_mode", 0)
	q, k = cast(q, dtype.F32), cast(k, dtype.F32)
	y := op.MatMul(q, k, op.MatMulAttrs{TransB: true})
	y = op.Mul(y, number(a.EffectiveScale(q.Type.Shape[3].Const), y))
	if a.Softcap != 0 && mode >= 1 {
		y = op.Mul(op.Tanh(op.Div(y, number(a.Softcap, y))), number(a.Softcap, y))
	}
	if mode < 2 {
		return cast(y, d)
	}
	if a.Mask == op.MaskCausal {
		past := ir.Static(0)
		if n.has(4) {
			past = n.typeOf(4).Shape[2]
		}
		mask = n.visible(q, k, past, true, -1, -1)
	}
	switch {
	case mask == nil:
	case mask.Type.DType == dtype.Bool:
		y = op.Where(mask, y, number(math.Inf(-1), y))
	default:
		y = op.Add(y, cast(mask, dtype.F32))
	}
	if mode == 2 {
		return cast(y, d)
	}
	top := op.ReduceMax(y, true, 3)
	top = op.Where(op.Isinf(top), number(0, top), top)
	e := op.Exp(op.Sub(y, top))
	total := op.ReduceSum(e, true, 3)
	return cast(op.Where(op.Eq(total, number(0, total)), number(0, e), op.Div(e, total)), d)
}

// rotary turns the pairs of each head. Tables are [S_max,w] with positions, or [B,S,w] without.
func (n *node) rotary(x, cos, sin, positions *ir.Node, count, rot int, interleaved bool) *ir.Node {
	s := x.Type.Shape
	a := op.RopeAttrs{Rot: rot, Style: "neox", Layout: op.BHSD}
	if interleaved {
		a.Style = "gptj"
	}
	batch, length := s[0], s[min(2, len(s)-2)]
	if x.Type.Rank() == 3 {
		length = s[1]
		d, ok := s[2].FloorDiv(int64(max(1, count)))
		if count < 1 || !ok || !d.IsStatic() {
			n.fail("num_heads is %d; want it for an input of rank 3", count)
		}
		a.Layout, a.HeadDim = op.BSE, int(d.Const)
	} else {
		a.HeadDim = int(s[3].Const)
	}
	if positions == nil {
		if cos.Type.Rank() == 3 {
			rows := n.product(cos.Type.Shape[:2])
			flat := ir.Shape{rows, cos.Type.Shape[2]}
			positions = op.Reshape(op.Iota(n.b.g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{rows}}),
				cos.Type.Shape[:2])
			cos, sin = op.Reshape(cos, flat), op.Reshape(sin, flat)
		} else {
			positions = op.Iota(n.b.g, 1, ir.Type{DType: dtype.I32, Shape: ir.Shape{batch, length}})
		}
	}
	if p := positions.Type.Shape; len(p) == 2 && p[0] != batch {
		positions = op.Expand(positions, ir.Shape{batch, p[1]})
	}
	return op.Rope(x, op.RopeOperands{Cos: cos, Sin: sin, Position: cast(positions, dtype.I32)}, a)
}
