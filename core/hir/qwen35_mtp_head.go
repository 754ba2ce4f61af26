package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Qwen35MTPHeadAttrs are the attributes of qwen35_mtp_head.
type Qwen35MTPHeadAttrs struct {
	Heads   int     `attr:"heads"`
	KVHeads int     `attr:"kv_heads"`
	Rotated int     `attr:"n_rot"` // number of elements of a head that are rotated
	Eps     float64 `attr:"eps"`
}

// Operands of qwen35_mtp_head.
const (
	mtpHidden     = 0
	mtpIDs        = 1
	mtpCos        = 2
	mtpSin        = 3
	mtpLast       = 4
	mtpEmbed      = 5
	mtpHiddenNorm = 6 // gain and bias, as for all norms
	mtpEmbedNorm  = 8
	mtpFC         = 10
	mtpAttnNorm   = 11
	mtpQGate      = 13
	mtpK          = 14
	mtpV          = 15
	mtpQNorm      = 16
	mtpKNorm      = 18
	mtpO          = 20
	mtpPostNorm   = 21
	mtpGate       = 23
	mtpUp         = 24
	mtpDown       = 25
	mtpHeadNorm   = 26
	mtpLMHead     = 28
)

// Qwen35MTPHeadDef is the head of Qwen3.5 that predicts one more token.
var Qwen35MTPHeadDef = ir.Define(ir.Def[Qwen35MTPHeadAttrs]{
	Name:     "qwen35_mtp_head",
	Operands: "hidden, ids, cos, sin, last, embed, hidden_gamma, hidden_beta, embed_gamma, embed_beta, fc, attn_gamma, attn_beta, q_gate, k, v, q_gamma, q_beta, k_gamma, k_beta, o, post_gamma, post_beta, gate, up, down, head_gamma, head_beta, lm_head",
	Block:    true,
	Doc: "The logits [B,1,V] of one token more than a model predicts (multi-token prediction): e = norm of the embeddings of ids, h = norm of hidden, x = [e,h]·fcᵀ; a layer of causal attention with norms of " +
		"each head, rotary embedding of the first n_rot elements and a gate, and of swiglu, each added to x; then row last[b] of each batch element, a norm and lm_head. Sizes: hidden [B,S,E], ids [B,S], " +
		"cos, sin [S_max,n_rot/2], a row for each token, last [B], embed [V,E], fc [E,2E], q_gate [heads*2*D,E], of which each head has D rows of q and then D of the gate, " +
		"k, v [kv_heads*D,E], o [E,heads*D], gate, up [F,E], down [E,F], lm_head [V,E]; gamma and beta of q and k are [D], those of other norms [E]. Gains multiply as they are.",
	Infer: func(s ir.Sig[Qwen35MTPHeadAttrs]) (ir.Type, error) {
		a, in := s.Attrs, s.In
		x, none := in[mtpHidden], ir.Type{}
		if len(x.Shape) != 3 || x.DType != dtype.F32 {
			return none, fmt.Errorf("hidden is %v; want f32[B,S,E]", x)
		}
		b, t, e := x.Shape[0], x.Shape[1], x.Shape[2]
		for _, w := range []struct {
			name  string
			at    int
			shape ir.Shape
		}{{"ids", mtpIDs, ir.Shape{b, t}}, {"last", mtpLast, ir.Shape{b}}} {
			if i := in[w.at]; !i.DType.IsInt() || !i.Shape.Equal(w.shape) {
				return none, ir.TypesDiffer(i, ir.Type{DType: i.DType, Shape: w.shape}, "%s is %v; want integers of %v",
					w.name, i, w.shape)
			}
		}
		d, err := headDim("q_gate", in[mtpQGate], a.Heads, a.KVHeads)
		if err != nil {
			return none, err
		}
		d /= 2
		if a.Rotated < 2 || a.Rotated%2 != 0 || int64(a.Rotated) > d {
			return none, fmt.Errorf("n_rot is %d; want an even number up to %d", a.Rotated, d)
		}
		if err := tables("qwen35_mtp_head", in, mtpCos, ir.Static(int64(a.Rotated/2))); err != nil {
			return none, err
		}
		vocab, err := matrix("embed", in[mtpEmbed], e)
		if err != nil {
			return none, err
		}
		hidden, err := matrix("gate", in[mtpGate], e)
		if err != nil {
			return none, err
		}
		two, ok := e.Mul(ir.Static(2))
		if !ok || !e.IsStatic() {
			return none, fmt.Errorf("hidden is %v; want a width without symbols", x)
		}
		width, head := ir.Shape{e}, ir.Shape{ir.Static(d)}
		q, kv := ir.Static(int64(a.Heads)*d), ir.Static(int64(a.KVHeads)*d)
		return ir.Type{DType: dtype.F32, Shape: ir.Shape{b, ir.Static(1), vocab}},
			expect("qwen35_mtp_head", in, mtpHiddenNorm,
				width, width, width, width, ir.Shape{e, two},
				width, width, ir.Shape{ir.Static(2 * q.Const), e}, ir.Shape{kv, e}, ir.Shape{kv, e},
				head, head, head, head, ir.Shape{e, q}, width, width,
				ir.Shape{hidden, e}, ir.Shape{hidden, e}, ir.Shape{e, hidden}, width, width, ir.Shape{vocab, e})
	},
})

var _ = ir.Lower(Qwen35MTPHeadDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(Qwen35MTPHeadAttrs)
	norm := func(x *ir.Node, gain int) *ir.Node { return op.RmsNorm(x, f32(in[gain]), f32(in[gain+1]), a.Eps) }
	hidden := in[mtpHidden]
	b, t := hidden.Type.Shape[0], hidden.Type.Shape[1]
	dim := int(in[mtpQNorm].Type.Shape[0].Const)
	split := func(x *ir.Node, heads, d int) *ir.Node {
		return op.Reshape(x, ir.Shape{b, t, ir.Static(int64(heads)), ir.Static(int64(d))})
	}
	flat := func(x *ir.Node, heads int) *ir.Node {
		return op.Reshape(x, ir.Shape{b, t, ir.Static(int64(heads * dim))})
	}
	turn := func(x *ir.Node, heads, gain int) *ir.Node { // normalises and rotates heads [B,S,heads,D]
		return op.Rope(flat(norm(x, gain), heads), op.RopeOperands{Cos: f32(in[mtpCos]), Sin: f32(in[mtpSin])},
			op.RopeAttrs{HeadDim: dim, Rot: a.Rotated, Layout: op.BSE})
	}
	e := op.Gather(in[mtpEmbed], in[mtpIDs], 0)
	if e.Type.DType != dtype.F32 {
		e = op.Cast(e, dtype.F32)
	}
	x := part(n, "fc", Linear(op.Concat(2, norm(e, mtpEmbedNorm), norm(hidden, mtpHiddenNorm)), in[mtpFC], nil, ""))
	h := norm(x, mtpAttnNorm)
	pairs := split(Linear(h, in[mtpQGate], nil, ""), a.Heads, 2*dim)
	gate := op.Sigmoid(flat(op.Narrow(pairs, 3, dim, dim), a.Heads))
	q := turn(op.Narrow(pairs, 3, 0, dim), a.Heads, mtpQNorm)
	k := turn(split(Linear(h, in[mtpK], nil, ""), a.KVHeads, dim), a.KVHeads, mtpKNorm)
	o := op.Attention(q, k, Linear(h, in[mtpV], nil, ""), op.AttentionOperands{},
		op.AttentionAttrs{Heads: a.Heads, KVHeads: a.KVHeads, Layout: op.BSE, Mask: op.MaskCausal})
	x = part(n, "attn_residual", op.Add(x, Linear(op.Mul(o, gate), in[mtpO], nil, "")))
	x = op.Add(
		x, part(
			n, "mlp", SwiGLU(norm(x, mtpPostNorm), Projection{Weight: in[mtpUp]}, Projection{Weight: in[mtpGate]},
				Projection{Weight: in[mtpDown]})))
	x = op.GatherBatched(x, op.Reshape(in[mtpLast], ir.Shape{b, ir.Static(1)}), 1)
	return Linear(norm(x, mtpHeadNorm), in[mtpLMHead], nil, "")
})

// Qwen35MTPHead adds the head. in has its 29 operands.
func Qwen35MTPHead(a Qwen35MTPHeadAttrs, in ...*ir.Node) *ir.Node {
	return in[0].Graph.Add(Qwen35MTPHeadDef, a, in...)
}
