package values

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// IsLoop reports whether the step is a loop. The iteration that is wrong is found by two artifacts: WriteTrace's
// returns what the loop computes in each iteration, Iteration finds the first wrong one, and WriteIteration's shows its
// steps.
func (w *Wrong) IsLoop() bool { return w.step.Node.Op.Nested }

// maxTrace bounds the values of all iterations, in bytes.
const maxTrace = 64 << 20

// loop returns the loop's attributes for the sizes of the run, with all values that its first iterations compute as
// results.
func (w *Wrong) loop() (a op.LoopAttrs, carried []tensor.Tensor, err error) {
	a = w.step.Node.Attrs.(op.LoopAttrs)
	bytes := int64(1)
	for _, t := range w.operands[:a.Carried] {
		bytes += int64(len(t.Data))
	}
	a.Length = int(min(int64(a.Length), max(1, maxTrace/bytes)))
	a.Results = nil
	for k := range a.Carried {
		a.Results = append(a.Results, a.Carried+k)
	}
	types := w.inputTypes(a)
	if a.Body, err = bind(a.Body, types); err == nil && a.Cond != nil {
		a.Cond, err = bind(a.Cond, types[:len(types)-a.Steps])
	}
	return a, w.operands[:a.Carried], err
}

// bind returns a graph for inputs of the given types.
func bind(g *ir.Graph, types []ir.Type) (*ir.Graph, error) {
	if len(g.Syms) == 0 {
		return g, nil
	}
	return g.Bind(types, nil)
}

// inputTypes returns the types of the inputs of the loop's body.
func (w *Wrong) inputTypes(a op.LoopAttrs) (types []ir.Type) {
	in := w.step.Node.In
	if a.Guarded {
		in = in[:len(in)-1]
	}
	for k, n := range in {
		t := n.Type.At(w.sizes)
		if k >= len(in)-a.Steps {
			t.Shape = t.Shape[1:]
		}
		types = append(types, t)
	}
	return types
}

// WriteTrace writes an artifact with the loop. Its outputs are the loop's values after each iteration, for as many
// iterations as have room. Its operands are weights, as in WriteCase.
func (w *Wrong) WriteTrace(ctx context.Context, path string, p *Plan, meta format.Meta) error {
	x := p.Split.Segments[w.segment]
	c := &cut{g: ir.NewGraph(x.Method), w: w, made: map[*ir.Node]*ir.Node{}}
	a, _, err := w.loop()
	if err != nil {
		return w.uncut(err)
	}
	err = c.g.Build(func() {
		n := w.step.Node
		in := make([]*ir.Node, len(n.In))
		first := len(n.In) - a.Steps // operand with a slice for each iteration
		if a.Guarded {
			first--
		}
		for k, o := range n.Operands() {
			t := o.Type.At(w.sizes)
			if k >= first && k < first+a.Steps {
				t.Shape = append(ir.ShapeOf(int64(a.Length)), t.Shape[1:]...)
				in[k] = op.Copy(c.weight(k, t))
				continue
			}
			in[k] = c.operand(k, o)
		}
		for k, y := range c.g.AddResults(len(a.Results), n.Op, a, in...) {
			c.g.Return(fmt.Sprint("y", k), y)
		}
	})
	if err != nil {
		return w.uncut(err)
	}
	return c.write(ctx, path, p, meta)
}

func (w *Wrong) uncut(err error) error {
	return diag.New(code.Differs, w.label, "cannot be cut out: %w", err)
}

// An Iteration is an iteration that is wrong by itself: the reference computes other values from the values that the
// backend had before it.
type Iteration struct {
	Number int // from 0

	inputs []tensor.Tensor // of the body
	attrs  op.LoopAttrs
	w      *Wrong
}

// Iteration finds the first wrong iteration. rows are the outputs of WriteTrace's artifact. It returns nil if no
// iteration is wrong, or if the loop has too much work for the reference.
func (w *Wrong) Iteration(ctx context.Context, p *Plan, rows []tensor.Tensor, scale float64) (*Iteration, error) {
	a, now, err := w.loop()
	if err != nil {
		return nil, err
	}
	var it *Iteration
	err = ctxio.Run(ctx, "reference", func() error {
		var err error
		it, err = w.iteration(ctx, p, a, now, rows, scale)
		return err
	})
	if err == ErrWork {
		return nil, nil
	}
	return it, err
}

func (w *Wrong) iteration(ctx context.Context, p *Plan, a op.LoopAttrs, now, rows []tensor.Tensor,
	scale float64) (*Iteration, error) {
	e := evaluator{params: p.params(w.segment), visit: func(*Inner) error { return nil }, work: maxWork}
	rest := w.operands[a.Carried:]
	if a.Guarded {
		last := len(rest) - 1
		if rest[last].Data[0] == 0 {
			return nil, nil
		}
		rest = rest[:last]
	}
	fixed := rest[:len(rest)-a.Steps]
	one := a
	one.Length, one.Results = 1, nil
	var types []ir.Type
	for k, t := range now {
		one.Results, types = append(one.Results, k), append(types, interp.TypeOf(t.Array()))
	}
	tols := w.step.Node.Op.Tol(one, nil, types...)
	for t := range a.Length {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		in := slices.Concat(now, fixed)
		goes := true
		if a.Cond != nil {
			c, err := e.graph(a.Cond, arrays(in), nil)
			if err != nil {
				return nil, err
			}
			goes = c[0].At(0) != 0
		}
		for _, x := range rest[len(fixed):] {
			in = append(in, row(x, t))
		}
		next := make([]tensor.Tensor, len(now))
		for k := range rows {
			next[k] = row(rows[k], t)
		}
		it := &Iteration{Number: t, inputs: in, attrs: a, w: w}
		if !goes { // the rows from here on are 0
			for _, x := range next {
				if slices.ContainsFunc(x.Data, func(b byte) bool { return b != 0 }) {
					return it, nil
				}
			}
			return nil, nil
		}
		want, err := e.graph(a.Body, arrays(in), nil)
		if err != nil {
			return nil, err
		}
		for k := range next {
			d, err := Compare(next[k].Array(), want[k], tols[k], scale)
			if err != nil || d.Bad > 0 {
				return it, err
			}
		}
		now = next
	}
	return nil, nil
}

// arrays returns values in the form of the reference.
func arrays(list []tensor.Tensor) (out []*tensor.Array) {
	for _, t := range list {
		out = append(out, t.Array())
	}
	return out
}

// row returns x[i].
func row(x tensor.Tensor, i int) tensor.Tensor {
	n := len(x.Data) / max(x.Shape[0], 1)
	return tensor.Tensor{DType: x.DType, Shape: x.Shape[1:], Data: aligned(x.Data[i*n:][:n])}
}

// WriteIteration writes an artifact with the graphs of the loop as methods, the condition first. Their inputs, as they
// were in the iteration, are weights.
func (i *Iteration) WriteIteration(ctx context.Context, path string, p *Plan, meta format.Meta) error {
	target := p.Split.Segments[i.w.segment].Target
	inner := *i.w
	inner.operands = i.inputs
	var cuts []*cut
	for _, b := range []*ir.Graph{i.attrs.Cond, i.attrs.Body} {
		if b == nil {
			continue
		}
		c := &cut{g: ir.NewGraph(b.Name), w: &inner, made: map[*ir.Node]*ir.Node{}}
		err := c.g.Build(func() {
			var in []*ir.Node
			for k, x := range b.Inputs() {
				in = append(in, op.Copy(c.weight(k, x.Type)))
			}
			for k, y := range c.g.Inline(b, in, b.Name+".") {
				c.g.Return(fmt.Sprint("y", k), op.Copy(y))
			}
		})
		if err != nil {
			return i.w.uncut(err)
		}
		cuts = append(cuts, c)
	}
	return writeCuts(ctx, path, p, i.w.segment, target, meta, cuts...)
}

// paramWeights returns the weights that a graph and its bodies read, which are those of a segment of p.
func paramWeights(g *ir.Graph, p *Plan, segment int, have map[string]bool) (list []format.Weight, err error) {
	for _, b := range append(g.Bodies(), g) {
		for _, n := range b.Params() {
			if have[n.Name] {
				continue
			}
			have[n.Name] = true
			x, ok := p.Split.Segments[segment].Graph.Find(n.Name)
			if !ok {
				return nil, fmt.Errorf("the program has no weight %q", n.Name)
			}
			t, err := p.Param(segment, x)
			if err != nil {
				return nil, err
			}
			list = append(list, format.Weight{Name: n.Name, Type: n.Type, Write: func(to io.Writer) error {
				_, err := to.Write(t.Data)
				return err
			}})
		}
	}
	return list, nil
}
