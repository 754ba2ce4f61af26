package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// MultiheadAttentionAttrs are the attributes of multihead_attention.
type MultiheadAttentionAttrs struct {
	Heads int `attr:"heads"`
}

// MultiheadAttentionDef is attention between two sequences with its four projections. The inner width may be smaller
// than the outer one; in SAM's decoder it is half.
var MultiheadAttentionDef = ir.Define(ir.Def[MultiheadAttentionAttrs]{
	Name: "multihead_attention", Operands: "query, key, value, wq, bq, wk, bk, wv, bv, wo, bo", Block: true,
	Doc: "softmax(q·kᵀ/√D)·v per head between projected sequences. query is [B,Sq,E], key and value [B,Sk,E]; " +
		"weight and bias of the projections of q, k, v are [I,E] and [I], those of the output [E,I] and [E]. " +
		"D = I/heads. Output [B,Sq,E].",
	Infer: func(s ir.Sig[MultiheadAttentionAttrs]) (ir.Type, error) {
		q, k, v := s.In[0], s.In[1], s.In[2]
		const want = "query %v, key %v, value %v; want [B,Sq,E], [B,Sk,E], [B,Sk,E]"
		if len(q.Shape) != 3 || len(k.Shape) != 3 || len(v.Shape) != 3 {
			return ir.Type{}, fmt.Errorf(want, q, k, v)
		}
		for _, pair := range [][2]ir.Dim{{k.Shape[0], q.Shape[0]}, {v.Shape[0], k.Shape[0]}, {v.Shape[1], k.Shape[1]},
			{v.Shape[2], k.Shape[2]}} {
			if pair[0] != pair[1] {
				return ir.Type{}, ir.Differ(pair[0], pair[1], want, q, k, v)
			}
		}
		var inner ir.Dim
		for i, x := range s.In[:3] {
			out, err := matrix([]string{"wq", "wk", "wv"}[i], s.In[3+2*i], x.Shape[2])
			if err == nil {
				err = vector([]string{"bq", "bk", "bv"}[i], s.In[4+2*i], out)
			}
			if err == nil && i > 0 && out != inner {
				err = fmt.Errorf("projections to %v and %v; want equal widths", inner, out)
			}
			if err != nil {
				return ir.Type{}, err
			}
			inner = out
		}
		if h := int64(s.Attrs.Heads); h < 1 || inner.Const%h != 0 {
			return ir.Type{}, fmt.Errorf("%d heads do not divide the inner width %v", h, inner)
		}
		out, err := matrix("wo", s.In[9], inner)
		if err == nil {
			err = vector("bo", s.In[10], out)
		}
		if err != nil {
			return ir.Type{}, err
		}
		return ir.Type{DType: q.DType, Shape: last(q.Shape, out)}, nil
	},
})

var _ = ir.Lower(MultiheadAttentionDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	q := part(n, "q", Linear(in[0], in[3], in[4], ""))
	k := part(n, "k", Linear(in[1], in[5], in[6], ""))
	v := part(n, "v", Linear(in[2], in[7], in[8], ""))
	o := op.Attention(q, k, v, op.AttentionOperands{},
		op.AttentionAttrs{Heads: n.Attrs.(MultiheadAttentionAttrs).Heads, Layout: "bse"})
	part(n, "heads", o)
	return Linear(o, in[9], in[10], "")
})

// Projection is the weight [out, in] and bias [out] of a linear layer.
type Projection struct{ Weight, Bias *ir.Node }

// MultiheadAttention adds attention of q over k and v with its projections.
func MultiheadAttention(q, k, v *ir.Node, heads int, pq, pk, pv, po Projection) *ir.Node {
	return q.Graph.Add(MultiheadAttentionDef, MultiheadAttentionAttrs{heads}, q, k, v,
		pq.Weight, pq.Bias, pk.Weight, pk.Bias, pv.Weight, pv.Bias, po.Weight, po.Bias)
}
