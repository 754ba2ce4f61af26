package llm

import (
	"fmt"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
)

const (
	keyBatch     = "batch"
	maxSequences = 64 // of extend_batch
)

func init() {
	keys[keyBatch] = "sequences that method extend_batch continues at a time, each with caches of its own (default 1: there is no such method)"
}

// readBatch reads how many sequences there are.
func (c *config) readBatch(r *reader) {
	c.sequences = r.int(keyBatch, 1, maxSequences, 1)
	refuse := func(what string) {
		r.fail(diag.New(arch.ErrConfig, r.Origin(keyBatch), "%s is %d; %s take one sequence at a time", keyBatch, c.sequences, what))
	}
	switch {
	case c.sequences == 1:
	case c.recurrent():
		refuse("models with linear attention")
	case c.rope.kind == "dynamic":
		refuse("rotary frequencies that depend on the length")
	}
}

// extendBatch is extend for several sequences, each of its own length: input_ids i64[N,T], of which count i32[N] tokens each count, are appended at position
// i32[N]. What follows the others of a row is overwritten by the tokens that come next.
func extendBatch(c config, root nn.Scope) {
	g, n := root.G, ir.Static(c.sequences)
	input := func(name string, d dtype.DType, shape ...ir.Dim) *ir.Node {
		return op.Input(g, name, ir.Type{DType: d, Shape: shape})
	}
	ids := input("input_ids", dtype.I64, n, ir.Named("T"))
	position, count := input("position", dtype.I32, n), input("count", dtype.I32, n)
	s := sampling{
		temperature: input("temperature", dtype.F32), topK: input("top_k", dtype.I32), topP: input("top_p", dtype.F32), minP: input("min_p", dtype.F32),
		penalty: input("repeat_penalty", dtype.F32), seed: input("seed", dtype.U32, ir.Static(2)),
	}
	recent, step := op.Cast(input("recent", dtype.I64, n, ir.Named("R")), dtype.I32), input("step", dtype.U32, n, ir.Static(2))
	d := newDecoder(c, root, "T", position)
	d.cached, d.each = true, true
	x := d.decode(d.embed(ids))
	last := op.Reshape(op.Sub(count, op.Const(g, 1, ir.TypeOf(dtype.I32))), ir.Shape{n, ir.Static(1)})
	end := d.finalNorm(op.GatherBatched(x, last, 1)).Named("last")
	logits := op.Reshape(hir.Linear(end, d.head(), nil, "").Named("lm_head"), ir.ShapeOf(c.sequences, c.vocab))
	var tokens []*ir.Node
	for i := range int(c.sequences) { // each draws what it would draw alone
		s.recent = op.Reshape(op.Narrow(recent, 0, i, 1), ir.Shape{ir.Named("R")})
		s.step = op.Reshape(op.Narrow(step, 0, i, 1), ir.ShapeOf(2))
		tokens = append(tokens, s.token(c, op.Narrow(logits, 0, i, 1)))
	}
	token := op.Concat(0, tokens...)
	chosen := op.Reshape(op.GatherBatched(logits, op.Reshape(token, ir.Shape{n, ir.Static(1)}), 1), ir.Shape{n})
	g.Return("logits", logits)
	g.Return("token", token)
	g.Return("logprob", op.Sub(chosen, op.LogSumExp(logits, false, 1)))
}

// attendEach attends with caches of its own for each sequence of q, k and v.
func (d *decoder) attendEach(s nn.Scope, q, k, v *ir.Node, a op.AttentionAttrs) *ir.Node {
	var all []*ir.Node
	for i := range int(d.sequences) {
		one := func(x *ir.Node) *ir.Node { return op.Narrow(x, 0, i, 1) }
		row := op.Reshape(one(d.position), ir.Shape{})
		suffix := ""
		if i > 0 { // the first has the caches of extend
			suffix = fmt.Sprint(".", i)
		}
		keys, values := d.cache(s, "keys"+suffix, one(k), row), d.cache(s, "values"+suffix, one(v), row)
		all = append(all, op.Attention(one(q), keys, values, row, a).Named(s.Path()+suffix))
	}
	return op.Concat(0, all...)
}
