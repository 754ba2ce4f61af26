package llm

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// embed looks token ids [B,T] up: f32[B,T,width].
func (c config) embed(root nn.Scope, ids *ir.Node) *ir.Node {
	s := root.At("model.embed_tokens")
	x := op.Gather(s.Param("weight", c.vocab, c.width), ids, 0)
	if x.Type.DType != dtype.F32 {
		x = op.Cast(x, dtype.F32)
	}
	return x.Named(s.Path())
}

// layers runs the decoder's layers on x [B,T,width], and leaves the final norm to the caller. Without a position the sequences are complete;
// otherwise it is that of the first token, and what came before is in states.
func (c config) decode(root nn.Scope, x, position *ir.Node) *ir.Node {
	for i := range c.layers {
		s := root.At("model.layers", i)
		h := s.At("input_layernorm").RmsNorm(x, c.eps)
		x = op.Add(x, c.attention(s.At("self_attn"), h, position)).Named(s.Path() + ".attn_residual")
		h = s.At("post_attention_layernorm").RmsNorm(x, c.eps)
		x = op.Add(x, c.feedForward(s.At("mlp"), h)).Named(s.Path())
	}
	return x
}

func (c config) attention(s nn.Scope, x, position *ir.Node) *ir.Node {
	q := s.At("q_proj").LinearIf(c.qkvBias, x, c.heads*c.headDim)
	k := s.At("k_proj").LinearIf(c.qkvBias, x, c.kvHeads*c.headDim)
	v := s.At("v_proj").LinearIf(c.qkvBias, x, c.kvHeads*c.headDim)
	q, k = c.rotate(q, position).Named(s.Path()+".q_rope"), c.rotate(k, position).Named(s.Path()+".k_rope")
	if position != nil {
		k, v = c.cache(s, "keys", k, position), c.cache(s, "values", v, position)
	}
	a := op.AttentionAttrs{Heads: int(c.heads), KVHeads: int(c.kvHeads), Layout: op.BSE, Mask: op.MaskCausal}
	o := op.Attention(q, k, v, position, a).Named(s.Path())
	return s.At("o_proj").LinearIf(c.oBias, o, c.width)
}

// cache appends rows [1,T,W] to a state with room for the context, and gives all its rows [1,context,W]. Rows lie in the layout in which
// projections make them and attention reads them, so that nothing is transposed.
func (c config) cache(s nn.Scope, name string, rows, position *ir.Node) *ir.Node {
	t := ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(1), ir.Static(c.context), rows.Type.Shape[2]}}
	name = s.Path() + "." + name
	return op.KVAppend(op.State(s.G, name, t, 0), rows, position, 1).Named(name + "_append")
}

func (c config) feedForward(s nn.Scope, x *ir.Node) *ir.Node {
	in := func(name string) hir.Projection { return s.At(name).ProjectionIf(c.upBias, c.width, c.hidden) }
	return hir.SwiGLU(x, in("up_proj"), in("gate_proj"), s.At("down_proj").ProjectionIf(c.upBias, c.hidden, c.width)).Named(s.Path())
}

// head is the matrix [vocab,width] of the last layer.
func (c config) head(root nn.Scope) *ir.Node {
	if c.tied {
		return root.At("model.embed_tokens").Param("weight", c.vocab, c.width)
	}
	return root.At("lm_head").Param("weight", c.vocab, c.width)
}
