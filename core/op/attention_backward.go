package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// AttentionBackwardDY is the operand dy of attention_backward. It stands between the operands of attention, so an
// optional operand of attention has its number plus AttentionBackwardShift there.
const (
	AttentionBackwardDY    = 3
	AttentionBackwardShift = 1
)

// AttentionBackwardDef defines the gradients of attention.
var AttentionBackwardDef = ir.DefineTuple(ir.TupleDef[AttentionAttrs]{
	Name: "attention_backward",
	Doc: "The gradients of attention (see there), given its operands and the gradient dy of its result. All are f32 or all f64, " +
		"the layout is any, and packed rows are refused: k and v have q's batch. Per batch and head, with the scores s and weights p of attention: " +
		"dv = p^T*dy; dp = dy*v^T; ds = p*(dp - sum of p*dp over keys), which is the gradient of an additive mask; then, with a softcap, ds is multiplied by 1 - tanh^2(s/softcap), " +
		"s before the cap, and by scale; dq = ds*k and dk = ds^T*q (Dao 2023). Sums go over the query heads that share a kv head, and for dbias over the axes on which the mask has size 1. " +
		"A key that takes no part has gradients of 0, and a query without keys gives 0 to all. dbias is there with mask = bias, and dsinks, minus the sum of a sink's " +
		"weight times the sum of p*dp, with sinks. Scores need not be stored.",
	Results:  "dq, dk, dv, dbias (with mask = bias), dsinks (with sinks)",
	Operands: "q, k, v, dy, mask?, position?, kv_len?, sinks?",
	Checked:  []ir.Checked{{Operand: AttentionKVLen + AttentionBackwardShift, Safe: 0}},
	Infer: func(s ir.Sig[AttentionAttrs]) ([]ir.Type, error) {
		in, dy := forwardOperands(s.In), s.In[AttentionBackwardDY]
		q := in[0]
		if err := singleOrDouble("q", q); err != nil {
			return nil, err
		}
		if err := sameDType([]ir.Type{q, in[1], in[2], dy}); err != nil {
			return nil, err
		}
		if len(s.Attrs.Packed) > 0 {
			return nil, fmt.Errorf("packed is %v; want none: pass q, k and v separately", s.Attrs.Packed)
		}
		out, err := AttentionDef.Infer(s.Attrs, in, ir.Type{}, s.Syms)
		if err != nil {
			return nil, err
		}
		if k := in[1]; k.Shape[0] != q.Shape[0] {
			return nil, ir.Differ(k.Shape[0], q.Shape[0], "q is %v and k %v; want equal batches", q, k)
		}
		if !dy.Equal(out) {
			return nil, ir.TypesDiffer(dy, out, "dy is %v; want %v, the type of attention's result", dy, out)
		}
		types := []ir.Type{q, in[1], in[2]}
		if s.Attrs.Mask == MaskBias {
			types = append(types, in[AttentionMask])
		}
		if sinks := in[AttentionSinks]; sinks.Present() {
			types = append(types, sinks)
		}
		return types, nil
	},
	Eval: evalAttentionBackward,
	Memory: func(s ir.Sig[AttentionAttrs], _ []ir.Type) int64 {
		shape, err := s.Attrs.Sizes(s.In[0], s.In[1], s.In[2])
		if err != nil {
			panic("BUG: op: " + err.Error()) // Infer has checked the types
		}
		_, keys := s.Syms.Bounds(shape.Sk)
		return 24 * keys
	},
	FLOPs: func(a AttentionAttrs, in, _ []ir.Type) int64 {
		s, err := a.Sizes(in[0], in[1], in[2])
		if err != nil {
			return 0
		}
		return s.B.Const * s.H * s.Sq.Const * s.Sk.Const * (6*s.D + 4*s.DV + 12)
	},
	Tol: func(_ AttentionAttrs, _, out []ir.Type) []ir.Tolerance {
		return slices.Repeat([]ir.Tolerance{forDType(out[0].DType, 1e-4, 1e-4)}, len(out))
	},
	Cases: func() (cases []ir.Case[AttentionAttrs]) {
		for _, c := range append(attentionCases(), attentionLongCases()...) {
			a, in := c.Attrs, c.In
			if len(a.Packed) > 0 || singleOrDouble("q", in[0]) != nil || in[1].DType != in[0].DType ||
				in[1].Shape[0] != in[0].Shape[0] || len(in) > AttentionSequence {
				continue
			}
			all := make([]ir.Type, 7)
			copy(all, in)
			dy, err := AttentionDef.Infer(a, all, ir.Type{}, nil)
			if err != nil {
				panic("BUG: op: " + err.Error())
			}
			c.In = slices.Insert(slices.Clone(in), AttentionBackwardDY, dy)
			if c.Fill != nil {
				c.Fill = slices.Insert(slices.Clone(c.Fill), AttentionBackwardDY, ir.Range{Lo: -2, Hi: 2})
			}
			cases = append(cases, c)
		}
		return cases
	},
})

// attentionLongCases are longer and wider than those of attention: gradients are sums over queries, too.
func attentionLongCases() []ir.Case[AttentionAttrs] {
	c := func(a AttentionAttrs, in ...ir.Type) ir.Case[AttentionAttrs] {
		return ir.Case[AttentionAttrs]{Attrs: a, In: in}
	}
	wide, long, short := f32(1, 2, 20, 130), f32(1, 1, 513, 16), f32(1, 2, 37, 20)
	return []ir.Case[AttentionAttrs]{
		c(AttentionAttrs{Heads: 2, Layout: BHSD, Mask: MaskNone}, wide, wide, wide),
		c(AttentionAttrs{Heads: 1, Layout: BHSD, Mask: MaskCausal}, long, long, long),
		c(AttentionAttrs{Heads: 1, Layout: BHSD, Mask: MaskSliding, Window: 70}, long, long, long),
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Mask: MaskCausal, Softcap: 3}, f32(2, 40, 64),
			f32(2, 40, 32), f32(2, 40, 32)),
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Mask: MaskBias, Softcap: 3}, f32(2, 5, 16), f32(2, 7, 8),
			f32(2, 7, 8), f32(1, 4, 1, 7)),
		c(AttentionAttrs{Heads: 2, Layout: BHSD, Mask: MaskBias}, f32(2, 2, 37, 20), f32(2, 2, 37, 20),
			f32(2, 2, 37, 20), f32(1, 2, 37, 37)),
		c(AttentionAttrs{Heads: 2, Layout: BHSD, Mask: MaskCustom}, short, short, short, bools(1, 37)),
		c(AttentionAttrs{Heads: 2, Layout: BHSD, Mask: MaskCausal}, f64(1, 2, 5, 3), f64(1, 2, 4, 3), f64(1, 2, 4, 3)),
		// many heads, which workers compute one by one
		c(AttentionAttrs{Heads: 8, KVHeads: 4, Layout: BSE, Mask: MaskCausal}, f32(3, 67, 24), f32(3, 67, 12),
			f32(3, 67, 12)),
		c(AttentionAttrs{Heads: 9, Layout: BHSD, Mask: MaskSliding, Window: 20}, f32(1, 9, 90, 5), f32(1, 9, 90, 5),
			f32(1, 9, 90, 5)),
		c(AttentionAttrs{Heads: 4, Layout: BHSD, Mask: MaskBias}, f32(2, 4, 18, 3), f32(2, 4, 21, 3), f32(2, 4, 21, 3),
			f32(2, 4, 18, 21)),
	}
}

// forwardOperands returns the operands of attention among those of attention_backward.
func forwardOperands[T any](in []T) []T {
	return slices.Concat(in[:AttentionBackwardDY], in[AttentionBackwardDY+1:])
}

// AttentionBackward returns the gradients of q, k, v, of an additive mask if the attention has one, and of sinks if it
// has any.
func AttentionBackward(q, k, v, dy *ir.Node, o AttentionOperands, attrs AttentionAttrs) []*ir.Node {
	results := 3
	if attrs.Mask == MaskBias {
		results++
	}
	if o.Sinks != nil {
		results++
	}
	return q.Graph.AddResults(results, AttentionBackwardDef, attrs, q, k, v, dy, o.Mask, o.Position, o.KVLen, o.Sinks)
}

func evalAttentionBackward(a AttentionAttrs, in, out []*tensor.Array) error {
	dys := in[AttentionBackwardDY]
	r := newAttentionRows(a, forwardOperands(in))
	r.tanhs = make([]float64, r.g.Sk)
	dps := make([]float64, r.g.Sk)
	return r.each(func(at attentionPlace, weights []float64) {
		dy, mean, free := dys.Floats[at.out:], 0.0, 1.0 // free: the weight of the sink
		for j, p := range weights {
			if p != 0 { // a key that is masked may hold NaN
				dps[j] = dot(dy, r.v.Floats[at.v+j*r.g.V.Seq:], r.g.DV)
				mean += p * dps[j]
				free -= p
			}
		}
		if r.sinks != nil {
			out[len(out)-1].Floats[at.head] -= free * mean
		}
		for j, p := range weights {
			if p == 0 {
				continue
			}
			ds := p * (dps[j] - mean)
			if a.Mask == MaskBias {
				out[3].Floats[at.mask+j*r.g.Mask[3]] += ds
			}
			if a.Softcap != 0 {
				ds *= 1 - r.tanhs[j]*r.tanhs[j]
			}
			k := at.k + j*r.g.K.Seq
			addScaled(out[0].Floats[at.q:], ds*r.scale, r.k.Floats[k:], r.g.D)
			addScaled(out[1].Floats[k:], ds*r.scale, r.q.Floats[at.q:], r.g.D)
			addScaled(out[2].Floats[at.v+j*r.g.V.Seq:], p, dy, r.g.DV)
		}
	})
}
