package llm

import (
	"iter"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// A decoder builds the layers of one method.
type decoder struct {
	config
	root     nn.Scope
	position *ir.Node // position of the first token, or one for each sequence; nil means 0
	cached   bool     // earlier tokens are in states
	row      *ir.Node // of the first token in the states; one per sequence, if position is
	// sequence has the numbers of the sequences in the states; nil means the first ones.
	sequence *ir.Node
	// With pages, table has those of each sequence, and rowInPage and page, i32[B*T], say where each row of the run goes.
	table, rowInPage, page *ir.Node
	frequencies            *ir.Node // of rotary embedding; nil means those of the base
	// Angles of rotary embedding, with a row for each token of the run, if tokens have several positions. first has the
	// rows of the tokens that are turned, as the operand position of rope; nil means that they begin at 0.
	cos, sin, first *ir.Node
}

// newDecoder returns a decoder for runs whose number of tokens is the symbol tokens.
func newDecoder(c config, root nn.Scope, tokens string, position *ir.Node) *decoder {
	d := &decoder{config: c, root: root, position: position}
	d.frequencies = c.rope.frequencies(root.Graph, c.rotated, func() *ir.Node {
		n := op.Add(last(root.Graph, tokens), op.Const(root.Graph, 1, ir.TypeOf(dtype.I32)))
		if position != nil {
			n = op.Add(n, position)
		}
		return n
	}, c.maxPositions)
	return d
}

// lastToken returns the last token of a run with one sequence.
func lastToken(g *ir.Graph, symbol string) *token {
	index := last(g, symbol)
	return &token{index, func(x *ir.Node) *ir.Node { return op.DynamicSlice(x, index, 1, 1) }}
}

// last returns a symbol minus one, as i32[].
func last(g *ir.Graph, symbol string) *ir.Node {
	return op.ReduceMax(op.Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Named(symbol)}}), false, 0)
}

// embed returns the embeddings f32[B,T,width] of token ids [B,T].
func (d *decoder) embed(ids *ir.Node) *ir.Node {
	s := d.root.At("model.embed_tokens")
	x := op.Gather(s.Param("weight", d.vocab, d.width), ids, 0)
	if x.Type.DType != dtype.F32 {
		x = op.Cast(x, dtype.F32)
	}
	if d.gemma {
		x = op.Mul(x, op.Const(s.Graph, math.Sqrt(float64(d.width)), ir.TypeOf(dtype.F32)))
	}
	return x.Named(s.Path())
}

// decode applies the layers to x [B,T,width], without the final norm. If t is not nil, one is the result for that token
// of each sequence, [B,1,width]; all is then for outputs that a run need not ask for.
func (d *decoder) decode(x *ir.Node, t *token) (all, one *ir.Node) {
	for i, l := range d.layers {
		s := d.root.At("model.layers", i)
		if i < len(d.layers)-1 {
			x, _ = d.layer(s, l, x, nil)
		} else {
			all, one = d.layer(s, l, x, t)
		}
	}
	return all, one
}

// A token is a token of each sequence, usually its last one.
type token struct {
	index *ir.Node                  // among the tokens of the run: i32[], or i32[B]
	of    func(x *ir.Node) *ir.Node // takes [B,T,width], returns [B,1,width]
}

// layer applies a layer to x [B,T,width]. If t is not nil, it also applies the layer to that token alone. Apart from
// keys and values, the next token depends on nothing else that the last layer computes.
func (d *decoder) layer(s nn.Scope, l layer, x *ir.Node, t *token) (all, one *ir.Node) {
	h := d.norm(s.At("input_layernorm"), x)
	if t == nil {
		if l.linear {
			h = d.deltaNet(s.At("linear_attn"), h)
		} else {
			h = d.attention(s.At("self_attn"), l, h)
		}
		return d.feed(s, l, x, h), nil
	}
	// The steps of the one token follow each other, so that a backend can run them together although those of all
	// tokens are not needed.
	last := s.Suffixed(".last")
	if l.linear {
		h = d.deltaNet(s.At("linear_attn"), h)
		one = d.feed(last, l, t.of(x), t.of(h))
		return d.feed(s, l, x, h), one
	}
	a := s.At("self_attn")
	k, v := d.keysAndValues(a, l, h)
	at := *d
	at.position, at.row = op.Add(d.position, t.index), op.Add(d.row, t.index)
	if d.cos != nil {
		at.first = d.tableRow(t.index)
	}
	one = d.feed(last, l, t.of(x), at.attend(a.Suffixed(".last"), l, t.of(h), k, v))
	return d.feed(s, l, x, d.attend(a, l, h, k, v)), one
}

// feed applies the part of a layer after attention. x is the input of the layer, h the result of attention.
func (d *decoder) feed(s nn.Scope, l layer, x, h *ir.Node) *ir.Node {
	before := "post_attention_layernorm" // norm before the feed-forward block
	if d.gemma {
		h, before = d.norm(s.At("post_attention_layernorm"), h), "pre_feedforward_layernorm"
	}
	x = op.Add(x, h).Named(s.Path() + ".attn_residual")
	h = d.norm(s.At(before), x)
	if l.sparse {
		h = d.mixture(s.At("mlp"), h)
	} else {
		h = d.feedForward(s.At("mlp"), h, d.upBias, d.hidden)
	}
	if d.gemma {
		h = d.norm(s.At("post_feedforward_layernorm"), h)
	}
	return op.Add(x, h).Named(s.Path())
}

// norm applies a norm. The checkpoint stores its gains minus gainOffset.
func (d *decoder) norm(s nn.Scope, x *ir.Node) *ir.Node { return s.RmsNorm(x, d.eps, d.gainOffset) }

// attention applies attention to x [B,T,width]. The projections follow each other, so that a backend can run them
// together.
func (d *decoder) attention(s nn.Scope, l layer, x *ir.Node) *ir.Node {
	q, gate := d.queries(s, x)
	k, v := d.projections(s, x)
	q, k = d.turned(s, l, "q", q), d.turned(s, l, "k", k)
	k, v = d.caching(s, k, v)
	return d.scores(s, l, q, k, v, gate)
}

// attend applies attention to the queries of x [B,T,width], with given keys and values.
func (d *decoder) attend(s nn.Scope, l layer, x, k, v *ir.Node) *ir.Node {
	q, gate := d.queries(s, x)
	return d.scores(s, l, d.turned(s, l, "q", q), k, v, gate)
}

// keysAndValues returns those of x [B,T,width], after those of earlier runs if the decoder keeps them.
func (d *decoder) keysAndValues(s nn.Scope, l layer, x *ir.Node) (k, v *ir.Node) {
	k, v = d.projections(s, x)
	return d.caching(s, d.turned(s, l, "k", k), v)
}

func (d *decoder) projections(s nn.Scope, x *ir.Node) (k, v *ir.Node) {
	k = s.At("k_proj").LinearIf(d.qkvBias, x, d.kvHeads*d.headDim)
	return k, s.At("v_proj").LinearIf(d.qkvBias, x, d.kvHeads*d.headDim)
}

// turned applies rotary embedding to q or k, after the norm of heads if the model has one.
func (d *decoder) turned(s nn.Scope, l layer, name string, x *ir.Node) *ir.Node {
	if d.headNorms {
		x = d.headNorm(s.At(name+"_norm"), x)
	}
	return d.rotate(l, x).Named(s.Path() + "." + name + "_rope")
}

func (d *decoder) caching(s nn.Scope, k, v *ir.Node) (keys, values *ir.Node) {
	if !d.cached {
		return k, v
	}
	return d.cache(s, "keys", k), d.cache(s, "values", v)
}

// queries returns the projection of x to queries, and the gate of the result or nil.
func (d *decoder) queries(s nn.Scope, x *ir.Node) (q, gate *ir.Node) {
	q = s.At("q_proj").LinearIf(d.qkvBias, x, d.heads*d.headDim*d.queryParts())
	if !d.gated {
		return q, nil
	}
	// Each head of q is followed by its gate.
	t, n := q.Type.Shape, int(d.headDim)
	pairs := op.Reshape(q, ir.Shape{t[0], t[1], ir.Static(d.heads), ir.Static(2 * d.headDim)})
	flat := ir.Shape{t[0], t[1], ir.Static(d.heads * d.headDim)}
	return op.Reshape(op.Narrow(pairs, 3, 0, n), flat), op.Sigmoid(op.Reshape(op.Narrow(pairs, 3, n, n), flat))
}

// scores applies attention to queries, keys and values, the gate if it is not nil, and the projection of the result.
func (d *decoder) scores(s nn.Scope, l layer, q, k, v, gate *ir.Node) *ir.Node {
	a := op.AttentionAttrs{Heads: int(d.heads), KVHeads: int(d.kvHeads), Layout: op.BSE, Mask: op.MaskCausal,
		Scale: d.scale, Softcap: d.softcap}
	if l.window > 0 {
		a.Mask, a.Window = op.MaskSliding, int(l.window-1) // the op counts only keys before the query's own
	}
	o := op.Attention(q, k, v, op.AttentionOperands{Position: d.row, Sequence: d.sequence, Pages: d.table}, a).Named(s.Path())
	if gate != nil {
		o = op.Mul(o, gate)
	}
	return s.At("o_proj").LinearIf(d.oBias, o, d.width)
}

// queryParts returns the number of values that q_proj computes for each element of a query.
func (c config) queryParts() int64 {
	if c.gated {
		return 2
	}
	return 1
}

// headNorm normalises each head of x [B,T,heads*D] with the same gains.
func (d *decoder) headNorm(s nn.Scope, x *ir.Node) *ir.Node {
	t := x.Type.Shape
	heads := op.Reshape(x, ir.Shape{t[0], t[1], ir.Static(t[2].Const / d.headDim), ir.Static(d.headDim)})
	return op.Reshape(d.norm(s, heads), t)
}

// rotate applies rotary embedding to the heads of x [B,T,heads*D].
func (d *decoder) rotate(l layer, x *ir.Node) *ir.Node {
	a := op.RopeAttrs{HeadDim: int(d.headDim), Layout: op.BSE}
	if d.rotated != d.headDim {
		a.Rot = int(d.rotated)
	}
	if d.cos != nil {
		return op.Rope(x, op.RopeOperands{Cos: d.cos, Sin: d.sin, Position: d.first}, a)
	}
	if own := d.local.base > 0 && l.window > 0; own || d.frequencies == nil {
		a.Base = d.rope.base
		if own {
			a.Base = d.local.base
		}
		return op.Rope(x, op.RopeOperands{Position: d.position}, a)
	}
	if d.rope.attention != 1 {
		a.Factor = d.rope.attention
	}
	return op.Rope(x, op.RopeOperands{Frequencies: d.frequencies, Position: d.position}, a)
}

// cache appends rows [B,T,W] to the caches of B sequences and returns the caches. Projections write rows and
// attention reads them in this layout, so nothing is transposed.
func (d *decoder) cache(s nn.Scope, name string, rows *ir.Node) *ir.Node {
	state := d.state(s, name)
	if d.table != nil {
		each := op.Reshape(rows, ir.Shape{d.page.Type.Shape[0], ir.Static(1), rows.Type.Shape[2]})
		return op.KVAppendTo(state, each, d.rowInPage, d.page, 1).Named(state.Name + "_append")
	}
	return op.KVAppendTo(state, rows, d.row, d.sequence, 1).Named(state.Name + "_append")
}

// state returns the state for the keys or values of all sequences, [sequences,context,W] or [pages,pageRows,W], of the
// attention at scope s.
func (c config) state(s nn.Scope, name string) *ir.Node {
	if c.pages > 0 {
		return op.State(s.Graph, s.Path()+"."+name, ir.TypeOf(dtype.F32, c.pages, pageRows, c.kvHeads*c.headDim), 0)
	}
	return op.State(s.Graph, s.Path()+"."+name, ir.TypeOf(dtype.F32, c.sequences, c.context, c.kvHeads*c.headDim), 0)
}

// caches returns the states with keys and values of all layers.
func (c config) caches(root nn.Scope) iter.Seq[*ir.Node] {
	return func(yield func(*ir.Node) bool) {
		for i := range c.layers {
			s := root.At("model.layers", i, "self_attn")
			if !yield(c.state(s, "keys")) || !yield(c.state(s, "values")) {
				return
			}
		}
	}
}

func (d *decoder) feedForward(s nn.Scope, x *ir.Node, bias bool, hidden int64) *ir.Node {
	in := func(name string) hir.Projection { return s.At(name).ProjectionIf(bias, d.width, hidden) }
	if d.gemma {
		up, gate, down := in("up_proj"), in("gate_proj"), s.At("down_proj").ProjectionIf(bias, hidden, d.width)
		return hir.Linear(op.Mul(hir.Linear(x, up.Weight, up.Bias, ""), hir.Linear(x, gate.Weight, gate.Bias,
			"gelu_tanh")), down.Weight,
			down.Bias, "").Named(s.Path())
	}
	return hir.SwiGLU(x, in("up_proj"), in("gate_proj"), s.At("down_proj").ProjectionIf(bias, hidden, d.width)).Named(
		s.Path())
}

// finalNorm applies the norm before the last layer.
func (d *decoder) finalNorm(x *ir.Node) *ir.Node { return d.norm(d.root.At("model.norm"), x) }

// logits applies the last layer: it multiplies x [...,width] by the rows [n,width] of head.
func (d *decoder) logits(x, head *ir.Node, name string) *ir.Node {
	y := hir.Linear(x, head, nil, "").Named(name)
	if d.logitCap == 0 {
		return y
	}
	most := op.Const(y.Graph, d.logitCap, ir.TypeOf(dtype.F32))
	return op.Mul(op.Tanh(op.Div(y, most)), most)
}

// head returns the matrix [vocab,width] of the last layer.
func (d *decoder) head() *ir.Node {
	if d.tied {
		return d.root.At("model.embed_tokens").Param("weight", d.vocab, d.width)
	}
	return d.root.At("lm_head").Param("weight", d.vocab, d.width)
}
