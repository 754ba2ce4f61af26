package llm

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

const (
	maxLogits = 1 << 30 // bytes of forward's result
	maxBatch  = 16      // sequences of forward
	maxTokens = 512     // of one run of extend
	maxRecent = 256     // tokens that a repeat penalty applies to
	// maxChoices bounds the elements of the logits of all rows of extend that are in memory at a time.
	maxChoices = 8 << 20
)

func (c config) forwardSyms() ir.Syms {
	rows := max(1, maxLogits/4/c.vocab)
	tokens := min(c.context, rows)
	return ir.Syms{{Name: "B", Min: 1, Max: min(maxBatch, rows/tokens)}, {Name: "T", Min: 1, Max: tokens}}
}

func (c config) extendTokens() int64 { return min(c.context-c.kept(), maxTokens) }

func (c config) draftSyms() ir.Syms { return ir.Syms{{Name: "T", Min: 1, Max: c.extendTokens()}} }

func (c config) extendSyms() ir.Syms {
	return append(c.draftSyms(), ir.Sym{Name: "R", Min: 1, Max: maxRecent})
}

// forward builds input_ids i64[B,T] to logits f32[B,T,vocab].
func forward(c config, root nn.Scope) {
	ids := op.Input(root.G, "input_ids", ir.Type{DType: dtype.I64, Shape: ir.Shape{ir.Named("B"), ir.Named("T")}})
	d := newDecoder(c, root, "T", nil)
	x := d.finalNorm(d.decode(d.embed(ids)))
	root.G.Return("logits", hir.Linear(x, d.head(), nil, "").Named("lm_head"))
}

// extend appends input_ids i64[1,T] to the sequence in the states. Position is the number of tokens before them, dropped how many of these slide has
// removed from the states.
func extend(c config, root nn.Scope) {
	g := root.G
	scalar := func(name string, d dtype.DType) *ir.Node { return op.Input(g, name, ir.TypeOf(d)) }
	ids := op.Input(g, "input_ids", ir.Type{DType: dtype.I64, Shape: ir.Shape{ir.Static(1), ir.Named("T")}})
	position := scalar("position", dtype.I32)
	s := sampling{
		temperature: scalar("temperature", dtype.F32), topK: scalar("top_k", dtype.I32), topP: scalar("top_p", dtype.F32), minP: scalar("min_p", dtype.F32),
		penalty: scalar("repeat_penalty", dtype.F32), recent: op.Input(g, "recent", ir.Type{DType: dtype.I64, Shape: ir.Shape{ir.Named("R")}}),
		seed: op.Input(g, "seed", ir.TypeOf(dtype.U32, 2)), step: op.Input(g, "step", ir.TypeOf(dtype.U32, 2)),
	}
	d := newDecoder(c, root, "T", position)
	if d.cached, d.row = true, position; c.kept() > 0 {
		d.row = op.Sub(position, scalar("dropped", dtype.I32))
	}
	x := d.decode(d.embed(ids))
	// The last token alone goes on to the logits: the others would cost as much again as several layers.
	end := d.finalNorm(op.DynamicSlice(x, last(g, "T"), 1, 1)).Named("last")
	logits := op.Reshape(hir.Linear(end, d.head(), nil, "").Named("lm_head"), ir.ShapeOf(1, c.vocab))
	g.Return("logits", logits)
	g.Return("greedy", op.ArgMax(logits, 1, false))
	token := s.token(c, logits)
	g.Return("token", token)
	chosen := op.Reshape(op.GatherBatched(logits, op.Reshape(token, ir.ShapeOf(1, 1)), 1), ir.ShapeOf(1))
	g.Return("logprob", op.Sub(chosen, op.LogSumExp(logits, false, 1)))
	all := d.finalNorm(x).Named("hidden")
	choices, logprobs := c.choices(all, d.head())
	g.Return("choices", choices)
	g.Return("logprobs", logprobs)
	g.Return("hidden", all)
}

// slide moves the rows that are still seen of full caches, from row first i32[] on, to the front.
func slide(c config, root nn.Scope) {
	first, start := op.Input(root.G, "first", ir.TypeOf(dtype.I32)), op.Const(root.G, 0, ir.TypeOf(dtype.I32))
	for i := range c.layers {
		for _, name := range []string{"keys", "values"} {
			state := op.State(root.G, root.At("model.layers", i, "self_attn").Path()+"."+name, c.rows(c.kvHeads*c.headDim), 0)
			op.KVAppend(state, op.DynamicSlice(state, first, 1, int(c.kept())), start, 1)
		}
	}
	root.G.Return("done", start)
}

// sampling are the inputs that say how a token is drawn.
type sampling struct{ temperature, topK, topP, minP, penalty, recent, seed, step *ir.Node }

// token draws from logits [1,vocab] with the penalty and the limits of Transformers' generation: i32[1].
func (s sampling) token(c config, logits *ir.Node) *ir.Node {
	g := logits.Graph
	row := ir.TypeOf(dtype.F32, 1, c.vocab)
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F32)) }

	count := op.Reshape(c.occurrences(s.recent), row.Shape)
	penalised := op.Where(op.Gt(logits, number(0)), op.Div(logits, s.penalty), op.Mul(logits, s.penalty))
	x := op.Where(op.Gt(count, number(0)), penalised, logits)

	return op.Sample(x, s.temperature, s.topK, s.topP, s.seed, s.step, s.minP)
}

// occurrences counts ids [R] by token: f32[vocab]. scatter_add takes longer for many rows than for wide ones, so a row is a stretch of the vocabulary,
// to which each id adds a 1 in one column.
func (c config) occurrences(ids *ir.Node) *ir.Node {
	const stretch = 256
	g, rows := ids.Graph, (c.vocab+stretch-1)/stretch
	number := op.Const(g, stretch, ir.TypeOf(dtype.I32))
	id := ids
	if id.Type.DType != dtype.I32 {
		id = op.Cast(ids, dtype.I32)
	}
	column := op.Reshape(op.Mod(id, number), ir.Shape{ids.Type.Shape[0], ir.Static(1)})
	hot := op.Cast(op.Eq(column, op.Iota(g, 1, ir.TypeOf(dtype.I32, 1, stretch))), dtype.F32)
	table := op.ScatterAdd(hot, op.Div(id, number), ir.Static(rows))
	return op.Narrow(op.Reshape(table, ir.ShapeOf(rows*stretch)), 0, 0, int(c.vocab))
}

// choices is the largest logit's index in every row of x [1,T,width], i32[1,T], and the logarithm of its probability, f32[1,T]. A large vocabulary is
// taken in parts, so that the logits of all rows are never in memory together.
func (c config) choices(x, head *ir.Node) (index, logprob *ir.Node) {
	rows := min(c.vocab, max(1, maxChoices/c.extendTokens()))
	var best *ir.Node
	var sums []*ir.Node // logarithms of the sums of each part's exponentials
	for at := int64(0); at < c.vocab; at += rows {
		n := min(rows, c.vocab-at)
		y := hir.Linear(x, op.Narrow(head, 0, int(at), int(n)), nil, "").Named(fmt.Sprint("choices.", at))
		i, top := op.ArgMax(y, 2, false), op.ReduceMax(y, false, 2)
		sums = append(sums, op.LogSumExp(y, true, 2))
		if best == nil {
			best, index = top, i
			continue
		}
		i = op.Add(i, op.Const(x.Graph, float64(at), ir.TypeOf(dtype.I32)))
		larger := op.Gt(top, best)
		best, index = op.Max(best, top), op.Where(larger, i, index)
	}
	all := sums[0]
	if len(sums) > 1 {
		all = op.Concat(2, sums...)
	}
	return index, op.Sub(best, op.LogSumExp(all, false, 2))
}
