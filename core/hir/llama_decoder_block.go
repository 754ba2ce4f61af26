package hir

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// LlamaDecoderBlockAttrs are the attributes of llama_decoder_block.
type LlamaDecoderBlockAttrs struct {
	Heads   int     `attr:"heads"`
	KVHeads int     `attr:"kv_heads"`
	Eps     float64 `attr:"eps"`
	// mask of the attention: none, causal, sliding, custom or bias; the last two need the operand mask
	Mask   string `attr:"mask"`
	Window int    `attr:"window"` // of attention, for sliding: keys before the query's own position that it attends to
}

// llamaMask is the index of the optional operand of llama_decoder_block.
const llamaMask = 14

// LlamaDecoderBlockDef is a decoder layer of Llama without a key-value cache.
var LlamaDecoderBlockDef = ir.Define(ir.Def[LlamaDecoderBlockAttrs]{
	Name:     "llama_decoder_block",
	Operands: "x, gamma1, beta1, wq, wk, wv, wo, gamma2, beta2, gate, up, down, cos, sin, mask?", Block: true,
	Doc: "A layer of Llama: a = rms_norm(x, gamma1, beta1); x1 = x + attention(rope(a·wqᵀ), rope(a·wkᵀ), a·wvᵀ)·woᵀ; y = x1 + swiglu(rms_norm(x1, gamma2, beta2)). x is [B,S,E], gamma1, beta1 [E], wq [heads*D,E], " +
		"wk, wv [kv_heads*D,E], wo [E,heads*D], gamma2, beta2 [E], gate, up [F,E], down [E,F], cos, sin [S_max,D/2], a row for each position from 0 on, whose elements i and i+D/2 turn together; mask, " +
		"[B,S], [B,S,S] or [B,heads,S,S] as attention takes it. Query head h reads kv head h*kv_heads/heads.",
	Infer: func(s ir.Sig[LlamaDecoderBlockAttrs]) (ir.Type, error) {
		a, in := s.Attrs, s.In
		x, e := in[0], channels(in[0])
		if len(x.Shape) != 3 || !x.DType.IsFloat() {
			return x, fmt.Errorf("x is %v; want floats of [B,S,E]", x)
		}
		masked := a.Mask == op.MaskCustom || a.Mask == op.MaskBias
		plain := slices.Contains([]string{op.MaskNone, op.MaskCausal, op.MaskSliding}, a.Mask)
		if !masked && !plain || masked != in[llamaMask].Present() {
			return x, fmt.Errorf("mask is %q; want none, causal or sliding without the operand mask, or custom or bias "+
				"with it", a.Mask)
		}
		if a.Window < 0 || a.Window > ir.MaxDim || a.Window != 0 && a.Mask != op.MaskSliding {
			return x, fmt.Errorf("window is %d with mask %q; want 0 or more, and 0 unless the mask is sliding", a.Window,
				a.Mask)
		}
		d, err := headDim("wq", in[3], a.Heads, a.KVHeads)
		if err != nil {
			return x, err
		}
		q, kv, half := ir.Static(int64(a.Heads)*d), ir.Static(int64(a.KVHeads)*d), ir.Static(d/2)
		hidden, err := matrix("gate", in[9], e)
		if err == nil {
			width := ir.Shape{e}
			err = expect("llama_decoder_block", in, 1, width, width, ir.Shape{q, e}, ir.Shape{kv, e}, ir.Shape{kv, e},
				ir.Shape{e, q}, width, width, ir.Shape{hidden, e}, ir.Shape{hidden, e}, ir.Shape{e, hidden})
		}
		if err == nil {
			err = tables("llama_decoder_block", in, 12, half)
		}
		return x, err
	},
})

// headDim returns the width of a head. It is the number of rows of the query projection divided by the number of heads.
func headDim(what string, wq ir.Type, heads, kvHeads int) (int64, error) {
	if heads < 1 || kvHeads < 1 || heads%kvHeads != 0 {
		return 0, fmt.Errorf("heads is %d and kv_heads %d; want heads of 1 or more and kv_heads that divides them",
			heads, kvHeads)
	}
	if len(wq.Shape) != 2 || !wq.Shape[0].IsStatic() || wq.Shape[0].Const < 1 ||
		wq.Shape[0].Const%(2*int64(heads)) != 0 {
		return 0, fmt.Errorf("%s is %v; want floats with %d rows, or a multiple of them", what, wq, 2*heads)
	}
	return wq.Shape[0].Const / int64(heads), nil
}

// tables checks the tables cos and sin, which are the operands first and first+1. half is their number of columns.
func tables(block string, in []ir.Type, first int, half ir.Dim) error {
	if len(in[first].Shape) == 0 {
		return fmt.Errorf("cos is %v; want floats of [S_max,%v]", in[first], half)
	}
	rows := in[first].Shape[0]
	return expect(block, in, first, ir.Shape{rows, half}, ir.Shape{rows, half})
}

var _ = ir.Lower(LlamaDecoderBlockDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(LlamaDecoderBlockAttrs)
	x := in[0]
	dim := int(in[3].Type.Shape[0].Const) / a.Heads
	turn := func(x *ir.Node) *ir.Node {
		return op.Rope(x, op.RopeOperands{Cos: f32(in[12]), Sin: f32(in[13])},
			op.RopeAttrs{HeadDim: dim, Layout: op.BSE})
	}
	h := op.RmsNorm(x, f32(in[1]), f32(in[2]), a.Eps)
	q, k, v := turn(Linear(h, in[3], nil, "")), turn(Linear(h, in[4], nil, "")), Linear(h, in[5], nil, "")
	o := op.Attention(q, k, v, op.AttentionOperands{Mask: in[llamaMask]},
		op.AttentionAttrs{Heads: a.Heads, KVHeads: a.KVHeads, Layout: op.BSE, Mask: a.Mask, Window: a.Window})
	x = part(n, "attn_residual", op.Add(x, Linear(part(n, "heads", o), in[6], nil, "")))
	h = op.RmsNorm(x, f32(in[7]), f32(in[8]), a.Eps)
	return op.Add(x, part(n, "mlp", SwiGLU(h, Projection{Weight: in[10]}, Projection{Weight: in[9]},
		Projection{Weight: in[11]})))
})

// LlamaDecoderBlock adds a decoder layer of Llama. in has its operands; the mask may be left out.
func LlamaDecoderBlock(a LlamaDecoderBlockAttrs, in ...*ir.Node) *ir.Node {
	return in[0].Graph.Add(LlamaDecoderBlockDef, a, in...)
}
