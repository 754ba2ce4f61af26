package llm

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// decoder builds the layers of one method.
type decoder struct {
	config
	root nn.Scope
	// position is that of the first token; what came before it is in states. nil: sequences are complete.
	position    *ir.Node
	frequencies *ir.Node // of rotary embedding; nil: those of the base
}

// newDecoder is for runs of the symbol T tokens.
func newDecoder(c config, root nn.Scope, position *ir.Node) *decoder {
	d := &decoder{config: c, root: root, position: position}
	d.frequencies = c.rope.frequencies(root.G, c.rotated, func() *ir.Node {
		n := op.Add(lastToken(root.G), op.Const(root.G, 1, ir.TypeOf(dtype.I32)))
		if position != nil {
			n = op.Add(n, position)
		}
		return n
	}, c.maxPositions)
	return d
}

// lastToken is T-1 as i32[].
func lastToken(g *ir.Graph) *ir.Node {
	return op.ReduceMax(op.Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Named("T")}}), false, 0)
}

// embed looks token ids [B,T] up: f32[B,T,width].
func (d *decoder) embed(ids *ir.Node) *ir.Node {
	s := d.root.At("model.embed_tokens")
	x := op.Gather(s.Param("weight", d.vocab, d.width), ids, 0)
	if x.Type.DType != dtype.F32 {
		x = op.Cast(x, dtype.F32)
	}
	return x.Named(s.Path())
}

// decode runs the layers on x [B,T,width], and leaves the final norm to the caller.
func (d *decoder) decode(x *ir.Node) *ir.Node {
	for i, l := range d.layers {
		s := d.root.At("model.layers", i)
		h := s.At("input_layernorm").RmsNorm(x, d.eps)
		x = op.Add(x, d.attention(s.At("self_attn"), l, h)).Named(s.Path() + ".attn_residual")
		h = s.At("post_attention_layernorm").RmsNorm(x, d.eps)
		x = op.Add(x, d.feedForward(s.At("mlp"), h)).Named(s.Path())
	}
	return x
}

func (d *decoder) attention(s nn.Scope, l layer, x *ir.Node) *ir.Node {
	q := s.At("q_proj").LinearIf(d.qkvBias, x, d.heads*d.headDim)
	k := s.At("k_proj").LinearIf(d.qkvBias, x, d.kvHeads*d.headDim)
	v := s.At("v_proj").LinearIf(d.qkvBias, x, d.kvHeads*d.headDim)
	if d.headNorms {
		q, k = d.headNorm(s.At("q_norm"), q), d.headNorm(s.At("k_norm"), k)
	}
	q, k = d.rotate(q).Named(s.Path()+".q_rope"), d.rotate(k).Named(s.Path()+".k_rope")
	if d.position != nil {
		k, v = d.cache(s, "keys", k), d.cache(s, "values", v)
	}
	a := op.AttentionAttrs{Heads: int(d.heads), KVHeads: int(d.kvHeads), Layout: op.BSE, Mask: op.MaskCausal}
	if l.window > 0 {
		a.Mask, a.Window = op.MaskSliding, int(l.window-1) // the op counts keys before the query's own
	}
	o := op.Attention(q, k, v, d.position, a).Named(s.Path())
	return s.At("o_proj").LinearIf(d.oBias, o, d.width)
}

// headNorm normalises each head of x [B,T,heads*D] with one gain for all.
func (d *decoder) headNorm(s nn.Scope, x *ir.Node) *ir.Node {
	t := x.Type.Shape
	heads := op.Reshape(x, ir.Shape{t[0], t[1], ir.Static(t[2].B / d.headDim), ir.Static(d.headDim)})
	return op.Reshape(s.RmsNorm(heads, d.eps), t)
}

// rotate applies rotary embedding to the heads of x [B,T,heads*D].
func (d *decoder) rotate(x *ir.Node) *ir.Node {
	a := op.RopeAttrs{HeadDim: int(d.headDim), Layout: op.BSE}
	if d.rotated != d.headDim {
		a.Rot = int(d.rotated)
	}
	if d.frequencies == nil {
		a.Base = d.rope.base
		return op.Rope(x, d.position, a)
	}
	if d.rope.attention != 1 {
		a.Factor = d.rope.attention
	}
	return op.Rope(x, d.position, a, d.frequencies)
}

// cache appends rows [1,T,W] to a state with room for the context, and gives all its rows [1,context,W]. Rows lie in the layout in which
// projections make them and attention reads them, so that nothing is transposed.
func (d *decoder) cache(s nn.Scope, name string, rows *ir.Node) *ir.Node {
	t := ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(1), ir.Static(d.context), rows.Type.Shape[2]}}
	name = s.Path() + "." + name
	return op.KVAppend(op.State(s.G, name, t, 0), rows, d.position, 1).Named(name + "_append")
}

func (d *decoder) feedForward(s nn.Scope, x *ir.Node) *ir.Node {
	in := func(name string) hir.Projection { return s.At(name).ProjectionIf(d.upBias, d.width, d.hidden) }
	return hir.SwiGLU(x, in("up_proj"), in("gate_proj"), s.At("down_proj").ProjectionIf(d.upBias, d.hidden, d.width)).Named(s.Path())
}

// finalNorm is the norm in front of the last layer.
func (d *decoder) finalNorm(x *ir.Node) *ir.Node { return d.root.At("model.norm").RmsNorm(x, d.eps) }

// head is the matrix [vocab,width] of the last layer.
func (d *decoder) head() *ir.Node {
	if d.tied {
		return d.root.At("model.embed_tokens").Param("weight", d.vocab, d.width)
	}
	return d.root.At("lm_head").Param("weight", d.vocab, d.width)
}
