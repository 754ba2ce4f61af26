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
	// maxMove bounds the rows that move copies, so that a short text is copied quickly.
	maxMove = 128
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

func (c config) moveRows() int64 { return min(c.context, maxMove) }

// extendBatch builds extend for B sequences of the states, whose numbers are sequence i32[B], each with its own length
// and its own sampling parameters. Of input_ids i64[B,T], it appends the first count i32[B] tokens of each row at
// position i32[B]. It also writes the rest of each row to the caches, where the next tokens overwrite it.
func extendBatch(c config, root nn.Scope) {
	g, n := root.Graph, ir.Named("B")
	in := declare(g, n)
	count := op.Input(g, "count", ir.Type{DType: dtype.I32, Shape: ir.Shape{n}})
	d := newDecoder(c, root, "T", in.position)
	d.cached, d.row = true, in.position
	if c.vision != nil {
		d.rotary(n)
	}
	d.sequence = op.Input(g, "sequence", ir.Type{DType: dtype.I32, Shape: ir.Shape{n}})
	last := op.Sub(count, op.Const(g, 1, ir.TypeOf(dtype.I32)))
	index := op.Reshape(last, ir.Shape{n, ir.Static(1)})
	_, x := d.decode(d.embed(in.ids), &token{last, func(x *ir.Node) *ir.Node { return op.GatherBatched(x, index, 1) }})
	in.choose(d, x)
}

// move copies some rows, from row i32[] on, of the caches of sequence from i32[] to those of sequence to i32[]. So a
// beginning that two texts share is computed once.
func move(c config, root nn.Scope) {
	g := root.Graph
	input := func(name string) *ir.Node { return op.Input(g, name, ir.TypeOf(dtype.I32)) }
	from, to, row := input("from"), input("to"), input("row")
	first := op.Add(op.Mul(from, op.Const(g, float64(c.context), ir.TypeOf(dtype.I32))), row)
	to = op.Reshape(to, ir.ShapeOf(1))
	for cache := range c.caches(root) {
		width := cache.Type.Shape[2].Const
		all := op.Reshape(cache, ir.ShapeOf(c.sequences*c.context, width)) // a slice of all copies only its own rows
		rows := op.Reshape(op.DynamicSlice(all, first, 0, int(c.moveRows())), ir.ShapeOf(1, c.moveRows(), width))
		op.KVAppendTo(cache, rows, row, to, 1)
	}
	g.Return("done", op.Const(g, 0, ir.TypeOf(dtype.I32)))
}
