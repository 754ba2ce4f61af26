package llm

import (
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/task"
)

const (
	keyBatch     = "batch"
	keyCache     = "cache"
	maxSequences = 64 // of extend_batch
	// maxMove bounds the rows that move copies, so that a short text is copied quickly.
	maxMove = 128
	// pageRows is the number of rows of a page. The kernels of cpu read this many keys at a time, and those of GPUs
	// divide keys for few queries into multiples of it.
	pageRows = 64
)

func init() {
	keys[keyCache] = "tokens that the caches of all sequences hold together, in pages that sequences share (default: each sequence has a place for as many as fit its context)"
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

// readCache reads how many tokens the caches hold, if these are in pages.
func (c *config) readCache(r *reader) {
	tokens := r.int(keyCache, 1, maxSequences*maxSize, 0)
	if tokens == 0 {
		return
	}
	refuse := func(format string, args ...any) {
		r.fail(diag.New(arch.ErrConfig, r.Origin(keyCache), format, args...))
	}
	switch most := min(c.sequences*c.context, (task.MaxPages-1)*pageRows); {
	case c.sequences == 1:
		refuse("%s is %d with one sequence; pages are for the caches of several (%s)", keyCache, tokens, keyBatch)
	case c.kept() > 0:
		refuse("%s is %d; the caches of models whose layers all have a sliding window, are not in pages", keyCache, tokens)
	case c.vision != nil:
		refuse("%s is %d; the caches of models that take images are not in pages", keyCache, tokens)
	case tokens < c.context || tokens > most:
		refuse("%s is %d; allowed are %d, one whole context, to %d, one for each sequence", keyCache, tokens, c.context,
			most)
	}
	c.pages = 1 + (tokens+pageRows-1)/pageRows // the first one belongs to no sequence
}

// perSequence returns the number of pages that hold the context of a sequence.
func (c config) perSequence() int64 { return (c.context + pageRows - 1) / pageRows }

// inPages makes d keep keys and values in pages: row i of a sequence is row i % pageRows of page table[i / pageRows],
// where table i32[B,P] has a row for each sequence.
func (d *decoder) inPages(table *ir.Node) {
	g, n := table.Graph, table.Type.Shape[0]
	tokens, one := ir.Named("T"), ir.Static(1)
	rows := op.Const(g, pageRows, ir.TypeOf(dtype.I32))
	next := op.Iota(g, 1, ir.Type{DType: dtype.I32, Shape: ir.Shape{one, tokens}})
	at := op.Add(op.Reshape(d.row, ir.Shape{n, one}), next)
	all, ok := n.Mul(tokens)
	if !ok {
		panic("BUG: llm: B*T is no size")
	}
	flat := func(x *ir.Node) *ir.Node { return op.Reshape(x, ir.Shape{all}) }
	d.table, d.rowInPage = table, flat(op.Mod(at, rows))
	d.page = flat(op.GatherBatched(table, op.Div(at, rows), 1))
}

// firstPages is the table of a sequence that has the first pages to itself, for methods that continue only one.
func (c config) firstPages(g *ir.Graph) *ir.Node {
	return op.Iota(g, 1, ir.TypeOf(dtype.I32, 1, c.perSequence()))
}

// batchSyms returns the symbols of extend_batch. B is a symbol, so a run computes only the sequences that it is given.
func (c config) batchSyms() ir.Syms {
	return append(ir.Syms{{Name: "B", Min: 1, Max: c.sequences}}, c.extendSyms()...)
}

func (c config) moveRows() int64 { return min(c.context, maxMove) }

// extendBatch builds extend for B sequences of the states, whose numbers are sequence i32[B], or whose pages are in
// pages i32[B,P], each with its own length
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
	if c.pages > 0 {
		d.inPages(op.Input(g, "pages", ir.Type{DType: dtype.I32, Shape: ir.Shape{n, ir.Static(c.perSequence())}}))
	} else {
		d.sequence = op.Input(g, "sequence", ir.Type{DType: dtype.I32, Shape: ir.Shape{n}})
	}
	last := op.Sub(count, op.Const(g, 1, ir.TypeOf(dtype.I32)))
	index := op.Reshape(last, ir.Shape{n, ir.Static(1)})
	_, x := d.decode(d.embed(in.ids), &token{last, func(x *ir.Node) *ir.Node { return op.GatherBatched(x, index, 1) }})
	in.choose(d, x)
}

// move copies some rows, from row i32[] on, of the caches of sequence from i32[] to those of sequence to i32[]. So a
// beginning that two texts share is computed once. With pages, it copies page from to page to.
func move(c config, root nn.Scope) {
	g := root.Graph
	input := func(name string) *ir.Node { return op.Input(g, name, ir.TypeOf(dtype.I32)) }
	from, to := input("from"), input("to")
	if c.pages > 0 {
		zero := op.Const(g, 0, ir.TypeOf(dtype.I32))
		for cache := range c.caches(root) {
			op.KVAppendTo(cache, op.DynamicSlice(cache, from, 0, 1), zero, op.Reshape(to, ir.ShapeOf(1)), 1)
		}
		g.Return("done", zero)
		return
	}
	row := input("row")
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
