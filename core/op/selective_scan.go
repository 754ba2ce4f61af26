package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// SelectiveScanState is the index of the optional operand of selective_scan.
const SelectiveScanState = 5

// SelectiveScanDef defines the recurrence of Mamba.
var SelectiveScanDef = ir.DefineTuple(ir.TupleDef[NoAttrs]{
	Name: "selective_scan",
	Doc: "The selective scan of Mamba (A. Gu, T. Dao, 2023). Of x and delta [B,T,C], a [C,N], b and c [B,T,N] and, if it is carried on, state [B,C,N]: " +
		"for each channel and the tokens in order, s_j = exp(delta*a_j)*s_j + delta*b_j*x; y = sum of c_j*s_j. s begins as state, or 0. " +
		"There is no D*x, no softplus on delta and no gate. The types are equal, but state and the final state are f32 where the others are f16 or bf16.",
	Results:  "y [B,T,C], the final state [B,C,N]",
	Operands: "x, delta, a, b, c, state?",
	Infer: func(s ir.Sig[NoAttrs]) ([]ir.Type, error) {
		x, a := s.In[0], s.In[2]
		if err := isFloat("x", x); err != nil {
			return nil, err
		}
		if x.Rank() != 3 || a.Rank() != 2 {
			return nil, fmt.Errorf("x and a are %v and %v; want [B,T,C] and [C,N]", x, a)
		}
		b, t, c, n := x.Shape[0], x.Shape[1], x.Shape[2], a.Shape[1]
		row := ir.Type{DType: x.DType, Shape: ir.Shape{b, t, n}}
		state := ir.Type{DType: stateType(x.DType), Shape: ir.Shape{b, c, n}}
		want := []ir.Type{x, x, {DType: x.DType, Shape: ir.Shape{c, n}}, row, row, state}
		if err := operandsAre("selective_scan", s.In, want); err != nil {
			return nil, err
		}
		return []ir.Type{x, state}, nil
	},
	Eval: func(_ NoAttrs, in, out []*tensor.Array) error {
		x, delta, a, bm, cm, y, s := in[0], in[1], in[2], in[3], in[4], out[0], out[1]
		if state := in[SelectiveScanState]; state != nil {
			copyArray(s, state)
		}
		tokens, channels, n := x.Shape[1], x.Shape[2], a.Shape[1]
		for row := range x.Shape[0] * tokens {
			for c := range channels {
				state := s.Floats[(row/tokens*channels+c)*n:][:n]
				d, v, sum := delta.Floats[row*channels+c], x.Floats[row*channels+c], 0.0
				for j := range n {
					state[j] = math.Exp(d*a.Floats[c*n+j])*state[j] + d*bm.Floats[row*n+j]*v
					sum += cm.Floats[row*n+j] * state[j]
				}
				y.Floats[row*channels+c] = sum
			}
		}
		return nil
	},
	FLOPs: func(_ NoAttrs, in, _ []ir.Type) int64 { return 14 * numel(in[0]) * in[2].Shape[1].Const },
	Tol: func(_ NoAttrs, in, out []ir.Type) []ir.Tolerance {
		n := in[2].Shape[1].Const
		return []ir.Tolerance{summed(out[0].DType, 4*n), summed(out[1].DType, 4)}
	},
	Cases: func() []ir.Case[NoAttrs] {
		c := func(d dtype.DType, b, t, channels, n int64, carried bool) ir.Case[NoAttrs] {
			x, row := ir.TypeOf(d, b, t, channels), ir.TypeOf(d, b, t, n)
			r := ir.Case[NoAttrs]{In: []ir.Type{x, x, ir.TypeOf(d, channels, n), row, row},
				Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0, Hi: 1}, {Lo: -3, Hi: -0.1}, {Lo: -1, Hi: 1}, {Lo: -1, Hi: 1}}}
			if carried {
				r.In, r.Fill = append(r.In, ir.TypeOf(stateType(d), b, channels, n)),
					append(r.Fill, ir.Range{Lo: -1, Hi: 1})
			}
			return r
		}
		return []ir.Case[NoAttrs]{
			c(dtype.F32, 1, 1, 1, 1, false), c(dtype.F32, 2, 5, 33, 16, true), c(dtype.F32, 1, 40, 7, 3, false),
			c(dtype.F32, 1, 1, 70, 16, true), c(dtype.F32, 2, 9, 65, 17, true),
			c(dtype.F32, 2, 0, 4, 2, true), c(dtype.F32, 1, 3, 5, 0, false), c(dtype.F32, 1, 3, 0, 4, false),
			c(dtype.F16, 1, 4, 5, 4, true), c(dtype.BF16, 1, 4, 6, 4, false), c(dtype.F64, 1, 6, 3, 4, true),
		}
	},
})

// SelectiveScan adds the selective scan of Mamba. state may be nil.
func SelectiveScan(x, delta, a, b, c, state *ir.Node) (y, final *ir.Node) {
	r := x.Graph.AddResults(2, SelectiveScanDef, NoAttrs{}, x, delta, a, b, c, state)
	return r[0], r[1]
}
