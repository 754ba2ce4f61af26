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
	Silu   bool `attr:"silu"`
	HasPad bool `attr:"has_pad"`
}

// CausalDepthwiseConvDef is the short convolution in front of linear attention.
var CausalDepthwiseConvDef = ir.DefineTuple(ir.TupleDef[CausalDepthwiseConvAttrs]{
	Name: "causal_depthwise_conv", MinIn: 2, MaxIn: 3, Block: true,
	Doc: "Each channel of x [B,S,C] convolved along the tokens with its own K taps, w [C,1,K] or [C,1,1,K], of which the last meets the token itself; then silu, if that is set. What " +
		"precedes the first token is pad [B,K-1,C], if has_pad is set, or zeros.",
	Results: "y [B,S,C], the pad of the tokens that follow [B,K-1,C]",
	Infer: func(s ir.Sig[CausalDepthwiseConvAttrs]) ([]ir.Type, error) {
		x, w, want := s.In[0], s.In[1], 2
		if s.Attrs.HasPad {
			want = 3
		}
		if len(s.In) != want {
			return nil, fmt.Errorf("%d operands; has_pad is %v, which makes %d", len(s.In), s.Attrs.HasPad, want)
		}
		if len(x.Shape) != 3 || !x.DType.IsFloat() {
			return nil, fmt.Errorf("x is %v; want floats of [B,S,C]", x)
		}
		n := len(w.Shape)
		if !w.DType.IsFloat() || n != 3 && n != 4 || w.Shape[0] != x.Shape[2] || !w.Shape[1].Is(1) || !w.Shape[n-2].Is(1) || !w.Shape[n-1].IsStatic() || w.Shape[n-1].B < 1 {
			return nil, fmt.Errorf("weight is %v; want floats of [%v,1,K] or [%v,1,1,K]", w, x.Shape[2], x.Shape[2])
		}
		pad := ir.Type{DType: x.DType, Shape: ir.Shape{x.Shape[0], ir.Static(w.Shape[n-1].B - 1), x.Shape[2]}}
		if s.Attrs.HasPad {
			if err := expect(s.In, 2, operand{"pad", pad.Shape}); err != nil {
				return nil, err
			}
		}
		return []ir.Type{x, pad}, nil
	},
})

var _ = ir.LowerTuple(CausalDepthwiseConvDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	w := in[1].Type.Shape
	taps := op.Reshape(f32(in[1]), ir.Shape{w[0], w[len(w)-1]})
	y, next := op.CausalConv1D(in[0], taps, nil, third(in), n.Attrs.(CausalDepthwiseConvAttrs).Silu)
	return []*ir.Node{y, next}
})

// CausalDepthwiseConv adds the convolution. pad may be nil.
func CausalDepthwiseConv(x, w, pad *ir.Node, silu bool) (y, next *ir.Node) {
	r := x.Graph.AddResults(2, CausalDepthwiseConvDef, CausalDepthwiseConvAttrs{silu, pad != nil}, ir.WithOptional(pad, x, w)...)
	return r[0], r[1]
}

// GatedDeltaAttrs are the attributes of gated_delta_rule.
type GatedDeltaAttrs struct {
	Eps float64 `attr:"eps"` // added to the squared length of q and k
}

// GatedDeltaRuleDef is the token mixing of Qwen3-Next and Qwen3.5.
var GatedDeltaRuleDef = ir.DefineTuple(ir.TupleDef[GatedDeltaAttrs]{
	Name: "gated_delta_rule", MinIn: 7, MaxIn: 8, Block: true,
	Doc: "gated_delta_net of what projections and the convolution make: q and k [B,T,G,N] are divided by sqrt(sum of their squares + eps); of a and b [B,T,H], with A [H], the logarithm of the " +
		"rate, and bias [H], the decay's logarithm is g = -exp(A)*softplus(a + bias) and the step beta = sigmoid(b). Operands: q, k, v [B,T,H,M], a, b, A, bias and, if it is carried on, state [B,H,N,M].",
	Results: "o [B,T,H,M], the final state [B,H,N,M]",
	Infer: func(s ir.Sig[GatedDeltaAttrs]) ([]ir.Type, error) {
		q, v := s.In[0], s.In[2]
		if len(q.Shape) != 4 || len(v.Shape) != 4 {
			return nil, fmt.Errorf("q is %v and v %v; want floats of [B,T,G,N] and [B,T,H,M]", q, v)
		}
		if !q.Shape[3].IsStatic() || q.Shape[3].B < 1 {
			return nil, fmt.Errorf("q is %v; want heads of a size that is known", q)
		}
		b, t, h := q.Shape[0], q.Shape[1], v.Shape[2]
		state := ir.Type{DType: dtype.F32, Shape: ir.Shape{b, h, q.Shape[3], v.Shape[3]}}
		want := []operand{{"q", q.Shape}, {"k", q.Shape}, {"v", ir.Shape{b, t, h, v.Shape[3]}}, {"a", ir.Shape{b, t, h}}, {"b", ir.Shape{b, t, h}}, {"A", ir.Shape{h}}, {"bias", ir.Shape{h}},
			{"state", state.Shape}}
		if err := expect(s.In, 0, want[:len(s.In)]...); err != nil {
			return nil, err
		}
		return []ir.Type{v, state}, nil
	},
})

var _ = ir.LowerTuple(GatedDeltaRuleDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	// The root mean square of N elements is their length divided by the square root of N.
	size := in[0].Type.Shape[3].B
	gain := op.Const(g, 1/math.Sqrt(float64(size)), ir.TypeOf(dtype.F32, size))
	zero := op.Const(g, 0, ir.TypeOf(dtype.F32, size))
	eps := n.Attrs.(GatedDeltaAttrs).Eps / float64(size)
	q, k := op.RmsNorm(in[0], gain, zero, eps), op.RmsNorm(in[1], gain, zero, eps)
	rate := op.Neg(op.Exp(f32(in[5])))
	decay := op.Mul(op.Softplus(op.Add(in[3], f32(in[6])), 1, 20), rate)
	var state *ir.Node
	if len(in) == 8 {
		state = in[7]
	}
	o, after := op.GatedDeltaNet(q, k, in[2], decay, op.Sigmoid(in[4]), state)
	return []*ir.Node{o, after}
})

// GatedDeltaRule adds the gated delta rule with its gates. state may be nil.
func GatedDeltaRule(q, k, v, a, b, rate, bias, state *ir.Node, eps float64) (o, final *ir.Node) {
	r := q.Graph.AddResults(2, GatedDeltaRuleDef, GatedDeltaAttrs{eps}, ir.WithOptional(state, q, k, v, a, b, rate, bias)...)
	return r[0], r[1]
}
