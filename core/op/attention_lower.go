package op

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// The lowering stores the scores, which the op itself avoids.
var _ = ir.Lower(AttentionDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(AttentionAttrs)
	s, err := a.SizesOf(n.InTypes())
	if err != nil {
		g.Fail(err)
		return in[0]
	}
	in = a.firstBatches(in, s)
	if len(a.Packed) > 0 {
		in = a.unpacked(in, s)
	}
	x := a.lowerWeights(g, in, s, nil)
	o := MatMul(x.weight, x.v, MatMulAttrs{})
	if a.Layout != BHSD {
		o = Transpose(o, 0, 3, 1, 2, 4)
	}
	return Reshape(o, n.Type.Shape)
})

// attentionValues are values of the expansion of an attention. Heads are split in two axes, HKV and group, so that k
// and v broadcast over the group.
type attentionValues struct {
	q, k, v *ir.Node // [B,HKV,group,Sq,D], [B,HKV,1,Sk,D] and [B,HKV,1,Sk,DV]
	// capped has the tanh of the scores, with a softcap only; weight the softmax. Both are [B,HKV,group,Sq,Sk].
	capped, weight *ir.Node
	// The weight of the sinks is sink / sinkSum, both [B,HKV,group,Sq,1]; nil without sinks.
	sink, sinkSum *ir.Node
	stale         *ir.Node // see lowerMask
}

// splitHeads returns x, in a's layout, as [B,HKV,group,seq,dim].
func (a AttentionAttrs) splitHeads(x *ir.Node, s AttentionShape, seq ir.Dim, group, dim int64) *ir.Node {
	shape := ir.Shape{s.B, seq, ir.Static(s.HKV), ir.Static(group), ir.Static(dim)}
	if a.Layout == BHSD {
		return Reshape(x, ir.Shape{s.B, ir.Static(s.HKV), ir.Static(group), seq, ir.Static(dim)})
	}
	return Transpose(Reshape(x, shape), 0, 2, 3, 1, 4)
}

// lowerWeights adds the softmax weights of an attention whose operands are not packed. For first see lowerMask.
func (a AttentionAttrs) lowerWeights(g *ir.Graph, in []*ir.Node, s AttentionShape, first *ir.Node) (
	x attentionValues) {
	d := in[0].Type.DType
	scalar := func(v float64) *ir.Node { return Const(g, v, ir.TypeOf(d)) }
	wide := func(x *ir.Node) *ir.Node {
		if x.Type.DType == d {
			return x
		}
		return Cast(x, d)
	}
	x.q, x.k = a.splitHeads(in[0], s, s.Sq, s.H/s.HKV, s.D), a.splitHeads(wide(in[1]), s, s.Sk, 1, s.D)
	x.v = a.splitHeads(wide(in[2]), s, s.Sk, 1, s.DV)
	score := Mul(MatMul(x.q, x.k, MatMulAttrs{TransB: true}), scalar(a.EffectiveScale(s.D)))
	if a.Softcap != 0 {
		x.capped = Tanh(Div(score, scalar(a.Softcap)))
		score = Mul(x.capped, scalar(a.Softcap))
	}
	score, x.stale = a.lowerMask(g, score, in, s, first)
	if x.stale != nil { // 0 times NaN is NaN
		x.v = Where(x.stale, scalar(0), x.v)
	}
	// A row with only -Inf must get weights of 0: subtract 0 instead of its maximum, and divide by 1 instead of 0.
	peak := ReduceMax(score, true, -1)
	peak = Where(Eq(peak, scalar(math.Inf(-1))), scalar(0), peak)
	var sink *ir.Node
	if sinks := in[AttentionSinks]; sinks != nil {
		sink = Reshape(sinks, ir.ShapeOf(1, s.HKV, s.H/s.HKV, 1, 1))
		peak = Max(peak, sink)
	}
	weight := Exp(Sub(score, peak))
	sum := ReduceSum(weight, true, -1)
	if sink != nil {
		x.sink = Exp(Sub(sink, peak))
		sum = Add(sum, x.sink)
	}
	divisor := Where(Eq(sum, scalar(0)), scalar(1), sum)
	x.weight = Div(weight, divisor)
	if sink != nil {
		x.sinkSum = divisor
	}
	return x
}

// firstBatches replaces k and v by those of their batch elements that the elements of q read: the first, or those of
// the operand sequence or pages, which the result does not have.
func (a AttentionAttrs) firstBatches(in []*ir.Node, s AttentionShape) []*ir.Node {
	if len(in) > AttentionPages && in[AttentionPages] != nil {
		in = slices.Clone(in)
		in[1], in[2] = a.gatherPages(in[1], in[AttentionPages], s), a.gatherPages(in[2], in[AttentionPages], s)
		in[AttentionPages] = nil
		return in
	}
	n := s.B
	if sequence := in[AttentionSequence]; sequence != nil {
		in = slices.Clone(in)
		in[1], in[2], in[AttentionSequence] = Gather(in[1], sequence, 0), Gather(in[2], sequence, 0), nil
		return in
	}
	if in[1].Type.Shape[0] == n {
		return in
	}
	in = slices.Clone(in)
	for i, x := range in[1:3] {
		if n.IsStatic() {
			in[1+i] = Narrow(x, 0, 0, int(n.Const))
		} else {
			in[1+i] = Gather(x, Iota(x.Graph, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{n}}), 0)
		}
	}
	return in
}

// gatherPages returns k or v with the keys of each batch element of q one after the other. x has the pages.
func (a AttentionAttrs) gatherPages(x, pages *ir.Node, s AttentionShape) *ir.Node {
	y := Gather(x, pages, 0) // [B,P] ++ x[1..]
	if a.Layout == BHSD {
		y = Transpose(y, 0, 2, 1, 3, 4)
	}
	shape := slices.Clone(x.Type.Shape)
	shape[0], shape[attentionAxes[a.Layout].seq] = s.B, s.Sk
	return Reshape(y, shape)
}

// unpacked cuts q, k and v from longer rows.
func (a AttentionAttrs) unpacked(in []*ir.Node, s AttentionShape) []*ir.Node {
	in = slices.Clone(in)
	for i, heads := range []int64{s.H, s.HKV, s.HKV} {
		if n := int(heads * s.D); !in[i].Type.Shape[2].Is(int64(n)) {
			in[i] = Narrow(in[i], 2, a.Packed[i], n)
		}
	}
	return in
}

// lowerMask applies the mask to scores [B, HKV, group, Sq, Sk]. stale, [B or 1, 1, 1, Sk, 1] or nil, marks keys to
// which no query attends, so their values must not matter, even if they are NaN. first, if not nil, is the position of
// query 0.
func (a AttentionAttrs) lowerMask(g *ir.Graph, score *ir.Node, in []*ir.Node, s AttentionShape, first *ir.Node) (
	masked, stale *ir.Node) {
	never := Const(g, math.Inf(-1), ir.TypeOf(score.Type.DType))
	one, i32 := ir.Static(1), dtype.I32
	number := func(v float64) *ir.Node { return Const(g, v, ir.TypeOf(i32)) }
	keys := func(axis int) *ir.Node {
		shape := ir.Shape{one, one, one, one, one}
		shape[axis] = s.Sk
		return Iota(g, axis, ir.Type{DType: i32, Shape: shape})
	}
	key, position := keys(4), in[AttentionPosition]
	perBatch := func(x *ir.Node) *ir.Node { // one number, or one for each batch element
		if x.Type.Rank() == 0 {
			return x
		}
		return Reshape(x, ir.Shape{s.B, one, one, one, one})
	}
	largest := func(d ir.Dim) *ir.Node { // d as a node, because it may be known only at run time
		return Add(ReduceMax(Iota(g, 0, ir.Type{DType: i32, Shape: ir.Shape{d}}), false, 0), number(1))
	}
	var count *ir.Node
	if kvLen := in[AttentionKVLen]; kvLen != nil {
		table, _ := s.Sk.Add(one)
		// Gather fails if a number is out of range
		count = perBatch(Gather(Iota(g, 0, ir.Type{DType: i32, Shape: ir.Shape{table}}), kvLen, 0))
		score = Where(Lt(key, count), score, never)
		stale = Ge(keys(3), count)
	}
	switch a.Mask {
	case MaskCausal, MaskSliding:
		query := Iota(g, 3, ir.Type{DType: i32, Shape: ir.Shape{one, one, one, s.Sq, one}})
		offset, ok := a.symbolicOffset(s)
		switch {
		case first != nil:
		case position != nil:
			const far = 1 << 30 // larger than any size, yet sums with positions do not wrap
			first = perBatch(Min(Max(position, number(-far)), number(far)))
			if stale == nil && s.Sq.IsStatic() {
				stale = Ge(keys(3), Add(first, number(float64(s.Sq.Const))))
			}
		case count != nil && !a.UseQOffset:
			first = Sub(count, number(float64(s.Sq.Const)))
			if !s.Sq.IsStatic() {
				first = Sub(count, largest(s.Sq))
			}
		case ok && offset.IsStatic():
			first = number(float64(offset.Const))
		default: // the sizes are known only at run time
			first = Sub(largest(s.Sk), largest(s.Sq))
		}
		at := Add(query, first) // the last key that a query attends to
		score = Where(Le(key, at), score, never)
		if a.Mask == MaskSliding {
			score = Where(Ge(key, Sub(at, number(float64(a.Window)))), score, never)
		}
	case MaskCustom, MaskBias:
		m := in[AttentionMask]
		shape := maskShape(m.Type.Shape, one)
		heads := ir.Shape{one, one} // heads of the mask, as kv heads and group
		if !shape[1].Is(1) {
			heads = ir.Shape{ir.Static(s.HKV), ir.Static(s.H / s.HKV)}
		}
		m = Reshape(m, ir.Shape{shape[0], heads[0], heads[1], shape[2], shape[3]})
		switch {
		case a.Mask == MaskBias:
			score = Add(score, m)
		case m.Type.DType == dtype.Bool:
			score = Where(m, score, never)
		default:
			score = Where(Lt(m, maskThreshold(g, m.Type.DType)), never, score)
		}
	}
	return score, stale
}

// maskThreshold adds the smallest value of a mask that keeps a key: 0.5, or 1 for integers.
func maskThreshold(g *ir.Graph, d dtype.DType) *ir.Node {
	if d.IsFloat() {
		return Const(g, 0.5, ir.TypeOf(d))
	}
	return Const(g, 1, ir.TypeOf(d))
}

// The plainer form of packed operands has separate operands, and the plainer form of other layouts has the layout bhsd.
var _ = ir.Plainer(AttentionDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(AttentionAttrs)
	if a.Layout == BHSD {
		return nil
	}
	s, err := a.SizesOf(n.InTypes())
	if err != nil {
		n.Graph.Fail(err)
		return nil
	}
	if len(a.Packed) > 0 {
		in = a.unpacked(in, s)
		a.Packed, a.HeadDim = nil, 0
		return in[0].Graph.Add(AttentionDef, a, in...)
	}
	in = a.firstBatches(in, s)
	heads := func(x *ir.Node, seq ir.Dim, heads, dim int64) *ir.Node {
		return Transpose(Reshape(x, ir.Shape{s.B, seq, ir.Static(heads), ir.Static(dim)}), 0, 2, 1, 3)
	}
	a.Layout = BHSD
	moved := []*ir.Node{heads(in[0], s.Sq, s.H, s.D), heads(in[1], s.Sk, s.HKV, s.D), heads(in[2], s.Sk, s.HKV, s.DV)}
	o := in[0].Graph.Add(AttentionDef, a, append(moved, in[3:]...)...)
	return Reshape(Transpose(o, 0, 2, 1, 3), n.Type.Shape)
})
