package hir

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// CausalDepthwiseConvAttrs are the attributes of causal_depthwise_conv.
type CausalDepthwiseConvAttrs struct {
	Silu bool `attr:"silu"`
}

// CausalDepthwiseConvDef is the short convolution in front of linear attention.
var CausalDepthwiseConvDef = ir.DefineTuple(ir.TupleDef[CausalDepthwiseConvAttrs]{
	Name: "causal_depthwise_conv", Operands: "x, w, pad?", Block: true,
	Doc: "Each channel of x [B,S,C] convolved along the tokens with its own K taps, w [C,1,K] or [C,1,1,K], of which the last meets the token itself; then silu, if that is set. What " +
		"precedes the first token is pad [B,K-1,C], if it is given, or zeros.",
	Results: "y [B,S,C], the pad of the tokens that follow [B,K-1,C]",
	Infer: func(s ir.Sig[CausalDepthwiseConvAttrs]) ([]ir.Type, error) {
		x, w := s.In[0], s.In[1]
		if len(x.Shape) != 3 || !x.DType.IsFloat() {
			return nil, fmt.Errorf("x is %v; want floats of [B,S,C]", x)
		}
		n := len(w.Shape)
		if !w.DType.IsFloat() || n != 3 && n != 4 || w.Shape[0] != x.Shape[2] || !w.Shape[1].Is(1) ||
			!w.Shape[n-2].Is(1) || !w.Shape[n-1].IsStatic() || w.Shape[n-1].Const < 1 {
			return nil, fmt.Errorf("w is %v; want floats of [%v,1,K] or [%v,1,1,K]", w, x.Shape[2], x.Shape[2])
		}
		pad := ir.Type{DType: x.DType, Shape: ir.Shape{x.Shape[0], ir.Static(w.Shape[n-1].Const - 1), x.Shape[2]}}
		return []ir.Type{x, pad}, expect("causal_depthwise_conv", s.In, 2, pad.Shape)
	},
})

var _ = ir.LowerTuple(CausalDepthwiseConvDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	w := in[1].Type.Shape
	taps := op.Reshape(f32(in[1]), ir.Shape{w[0], w[len(w)-1]})
	y, next := op.CausalConv1D(in[0], taps, nil, in[2], n.Attrs.(CausalDepthwiseConvAttrs).Silu)
	return []*ir.Node{y, next}
})

// CausalDepthwiseConv adds the convolution. pad may be nil.
func CausalDepthwiseConv(x, w, pad *ir.Node, silu bool) (y, next *ir.Node) {
	r := x.Graph.AddResults(2, CausalDepthwiseConvDef, CausalDepthwiseConvAttrs{silu}, x, w, pad)
	return r[0], r[1]
}

// GatedDeltaAttrs are the attributes of gated_delta_rule.
type GatedDeltaAttrs struct {
	Eps float64 `attr:"eps"` // added to the squared length of q and k
}

// GatedDeltaRuleDef is the token mixing of Qwen3-Next and Qwen3.5.
var GatedDeltaRuleDef = ir.DefineTuple(ir.TupleDef[GatedDeltaAttrs]{
	Name: "gated_delta_rule", Operands: "q, k, v, a, b, rate, bias, state?", Block: true,
	Doc: "gated_delta_net of the results of projections and the convolution: q and k [B,T,G,N] are divided by " +
		"sqrt(sum of their squares + eps); of a and b [B,T,H], with rate [H], the logarithm of the rate, and " +
		"bias [H], the decay's logarithm is g = -exp(rate)*softplus(a + bias) and the step beta = sigmoid(b). " +
		"v is [B,T,H,M] and state, if it is carried on, [B,H,N,M].",
	Results: "o [B,T,H,M], the final state [B,H,N,M]",
	Infer: func(s ir.Sig[GatedDeltaAttrs]) ([]ir.Type, error) {
		q, v := s.In[0], s.In[2]
		if len(q.Shape) != 4 || len(v.Shape) != 4 {
			return nil, fmt.Errorf("q is %v and v %v; want floats of [B,T,G,N] and [B,T,H,M]", q, v)
		}
		if !q.Shape[3].IsStatic() || q.Shape[3].Const < 1 {
			return nil, fmt.Errorf("q is %v; want heads of a size that is known", q)
		}
		b, t, h := q.Shape[0], q.Shape[1], v.Shape[2]
		state := ir.Type{DType: dtype.F32, Shape: ir.Shape{b, h, q.Shape[3], v.Shape[3]}}
		gate := ir.Shape{b, t, h}
		return []ir.Type{v, state}, expect("gated_delta_rule", s.In, 0, q.Shape, q.Shape, ir.Shape{b, t, h, v.Shape[3]},
			gate, gate, ir.Shape{h}, ir.Shape{h}, state.Shape)
	},
})

var _ = ir.LowerTuple(GatedDeltaRuleDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	// The root mean square of N elements is their length divided by the square root of N.
	size := in[0].Type.Shape[3].Const
	gain := op.Const(g, 1/math.Sqrt(float64(size)), ir.TypeOf(dtype.F32, size))
	zero := op.Const(g, 0, ir.TypeOf(dtype.F32, size))
	eps := n.Attrs.(GatedDeltaAttrs).Eps / float64(size)
	q, k := op.RmsNorm(in[0], gain, zero, eps), op.RmsNorm(in[1], gain, zero, eps)
	rate := op.Neg(op.Exp(f32(in[5])))
	decay := op.Mul(op.Softplus(op.Add(in[3], f32(in[6])), 1, 20), rate)
	o, after := op.GatedDeltaNet(q, k, in[2], decay, op.Sigmoid(in[4]), in[7])
	return []*ir.Node{o, after}
})

// GatedDeltaRule adds the gated delta rule with its gates. state may be nil.
func GatedDeltaRule(q, k, v, a, b, rate, bias, state *ir.Node, eps float64) (o, final *ir.Node) {
	r := q.Graph.AddResults(2, GatedDeltaRuleDef, GatedDeltaAttrs{eps}, q, k, v, a, b, rate, bias, state)
	return r[0], r[1]
}
