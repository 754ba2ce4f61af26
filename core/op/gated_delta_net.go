package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// GatedDeltaNetState is the index of the optional operand of gated_delta_net.
const GatedDeltaNetState = 5

// GatedDeltaNetDef defines linear attention with the gated delta rule.
var GatedDeltaNetDef = ir.DefineTuple(ir.TupleDef[NoAttrs]{
	Name: "gated_delta_net",
	Doc: "Linear attention by the gated delta rule (S. Yang, J. Kautz, A. Hatamizadeh, 2024). Of q and k [B,T,G,N], v [B,T,H,M], g and beta [B,T,H] and, if it is carried on, state [B,H,N,M]: " +
		"for each head h, with q and k of head h*G/H (G divides H), and the tokens t in order, d = beta*(v - exp(g)*(k S)); S = exp(g)*S + k^T d; o = q S / sqrt(N). " +
		"S begins as state, or 0. g is the logarithm of the decay; q and k are used as they are. The types are equal, but state and the final state are f32 where the others are f16 or bf16.",
	Results:  "o [B,T,H,M], the final state [B,H,N,M]",
	Operands: "q, k, v, g, beta, state?",
	Infer: func(s ir.Sig[NoAttrs]) ([]ir.Type, error) {
		q, v := s.In[0], s.In[2]
		if err := isFloat("q", q); err != nil {
			return nil, err
		}
		if q.Rank() != 4 || v.Rank() != 4 {
			return nil, fmt.Errorf("q and v are %v and %v; want rank 4, [B,T,G,N] and [B,T,H,M]", q, v)
		}
		b, t, n, h, m := q.Shape[0], q.Shape[1], q.Shape[3], v.Shape[2], v.Shape[3]
		if g := q.Shape[2]; !g.IsStatic() || !h.IsStatic() || g.Const < 1 || h.Const%g.Const != 0 {
			return nil,
				fmt.Errorf(
					"q is %v and v %v, with %v and %v heads; want sizes that are known, of which the first divides the second",
					q, v, g, h)
		}
		if least, _ := s.Syms.Bounds(n); least < 1 {
			return nil, fmt.Errorf("q is %v, with heads of %v; want 1 or more", q, n)
		}
		gate := ir.Type{DType: q.DType, Shape: ir.Shape{b, t, h}}
		state := ir.Type{DType: stateType(q.DType), Shape: ir.Shape{b, h, n, m}}
		want := []ir.Type{q, q, {DType: q.DType, Shape: ir.Shape{b, t, h, m}}, gate, gate, state}
		if err := operandsAre("gated_delta_net", s.In, want); err != nil {
			return nil, err
		}
		return []ir.Type{want[2], state}, nil
	},
	Eval: func(_ NoAttrs, in, out []*tensor.Array) error {
		q, k, v, g, beta, o, s := in[0], in[1], in[2], in[3], in[4], out[0], out[1]
		if state := in[GatedDeltaNetState]; state != nil {
			copyArray(s, state)
		}
		tokens, groups, n, heads, m := q.Shape[1], q.Shape[2], q.Shape[3], v.Shape[2], v.Shape[3]
		for bh := range q.Shape[0] * heads {
			b, h := bh/heads, bh%heads
			state := s.Floats[bh*n*m:][:n*m]
			for t := range tokens {
				at := (b*tokens+t)*heads + h
				key := ((b*tokens+t)*groups + h*groups/heads) * n
				decay := math.Exp(g.Floats[at])
				for j := range m {
					e := 0.0
					for i := range n {
						e += state[i*m+j] * k.Floats[key+i]
					}
					d := beta.Floats[at] * (v.Floats[at*m+j] - decay*e)
					read := 0.0
					for i := range n {
						state[i*m+j] = decay*state[i*m+j] + k.Floats[key+i]*d
						read += state[i*m+j] * q.Floats[key+i]
					}
					o.Floats[at*m+j] = read / math.Sqrt(float64(n))
				}
			}
		}
		return nil
	},
	FLOPs: func(_ NoAttrs, in, out []ir.Type) int64 { return 7 * numel(out[0]) * in[0].Shape[3].Const },
	Tol: func(_ NoAttrs, in, out []ir.Type) []ir.Tolerance {
		n := in[0].Shape[3].Const
		return []ir.Tolerance{summed(out[0].DType, n), summed(out[1].DType, n)}
	},
	Cases: func() []ir.Case[NoAttrs] {
		c := func(d dtype.DType, b, t, g, h, n, m int64, carried bool) ir.Case[NoAttrs] {
			q, gate := ir.TypeOf(d, b, t, g, n), ir.TypeOf(d, b, t, h)
			// Keys are short enough that the state does not grow.
			x := ir.Case[NoAttrs]{In: []ir.Type{q, q, ir.TypeOf(d, b, t, h, m), gate, gate},
				Fill: []ir.Range{{Lo: -1, Hi: 1}, {Lo: -0.12, Hi: 0.12}, {Lo: -2, Hi: 2}, {Lo: -1, Hi: 0},
					{Lo: 0, Hi: 1}}}
			if carried {
				x.In, x.Fill = append(x.In, ir.TypeOf(stateType(d), b, h, n, m)),
					append(x.Fill, ir.Range{Lo: -1, Hi: 1})
			}
			return x
		}
		return []ir.Case[NoAttrs]{
			c(dtype.F32, 1, 1, 1, 1, 1, 1, false), c(dtype.F32, 1, 1, 2, 2, 16, 16, true),
			c(dtype.F32, 2, 5, 1, 3, 7, 9, true), c(dtype.F32, 1, 33, 2, 4, 8, 16, false),
			c(dtype.F32, 1, 70, 1, 1, 33, 5, true), c(dtype.F32, 2, 0, 1, 1, 4, 4, true),
			c(dtype.F32, 0, 3, 1, 1, 4, 4, false), c(dtype.F32, 1, 3, 2, 2, 128, 128, true),
			c(dtype.F32, 1, 2, 1, 2, 5, 65, false), c(dtype.F16, 1, 4, 1, 2, 8, 8, true),
			c(dtype.BF16, 1, 4, 2, 2, 8, 6, false), c(dtype.F64, 1, 6, 1, 2, 3, 4, true),
		}
	},
})

// stateType returns the type of the state of a recurrence.
func stateType(d dtype.DType) dtype.DType {
	if d == dtype.F64 {
		return d
	}
	return dtype.F32
}

// operandsAre checks that the operands that a node of an op has are of the given types.
func operandsAre(op string, in, want []ir.Type) error {
	def, _ := ir.Find(op)
	for k, x := range in {
		if x.Present() && !x.Equal(want[k]) {
			return ir.TypesDiffer(x, want[k], "%s is %v; want %v", def.OperandName(k), x, want[k])
		}
	}
	return nil
}

// GatedDeltaNet adds linear attention with the gated delta rule. state may be nil.
func GatedDeltaNet(q, k, v, g, beta, state *ir.Node) (o, final *ir.Node) {
	r := q.Graph.AddResults(2, GatedDeltaNetDef, NoAttrs{}, q, k, v, g, beta, state)
	return r[0], r[1]
}
