package llm

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

const (
	maxLogits = 1 << 30 // bytes of forward's result
	maxBatch  = 16      // of forward
	maxTokens = 512     // in one run of extend
	maxRecent = 256     // tokens that the repeat penalty applies to
	// maxChoices bounds the number of logits that choices holds at a time.
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

// forward maps input_ids i64[B,T] to logits f32[B,T,vocab].
func forward(c config, root nn.Scope) {
	ids := op.Input(root.Graph, "input_ids", ir.Type{DType: dtype.I64, Shape: ir.Shape{ir.Named("B"), ir.Named("T")}})
	d := newDecoder(c, root, "T", nil)
	x, _ := d.decode(d.embed(ids), nil)
	root.Graph.Return("logits", d.logits(d.finalNorm(x), d.head(), "lm_head"))
}

// extend appends input_ids i64[1,T] to the sequence in the states. Input position is the number of tokens before them.
// Input dropped is the number of those that slide has removed from the states.
func extend(c config, root nn.Scope) {
	g := root.Graph
	in := declare(g, ir.Static(1))
	d := newDecoder(c, root, "T", in.position)
	d.cached, d.row = true, in.position
	if c.vision != nil {
		d.rotary(ir.Static(1))
	}
	if c.kept() > 0 {
		d.row = op.Sub(in.position, op.Input(g, "dropped", ir.TypeOf(dtype.I32)))
	}
	if c.pages > 0 {
		d.inPages(c.firstPages(g))
	}
	// Only the last token needs logits. The logits of the other tokens would cost as much as several layers.
	x, one := d.decode(d.embed(in.ids), lastToken(g, "T"))
	in.choose(d, one)
	all := d.finalNorm(x).Named("hidden")
	choices, logprobs := d.choices(all)
	g.Return("choices", choices)
	g.Return("logprobs", logprobs)
	g.Return("hidden", all)
}

// slide moves the rows of full caches from row first i32[] on, which later tokens still see, to the front.
func slide(c config, root nn.Scope) {
	first, start := op.Input(root.Graph, "first", ir.TypeOf(dtype.I32)), op.Const(root.Graph, 0, ir.TypeOf(dtype.I32))
	for cache := range c.caches(root) {
		rows := cache
		if c.sequences > 1 { // only for the first sequence, which extend continues
			rows = op.Narrow(cache, 0, 0, 1)
		}
		op.KVAppend(cache, op.DynamicSlice(rows, first, 1, int(c.kept())), start, 1)
	}
	root.Graph.Return("done", start)
}

// inputs holds the inputs of a run that appends tokens to B sequences, and chooses the next token of each.
type inputs struct {
	ids, position                          *ir.Node
	temperature, topK, topP, minP, penalty *ir.Node
	recent, seed, step                     *ir.Node
}

// declare adds the inputs for B sequences. For a single sequence, inputs other than the ids have no axis for it.
func declare(g *ir.Graph, sequences ir.Dim) inputs {
	input := func(name string, d dtype.DType, shape ...ir.Dim) *ir.Node {
		return op.Input(g, name, ir.Type{DType: d, Shape: append(ir.Shape{}, shape...)})
	}
	var each ir.Shape
	if !sequences.Is(1) {
		each = ir.Shape{sequences}
	}
	pair := ir.Static(2)
	return inputs{
		ids: input("input_ids", dtype.I64, sequences, ir.Named("T")), position: input("position", dtype.I32, each...),
		temperature: input("temperature", dtype.F32, each...), topK: input("top_k", dtype.I32, each...),
		topP: input("top_p", dtype.F32, each...), minP: input("min_p", dtype.F32, each...),
		penalty: input("repeat_penalty", dtype.F32, each...),
		recent:  input("recent", dtype.I64, append(each, ir.Named("R"))...),
		seed:    input("seed", dtype.U32, append(each, pair)...), step: input("step", dtype.U32, append(each, pair)...),
	}
}

// choose adds the outputs that choose a token for each sequence: logits [B,vocab], a token i32[B] that is drawn and the
// most probable one, and the log probabilities f32[B] of both. x [B,1,width] is the output of the layers for the last
// token of each.
func (in inputs) choose(d *decoder, x *ir.Node) {
	g, sequences := x.Graph, x.Type.Shape[0]
	logits := d.logits(d.finalNorm(x).Named("last"), d.head(), "lm_head")
	logits = op.Reshape(logits, ir.Shape{sequences, ir.Static(d.vocab)})
	// One log_softmax of all tokens is faster than logsumexp, which most targets compute in five steps.
	logprobs := op.LogSoftmax(logits, 1)
	of := func(token *ir.Node) *ir.Node {
		return op.Reshape(op.GatherBatched(logprobs, op.Reshape(token, ir.Shape{sequences, ir.Static(1)}), 1),
			ir.Shape{sequences})
	}
	drawn, greedy := in.token(d.config, logits), op.ArgMax(logits, 1, false) // each run asks for one of them
	g.Return("logits", logits)
	g.Return("greedy", greedy)
	g.Return("greedy_logprob", of(greedy))
	g.Return("token", drawn)
	g.Return("logprob", of(drawn))
}

// token samples i32[B] from logits [B,vocab] with the penalty and limits of generation in Transformers. A sequence gets
// the same token as it would alone.
func (in inputs) token(c config, logits *ir.Node) *ir.Node {
	number := func(v float64) *ir.Node { return op.Const(logits.Graph, v, ir.TypeOf(dtype.F32)) }
	sequences := logits.Type.Shape[0]
	recent := in.recent
	if recent.Type.DType != dtype.I32 {
		recent = op.Cast(recent, dtype.I32)
	}
	count := c.occurrences(op.Reshape(recent, ir.Shape{sequences, ir.Named("R")}))
	penalty := in.penalty
	if !sequences.Is(1) {
		penalty = op.Reshape(penalty, ir.Shape{sequences, ir.Static(1)})
	}
	penalised := op.Where(op.Gt(logits, number(0)), op.Div(logits, penalty), op.Mul(logits, penalty))
	x := op.Where(op.Gt(count, number(0)), penalised, logits)

	return op.Sample(x, in.temperature, in.topK, in.topP, in.seed, in.step, in.minP,
		op.SampleAttrs{Alone: !sequences.Is(1)})
}

// occurrences counts ids i32[B,R] by sequence and token: f32[B,vocab]. scatter_add is slower for many rows than for
// wide ones. So a row is a stretch of the vocabulary, and each id adds a 1 in one column.
func (c config) occurrences(ids *ir.Node) *ir.Node {
	const stretch = 256
	g, rows := ids.Graph, (c.vocab+stretch-1)/stretch
	number := func(n int64) *ir.Node { return op.Const(g, float64(n), ir.TypeOf(dtype.I32)) }
	sequences := ids.Type.Shape[0]
	all, ok := sequences.Mul(ids.Type.Shape[1])
	table, ok2 := sequences.Mul(ir.Static(rows))
	if !ok || !ok2 {
		panic("BUG: llm: B*R is no size")
	}
	column := op.Reshape(op.Mod(ids, number(stretch)), ir.Shape{all, ir.Static(1)})
	row := op.Div(ids, number(stretch))
	if !sequences.Is(1) {
		row = op.Add(
			row, op.Mul(op.Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{sequences, ir.Static(1)}}),
				number(rows)))
	}
	hot := op.Cast(op.Eq(column, op.Iota(g, 1, ir.TypeOf(dtype.I32, 1, stretch))), dtype.F32)
	counts := op.ScatterAdd(hot, op.Reshape(row, ir.Shape{all}), table)
	return op.Narrow(op.Reshape(counts, ir.Shape{sequences, ir.Static(rows * stretch)}), 1, 0, int(c.vocab))
}

// choices returns, for each row of x [1,T,width], the index of the largest logit, i32[1,T], and the logarithm of its
// probability, f32[1,T]. It divides a large vocabulary, so that only a part of the logits is in memory at a time.
func (d *decoder) choices(x *ir.Node) (index, logprob *ir.Node) {
	rows, head := min(d.vocab, max(1, maxChoices/d.extendTokens())), d.head()
	var best *ir.Node
	var sums []*ir.Node // for each part, the logarithm of the sum of exponentials
	for at := int64(0); at < d.vocab; at += rows {
		n := min(rows, d.vocab-at)
		y := d.logits(x, op.Narrow(head, 0, int(at), int(n)), fmt.Sprint("choices.", at))
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
