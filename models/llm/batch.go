package llm

import (
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
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
	keys[keyBatch] = "most sequences that method extend_batch continues at a time, each with caches of its own (default 1: there is no such method)"
}

// readBatch reads the number of sequences.
func (c *config) readBatch(r *reader) {
	c.sequences = r.int(keyBatch, 1, maxSequences, 1)
	refuse := func(what string) {
		r.fail(
			diag.New(arch.ErrConfig, r.Origin(keyBatch), "%s is %d; %s take one sequence at a time", keyBatch,
				c.sequences, what))
	}
	switch {
	case c.sequences == 1:
	case c.recurrent():
		refuse("models with linear attention")
	case c.rope.kind == "dynamic":
		refuse("rotary frequencies that depend on the length")
	}
}

// batchSyms returns the symbols of extend_batch. B is a symbol, so a run computes only the sequences that it is given.
func (c config) batchSyms() ir.Syms {
	return append(ir.Syms{{Name: "B", Min: 1, Max: c.sequences}}, c.extendSyms()...)
}

// extendBatch builds extend for the first B sequences of the states, each with its own length. Of input_ids i64[B,T],
// it appends the first count i32[B] tokens of each row at position i32[B]. It also writes the rest of each row to the
// caches, where the next tokens overwrite it.
func extendBatch(c config, root nn.Scope) {
	g, n := root.Graph, ir.Named("B")
	in := declare(g, n)
	count := op.Input(g, "count", ir.Type{DType: dtype.I32, Shape: ir.Shape{n}})
	d := newDecoder(c, root, "T", in.position)
	d.cached, d.row = true, in.position
	last := op.Sub(count, op.Const(g, 1, ir.TypeOf(dtype.I32)))
	index := op.Reshape(last, ir.Shape{n, ir.Static(1)})
	_, x := d.decode(d.embed(in.ids), &token{last, func(x *ir.Node) *ir.Node { return op.GatherBatched(x, index, 1) }})
	in.choose(d, x)
}

// move copies the caches of sequence from i32[] to sequence to i32[]. Callers use it to keep the active sequences in
// front.
func move(c config, root nn.Scope) {
	from, to := op.Input(root.Graph, "from", ir.TypeOf(dtype.I32)), op.Input(root.Graph, "to", ir.TypeOf(dtype.I32))
	for cache := range c.caches(root) {
		op.KVAppend(cache, op.DynamicSlice(cache, from, 0, 1), to, 0)
	}
	root.Graph.Return("done", op.Const(root.Graph, 0, ir.TypeOf(dtype.I32)))
}
