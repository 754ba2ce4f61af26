package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// LinearFusedDef is linear as a single fused op.
var LinearFusedDef = ir.Define(ir.Def[LinearAttrs]{
	Name: "linear_fused", Operands: "x, w, bias?", Block: true,
	Doc:   "act(x·wᵀ + bias) over the last axis, as linear, expressed by one fused_matmul whatever follows it. x [..., in], w [out, in], bias [out].",
	Infer: inferLinear,
})

var _ = ir.Lower(LinearFusedDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	if in[1].Type.DType.IsPacked() { // packed weights have no fused product
		return Linear(in[0], in[1], in[2], n.Attrs.(LinearAttrs).Act)
	}
	a := op.FusedMatMulAttrs{Act: n.Attrs.(LinearAttrs).Act, TransB: true}
	return op.FusedMatMul(in[0], in[1], f32(in[2]), nil, a)
})

// LinearFused adds act(x·wᵀ + b) as one op. b may be nil.
func LinearFused(x, w, b *ir.Node, act string) *ir.Node {
	return x.Graph.Add(LinearFusedDef, LinearAttrs{act}, x, w, b)
}

// SharedLinearPairDef computes two linear layers of the same input with one matrix product.
var SharedLinearPairDef = ir.DefineTuple(ir.TupleDef[op.NoAttrs]{
	Name: "shared_linear_pair", Operands: "x, w0, w1, bias0?, bias1?", Block: true,
	Doc: "x·w0ᵀ + bias0 and x·w1ᵀ + bias1 over the last axis, by one product with the rows of both weights. x [..., in], w0 [out0, in], w1 [out1, in]; bias0 [out0] and bias1 [out1], " +
		"both or neither. The weights' rows are put together when the model is compiled, which stores them once more where others use them.",
	Results: "y0 [..., out0], y1 [..., out1]",
	Infer: func(s ir.Sig[op.NoAttrs]) ([]ir.Type, error) {
		if s.In[3].Present() != s.In[4].Present() {
			return nil, fmt.Errorf("has one of the operands bias0 and bias1; want both or neither")
		}
		out := make([]ir.Type, 2)
		for i := range out {
			rows, err := matrix([]string{"w0", "w1"}[i], s.In[1+i], channels(s.In[0]))
			if bias := s.In[3+i]; err == nil && bias.Present() {
				err = vector([]string{"bias0", "bias1"}[i], bias, rows)
			}
			if err != nil {
				return nil, err
			}
			out[i] = ir.Type{DType: s.In[0].DType, Shape: last(s.In[0].Shape, rows)}
		}
		if !s.In[1].Shape[0].IsStatic() || !s.In[2].Shape[0].IsStatic() {
			return nil, fmt.Errorf("weights are %v and %v; want sizes without symbols", s.In[1], s.In[2])
		}
		return out, nil
	},
})

var _ = ir.LowerTuple(SharedLinearPairDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a, b := in[1], in[2]
	if a.Type.DType != b.Type.DType { // the weights of one product have one type
		a, b = f32(a), f32(b)
	}
	var bias *ir.Node
	if in[3] != nil {
		bias = op.Concat(0, f32(in[3]), f32(in[4]))
	}
	y := Linear(in[0], op.Concat(0, a, b), bias, "")
	split := int(in[1].Type.Shape[0].Const)
	return []*ir.Node{op.Narrow(y, -1, 0, split), op.Narrow(y, -1, split, int(in[2].Type.Shape[0].Const))}
})

// SharedLinearPair adds two linear layers of the same input. Either both or neither must have a bias.
func SharedLinearPair(x *ir.Node, p0, p1 Projection) (y0, y1 *ir.Node) {
	r := x.Graph.AddResults(2, SharedLinearPairDef, op.NoAttrs{}, x, p0.Weight, p1.Weight, p0.Bias, p1.Bias)
	return r[0], r[1]
}
