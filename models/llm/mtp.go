package llm

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/task"
)

const maxDrafts = 64 // sequences in one run of mtp

func (c config) mtpSyms() ir.Syms {
	rows := max(1, maxLogits/4/max(c.vocab, c.context*c.hidden))
	return ir.Syms{{Name: "B", Min: 1, Max: min(maxDrafts, rows)}, {Name: "S", Min: 1, Max: c.context}}
}

// mtp builds the head that predicts one more token (multi-token prediction), without state. Its inputs are
//   - hidden f32[B,S,width]: the trunk's hidden state after its final norm
//   - input_ids i64[B,S]: the tokens that follow those of hidden
//   - position i64[B]: the position of the first token
//   - last i64[B]: the row to predict from
//
// It returns logits f32[B,1,vocab] and hidden f32[B,1,width], which replaces the trunk's hidden state to predict a
// further token.
func mtp(c config, root nn.Scope) {
	batch, tokens := ir.Named("B"), ir.Named("S")
	hidden, ids := c.mtpInputs(root.Graph, batch, tokens)
	position := op.Input(root.Graph, "position", ir.Type{DType: dtype.I64, Shape: ir.Shape{batch}})
	row := op.Input(root.Graph, "last", ir.Type{DType: dtype.I64, Shape: ir.Shape{batch}})
	d := newDecoder(c, root, "S", op.Cast(position, dtype.I32))
	x, _ := d.predict(hidden, ids, nil)
	x = op.GatherBatched(x, op.Reshape(row, ir.Shape{batch, ir.Static(1)}), 1)
	x = d.norm(root.At("mtp.norm"), x)
	root.Graph.Return("logits", d.logits(x, d.head(), "lm_head"))
	root.Graph.Return("hidden", x)
}

// draft builds mtp for one sequence, with keys and values in states. Its inputs are hidden f32[1,T,width], input_ids
// i64[1,T] and position i32[], the number of rows before them. It returns logits f32[1,vocab] of the last row, greedy
// i32[1] and hidden f32[1,1,width].
func draft(c config, root nn.Scope) {
	g := root.Graph
	hidden, ids := c.mtpInputs(g, ir.Static(1), ir.Named("T"))
	d := newDecoder(c, root, "T", op.Input(g, "position", ir.TypeOf(dtype.I32)))
	d.cached, d.row = true, d.position
	if c.pages > 0 {
		d.inPages(c.firstPages(g))
	}
	_, x := d.predict(hidden, ids, lastToken(g, "T"))
	x = d.norm(root.At("mtp.norm"), x)
	logits := op.Reshape(d.logits(x, d.head(), "lm_head"), ir.ShapeOf(1, c.vocab))
	g.Return("logits", logits)
	g.Return("greedy", op.ArgMax(logits, 1, false))
	g.Return("hidden", x)
}

// rewind restores the states of recurrent layers. Each input is the new value of the state whose name follows
// task.StatePrefix. Keys and values need no restoring, because rows after the current position are not read.
func rewind(c config, root nn.Scope) {
	d := &decoder{config: c, root: root}
	start := op.Const(root.Graph, 0, ir.TypeOf(dtype.I32))
	for i, l := range d.layers {
		if !l.linear {
			continue
		}
		for _, state := range d.carried(root.At("model.layers", i, "linear_attn")) {
			op.KVAppend(state, op.Input(root.Graph, task.StatePrefix+state.Name, state.Type), start, 1)
		}
	}
	root.Graph.Return("done", start)
}

func (c config) mtpInputs(g *ir.Graph, batch, tokens ir.Dim) (hidden, ids *ir.Node) {
	hidden = op.Input(g, "hidden", ir.Type{DType: dtype.F32, Shape: ir.Shape{batch, tokens, ir.Static(c.width)}})
	return hidden, op.Input(g, "input_ids", ir.Type{DType: dtype.I64, Shape: ir.Shape{batch, tokens}})
}

// predict applies the head up to its final norm. The results are those of layer.
func (d *decoder) predict(hidden, ids *ir.Node, t *token) (all, one *ir.Node) {
	s := d.root.At("mtp")
	e := d.norm(s.At("pre_fc_norm_embedding"), d.embed(ids))
	h := d.norm(s.At("pre_fc_norm_hidden"), hidden)
	x := s.At("fc").LinearIf(false, op.Concat(2, e, h), d.width)
	return d.layer(s.At("layers", 0), layer{sparse: s.At("layers", 0, "mlp", "gate").Has("weight")}, x, t)
}
