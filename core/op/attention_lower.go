package op

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// The scores exist here; that is what the op is for.
var _ = ir.Lower(AttentionDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(AttentionAttrs)
	s, err := a.Sizes(in[0].Type, in[1].Type)
	if err != nil {
		g.Fail(err)
		return in[0]
	}
	// Heads become [B, HKV, group, S, D], so that k and v broadcast over the group.
	split := func(x *ir.Node, seq ir.Dim, group int64) *ir.Node {
		shape := ir.Shape{s.B, seq, ir.Static(s.HKV), ir.Static(group), ir.Static(s.D)}
		if a.Layout == BHSD {
			return Reshape(x, ir.Shape{s.B, ir.Static(s.HKV), ir.Static(group), seq, ir.Static(s.D)})
		}
		return Transpose(Reshape(x, shape), 0, 2, 3, 1, 4)
	}
	d := in[0].Type.DType
	scalar := func(v float64) *ir.Node { return Const(g, v, ir.TypeOf(d)) }
	q, k, v := split(in[0], s.Sq, s.H/s.HKV), split(in[1], s.Sk, 1), split(in[2], s.Sk, 1)
	score := Mul(MatMul(q, k, MatMulAttrs{TransB: true}), scalar(a.EffectiveScale(s.D)))
	if a.Softcap != 0 {
		score = Mul(Tanh(Div(score, scalar(a.Softcap))), scalar(a.Softcap))
	}
	score = a.lowerMask(g, score, in, s)
	// A row of -Inf only has weights 0: subtract 0 instead of its maximum, and divide by 1 instead of 0.
	peak := ReduceMax(score, true, -1)
	peak = Where(Eq(peak, scalar(math.Inf(-1))), scalar(0), peak)
	weight := Exp(Sub(score, peak))
	sum := ReduceSum(weight, true, -1)
	weight = Div(weight, Where(Eq(sum, scalar(0)), scalar(1), sum))
	o := MatMul(weight, v, MatMulAttrs{})
	if a.Layout != BHSD {
		o = Transpose(o, 0, 3, 1, 2, 4)
	}
	return Reshape(o, n.Type.Shape)
})

// lowerMask applies the mask to scores [B, HKV, group, Sq, Sk].
func (a AttentionAttrs) lowerMask(g *ir.Graph, score *ir.Node, in []*ir.Node, s AttentionShape) *ir.Node {
	never := Const(g, math.Inf(-1), ir.TypeOf(score.Type.DType))
	one, i32 := ir.Static(1), dtype.I32
	switch a.Mask {
	case MaskCausal, MaskSliding:
		query := Iota(g, 0, ir.Type{DType: i32, Shape: ir.Shape{s.Sq, one}})
		key := Iota(g, 1, ir.Type{DType: i32, Shape: ir.Shape{one, s.Sk}})
		offset, ok := a.symbolicOffset(s)
		var at *ir.Node // the last key that a query sees
		if a.HasPosition(len(in)) {
			const far = 1 << 30 // beyond any size; sums with positions do not wrap
			number := func(v float64) *ir.Node { return Const(g, v, ir.TypeOf(i32)) }
			at = Add(query, Min(Max(in[3], number(-far)), number(far)))
		} else if ok && offset.IsStatic() {
			at = Add(query, Const(g, float64(offset.B), ir.TypeOf(i32)))
		} else { // the sizes are known at run time only
			last := func(d ir.Dim) *ir.Node {
				return ReduceMax(Iota(g, 0, ir.Type{DType: i32, Shape: ir.Shape{d}}), false, 0)
			}
			at = Add(query, Sub(last(s.Sk), last(s.Sq)))
		}
		score = Where(Le(key, at), score, never)
		if a.Mask == MaskSliding {
			score = Where(Ge(key, Sub(at, Const(g, float64(a.Window), ir.TypeOf(i32)))), score, never)
		}
	case MaskCustom, MaskBias:
		m := in[3]
		shape := maskShape(m.Type.Shape, one)
		heads := ir.Shape{one, one} // of the mask, as kv heads and group
		if !shape[1].Is(1) {
			heads = ir.Shape{ir.Static(s.HKV), ir.Static(s.H / s.HKV)}
		}
		m = Reshape(m, ir.Shape{shape[0], heads[0], heads[1], shape[2], shape[3]})
		if a.Mask == MaskBias {
			return Add(score, m)
		}
		if m.Type.DType == dtype.Bool {
			return Where(m, score, never)
		}
		return Where(Lt(m, maskThreshold(g, m.Type.DType)), never, score)
	}
	return score
}

// maskThreshold is 0.5, or 1 for integers.
func maskThreshold(g *ir.Graph, d dtype.DType) *ir.Node {
	if d.IsFloat() {
		return Const(g, 0.5, ir.TypeOf(d))
	}
	return Const(g, 1, ir.TypeOf(d))
}

// In the layout bhsd.
var _ = ir.Plainer(AttentionDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(AttentionAttrs)
	if a.Layout == BHSD {
		return nil
	}
	s, err := a.Sizes(in[0].Type, in[1].Type)
	if err != nil {
		n.Graph.Fail(err)
		return nil
	}
	heads := func(x *ir.Node, seq ir.Dim, heads int64) *ir.Node {
		return Transpose(Reshape(x, ir.Shape{s.B, seq, ir.Static(heads), ir.Static(s.D)}), 0, 2, 1, 3)
	}
	a.Layout = BHSD
	var mask *ir.Node
	if len(in) == 4 {
		mask = in[3]
	}
	o := Attention(heads(in[0], s.Sq, s.H), heads(in[1], s.Sk, s.HKV), heads(in[2], s.Sk, s.HKV), mask, a)
	return Reshape(Transpose(o, 0, 2, 1, 3), n.Type.Shape)
})
