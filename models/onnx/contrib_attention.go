package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// The ranks of inputs.
var (
	_ = ranks("3 2 1 1-4 5", "com.microsoft.Attention")
	_ = ranks("3 2 1 one one 1-4 one 0-1 5", "com.microsoft.QAttention")
	_ = ranks("3-5 3-5 3-4 1 1-3 2-4 4 4", "com.microsoft.MultiHeadAttention")
	_ = ranks("3 3-4 3-4 4 4 1-2 * 2 2 2 1-4", "com.microsoft.GroupQueryAttention")
	_ = ranks("3-4 1-2 2 2", "com.microsoft.RotaryEmbedding")
)

var (
	_ = contrib("Attention", "past and present are [2,B,H,S,D]", func(n *node) []*value {
		q, k, v := n.projected(n.matmul(n.x(0), n.x(1)), 2)
		return n.packedAttention(q, k, v, 3, 4, 5)
	})
	_ = contrib("QAttention", "past and present are [2,B,H,S,D]", func(n *node) []*value {
		// input, weight, bias, scales of both, mask, zero points of both, past
		acc := n.matmul(n.centred(n.x(0), n.maybe(6), 1), n.centred(n.x(1), n.maybe(7), 1))
		scale := op.Mul(cast(n.x(3), dtype.F64), cast(n.x(4), dtype.F64))
		q, k, v := n.projected(cast(op.Mul(acc, scale), n.typeOf(2).DType), 2)
		return n.packedAttention(q, k, v, 5, 8, -1)
	})
	_ = contrib("MultiHeadAttention", "beams and a shared buffer of the past are refused", multiHead)
	_ = contrib("GroupQueryAttention", "a quantized cache is refused", groupQuery)
	_ = contrib("RotaryEmbedding", "", contribRotary)
)

// projected divides rows [B,S,q+k+v], plus the bias of input i, into heads [B,H,S,D].
func (n *node) projected(x *ir.Node, bias int) (q, k, v *ir.Node) {
	x = n.biased(x, bias)
	heads := n.int("num_heads", 0)
	if x.Type.Rank() != 3 || !x.Type.Shape[2].IsStatic() || heads < 1 {
		n.fail("operand is %v of %d heads; want [B,S,width] with a width that is known", x.Type, heads)
	}
	all := x.Type.Shape[2]
	sizes, ok := n.list("qkv_hidden_sizes")
	if !ok {
		each := int(all.Const / 3)
		sizes = []int{each, each, each}
	}
	if len(sizes) != 3 || int64(sizes[0]+sizes[1]+sizes[2]) != all.Const {
		n.fail("qkv_hidden_sizes is %v; want three numbers whose sum is %v", sizes, all)
	}
	parts := op.SplitSizes(x, 2, sizes...)
	return n.heads(parts[0], heads), n.heads(parts[1], heads), n.heads(parts[2], heads)
}

// packedAttention is attention whose past and present have keys and values in one tensor.
func (n *node) packedAttention(q, k, v *ir.Node, mask, past, bias int) []*value {
	for _, name := range []string{"do_rotary", "past_present_share_buffer"} {
		if n.int(name, 0) != 0 {
			n.fail("%s is not supported", name)
		}
	}
	before := ir.Static(0)
	if n.has(past) {
		p := n.x(past)
		half := func(i int) *ir.Node { return op.Reshape(op.Narrow(p, 0, i, 1), p.Type.Shape[1:]) }
		before = p.Type.Shape[3]
		k, v = op.Concat(2, half(0), k), op.Concat(2, half(1), v)
	}
	var allowed *ir.Node
	if n.int("unidirectional", 0) != 0 {
		allowed = n.causal(q, k, n.sizeNode(before, dtype.I64))
	}
	if n.has(mask) {
		allowed = both(allowed, n.keyMask(n.x(mask), q, k))
	}
	y := n.attend(q, k, v, allowed, n.optional(bias))
	if !k.Type.Equal(v.Type) { // no present, which has both in one tensor
		return many(y)
	}
	return many(y, op.Stack(0, k, v))
}

func (n *node) optional(i int) *ir.Node {
	if i < 0 {
		return nil
	}
	return n.maybe(i)
}

// both returns the conjunction of two masks. Either may be nil.
func both(a, b *ir.Node) *ir.Node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return op.And(a, b)
}

// causal returns which keys are not after each query, whose first one has the position offset: bool [1,1,Sq,Sk], or
// [B,1,Sq,Sk] for an offset [B,1,1,1].
func (n *node) causal(q, k, offset *ir.Node) *ir.Node {
	shape := ir.Shape{ir.Static(1), ir.Static(1), q.Type.Shape[2], k.Type.Shape[2]}
	return op.Le(n.along(shape, 3), op.Add(n.along(shape, 2), offset))
}

// keyMask returns a mask of keys, bool and of rank 4: from the lengths of sequences [B], from 0 and 1 for each key
// [B,Sk], or for each query and key [B,Sq,Sk] or [B,1,Sq,Sk].
func (n *node) keyMask(m, q, k *ir.Node) *ir.Node {
	s := m.Type.Shape
	one := ir.Static(1)
	switch {
	case len(s) == 1 && s[0] == q.Type.Shape[0]:
		shape := ir.Shape{one, one, one, k.Type.Shape[2]}
		return op.Lt(n.along(shape, 3), n.at(cast(m, dtype.I64), 0, 4))
	case len(s) == 2 && s[0] == q.Type.Shape[0]:
		m = op.Reshape(m, ir.Shape{s[0], one, one, s[1]})
	case len(s) == 3:
		m = op.Reshape(m, ir.Shape{s[0], one, s[1], s[2]})
	case len(s) == 4:
	default:
		n.fail("the mask is %v; allowed are [B], [B,Sk], [B,Sq,Sk] and [B,1,Sq,Sk]", m.Type)
	}
	return op.Ne(m, number(0, m))
}

// attend returns attention as rows [B,S,H*D]. allowed and bias may be nil.
func (n *node) attend(q, k, v, allowed, bias *ir.Node) *ir.Node {
	a := op.AttentionAttrs{Heads: int(q.Type.Shape[1].Const), KVHeads: int(k.Type.Shape[1].Const), Layout: op.BHSD,
		Scale: n.float("scale", 0), Softcap: n.float("softcap", 0)}
	var o op.AttentionOperands
	switch {
	case bias != nil:
		if r := bias.Type.Rank(); r < 4 {
			shape := ir.ShapeOf(1, 1, 1, 1)[:4-r]
			bias = op.Reshape(bias, append(shape, bias.Type.Shape...))
		}
		a.Mask, o.Mask = op.MaskBias, bias
		if allowed != nil {
			o.Mask = op.Where(allowed, bias, number(math.Inf(-1), bias))
		}
	case allowed != nil:
		a.Mask, o.Mask = op.MaskCustom, allowed
	}
	y := op.Attention(q, k, v, o, a)
	s := y.Type.Shape
	return op.Reshape(op.Transpose(y, 0, 2, 1, 3), ir.Shape{s[0], s[2], n.product(ir.Shape{s[1], s[3]})})
}

// multiHead is MultiHeadAttention: rows of queries, keys and values, or all in one tensor, or keys and values in one.
func multiHead(n *node) []*value {
	heads := n.int("num_heads", 0)
	for i := 8; i < 10; i++ {
		if n.has(i) {
			n.fail("input %d is not supported", i)
		}
	}
	x := n.x(0)
	var q, k, v *ir.Node
	switch {
	case x.Type.Rank() == 5: // [B,S,H,3,D]
		part := func(x *ir.Node, i int) *ir.Node {
			p := op.Narrow(x, 3, i, 1)
			s := p.Type.Shape
			return op.Transpose(op.Reshape(p, ir.Shape{s[0], s[1], s[2], s[4]}), 0, 2, 1, 3)
		}
		q, k, v = part(x, 0), part(x, 1), part(x, 2)
	case n.has(1) && n.typeOf(1).Rank() == 5: // [B,S,H,2,D]
		kv := n.x(1)
		part := func(i int) *ir.Node {
			p := op.Narrow(kv, 3, i, 1)
			s := p.Type.Shape
			return op.Transpose(op.Reshape(p, ir.Shape{s[0], s[1], s[2], s[4]}), 0, 2, 1, 3)
		}
		q, k, v = n.heads(n.biasPart(x, 0), heads), part(0), part(1)
	default:
		q = n.heads(n.biasPart(x, 0), heads)
		k, v = n.x(1), n.x(2)
		if k.Type.Rank() == 3 {
			k, v = n.biasPart(k, 1), n.biasPart(v, 2)
		}
		k, v = n.heads(k, heads), n.heads(v, heads)
	}
	before := ir.Static(0)
	if n.has(6) && n.has(7) {
		before = n.typeOf(6).Shape[2]
		k, v = op.Concat(2, n.x(6), k), op.Concat(2, n.x(7), v)
	}
	var allowed *ir.Node
	if n.int("unidirectional", 0) != 0 {
		allowed = n.causal(q, k, n.sizeNode(before, dtype.I64))
	}
	if n.has(4) {
		allowed = both(allowed, n.keyMask(n.x(4), q, k))
	}
	return many(n.attend(q, k, v, allowed, n.maybe(5)), k, v)
}

// biasPart returns rows plus their part of the bias of input 3, which has those of queries, keys and values.
func (n *node) biasPart(x *ir.Node, i int) *ir.Node {
	if !n.has(3) {
		return x
	}
	q, k := n.typeOf(0).Shape[2], n.typeOf(0).Shape[2]
	start := 0
	if i > 0 {
		start += int(q.Const)
	}
	if i > 1 {
		if n.typeOf(1).Rank() == 3 {
			k = n.typeOf(1).Shape[2]
		}
		start += int(k.Const)
	}
	return op.Add(x, op.Narrow(n.x(3), 0, start, int(x.Type.Shape[2].Const)))
}

// groupQuery converts GroupQueryAttention. seqlens_k says how much of the past is used; the rest is masked. The present
// has the past and the new rows. If its declared type says so, it is the past's buffer with the new rows in it.
func groupQuery(n *node) []*value {
	n.checkGroupQuery()
	h, hkv := n.int("num_heads", 0), n.int("kv_num_heads", 0)
	x := n.x(0)
	var q, k, v *ir.Node
	if n.has(1) {
		q, k, v = n.heads(x, h), n.heads(n.x(1), hkv), n.heads(n.x(2), hkv)
	} else {
		each, ok := x.Type.Shape[2].FloorDiv(int64(h + 2*hkv))
		if !ok || !each.IsStatic() || h < 1 || hkv < 1 {
			n.fail("query is %v with %d and %d heads", x.Type, h, hkv)
		}
		d := int(each.Const)
		parts := op.SplitSizes(x, 2, h*d, hkv*d, hkv*d)
		q, k, v = n.heads(parts[0], h), n.heads(parts[1], hkv), n.heads(parts[2], hkv)
	}
	s := q.Type.Shape
	length := n.sizeNode(s[2], dtype.I64)
	one := op.Const(n.b.g, 1, ir.TypeOf(dtype.I64))
	used := op.Sub(op.Add(cast(n.flat(n.x(5)), dtype.I64), one), length) // of the past, [B]
	used = op.Max(used, op.Sub(one, one))
	step := n.along(ir.Shape{ir.Static(1), s[2]}, 1)
	positions := op.Add(n.at(used, 0, 2), step) // [B,S]
	if n.int("do_rotary", 0) != 0 {
		at := positions
		if n.has(9) {
			at = n.x(9)
		}
		turn := func(x *ir.Node) *ir.Node {
			return n.rotary(x, n.x(7), n.x(8), at, 0, n.rotated(n.x(7)), n.int("rotary_interleaved", 0) != 0)
		}
		q, k = turn(q), turn(k)
	}
	past := ir.Static(0)
	keyAt := op.Reshape(positions, ir.Shape{s[0], ir.Static(1), ir.Static(1), s[2]})
	valid := op.Const(n.b.g, 1, ir.Type{DType: dtype.Bool, Shape: keyAt.Type.Shape})
	shared := false
	if n.has(3) && n.has(4) {
		past = n.typeOf(3).Shape[2]
		present, ok := n.declaredShape(1)
		shared = ok && len(present) == 4 && present[2] == past && past.IsStatic() && past.Const > 0
	}
	switch {
	case shared:
		k, v = n.written(n.x(3), k, positions), n.written(n.x(4), v, positions)
		keyAt = n.along(ir.Shape{ir.Static(1), ir.Static(1), ir.Static(1), past}, 3)
		valid = nil
	case n.has(3) && n.has(4):
		old := n.along(ir.Shape{ir.Static(1), ir.Static(1), ir.Static(1), past}, 3)
		wide := ir.Shape{s[0], ir.Static(1), ir.Static(1), past}
		valid = op.Concat(3, op.Expand(op.Lt(old, n.at(used, 0, 4)), wide), valid)
		keyAt = op.Concat(3, op.Expand(old, wide), keyAt)
		k, v = op.Concat(2, n.x(3), k), op.Concat(2, n.x(4), v)
	}
	queryAt := op.Reshape(positions, ir.Shape{s[0], ir.Static(1), s[2], ir.Static(1)})
	allowed := valid
	if n.int("causal", 1) != 0 || shared {
		allowed = both(op.Le(keyAt, queryAt), valid)
	}
	if w := n.int("local_window_size", -1); w > 0 {
		allowed = op.And(allowed, op.Gt(keyAt, op.Sub(queryAt, number(float64(w), queryAt))))
	}
	if n.has(11) || n.int("smooth_softmax", 0) != 0 {
		return many(n.attendWithSink(q, k, v, allowed), k, v)
	}
	return many(n.attend(q, k, v, allowed, n.maybe(10)), k, v)
}

// checkGroupQuery refuses what groupQuery does not compute.
func (n *node) checkGroupQuery() {
	if n.str("k_quant_type", "NONE") != "NONE" || n.str("v_quant_type", "NONE") != "NONE" {
		n.fail("a quantized cache is not supported")
	}
	if n.int("sliding_window_cache", 0) != 0 {
		n.fail("sliding_window_cache is not supported")
	}
	for i := 12; i < len(n.in); i++ {
		if n.has(i) {
			n.fail("input %d (%s) is not supported", i, n.in[i].name)
		}
	}
}

// attendWithSink is attend with one more key, which has a score for each head (head_sink) or 0, and no value.
func (n *node) attendWithSink(q, k, v, allowed *ir.Node) *ir.Node {
	s := k.Type.Shape
	single := ir.Shape{s[0], s[1], ir.Static(1), s[3]}
	none := op.Const(n.b.g, 0, ir.Type{DType: k.Type.DType, Shape: single})
	scores := ir.Shape{s[0], ir.Static(1), q.Type.Shape[2], s[2]}
	sink := ir.Shape{s[0], ir.Static(1), q.Type.Shape[2], ir.Static(1)}
	if allowed != nil {
		yes := op.Const(n.b.g, 1, ir.Type{DType: dtype.Bool, Shape: sink})
		allowed = op.Concat(3, op.Expand(allowed, scores), yes)
	}
	bias := n.maybe(10)
	if bias != nil || n.has(11) {
		d, heads := q.Type.DType, q.Type.Shape[1]
		scores = ir.Shape{s[0], heads, q.Type.Shape[2], s[2]}
		sink = ir.Shape{s[0], heads, q.Type.Shape[2], ir.Static(1)}
		if bias == nil {
			bias = op.Const(n.b.g, 0, ir.Type{DType: d, Shape: scores})
		} else {
			bias = op.Expand(bias, scores)
		}
		score := op.Const(n.b.g, 0, ir.Type{DType: d, Shape: sink})
		if n.has(11) {
			score = op.Expand(cast(n.at(n.x(11), 1, 4), d), sink)
		}
		bias = op.Concat(3, bias, score)
	}
	return n.attend(q, op.Concat(2, k, none), op.Concat(2, v, none), allowed, bias)
}

// rotated returns the width that tables of angles turn.
func (n *node) rotated(cos *ir.Node) int {
	w := cos.Type.Shape[cos.Type.Rank()-1]
	if !w.IsStatic() {
		n.fail("the tables are %v; want a width that is known", cos.Type)
	}
	return 2 * int(w.Const)
}

// written returns a cache [B,H,P,D] with rows [B,H,S,D] at positions [B,S].
func (n *node) written(cache, rows, positions *ir.Node) *ir.Node {
	s := rows.Type.Shape
	at := op.Reshape(positions, ir.Shape{s[0], ir.Static(1), s[2], ir.Static(1)})
	at = op.Expand(at, s)
	idx := n.positions(cache.Type.Shape, at, 2)
	return op.Reshape(op.Scatter(n.flat(cache), idx, n.flat(rows), "none"), cache.Type.Shape)
}

// contribRotary is RotaryEmbedding of com.microsoft: positions are [B,S], or the first one for all.
func contribRotary(n *node) []*value {
	x, positions := n.x(0), n.x(1)
	s := x.Type.Shape
	heads := n.int("num_heads", 0)
	rot := n.int("rotary_embedding_dim", 0)
	if rot == 0 {
		if rot = n.rotated(n.x(2)); rot < 1 {
			n.fail("the tables are %v; want a width of 1 or more", n.typeOf(2))
		}
		if len(s) == 3 && heads == 0 && s[2].IsStatic() {
			heads = int(s[2].Const) / rot
		}
	}
	if n.int("is_packed_batching", 0) != 0 {
		n.fail("is_packed_batching is not supported")
	}
	if positions.Type.Rank() == 1 {
		length := s[min(2, len(s)-2)]
		if len(s) == 3 {
			length = s[1]
		}
		first := op.Reshape(cast(positions, dtype.I64), ir.ShapeOf(1, 1))
		positions = op.Expand(op.Add(first, n.along(ir.Shape{ir.Static(1), length}, 1)), ir.Shape{s[0], length})
	}
	return one(n.rotary(x, n.x(2), n.x(3), positions, heads, rot, n.int("interleaved", 0) != 0))
}
