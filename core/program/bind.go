package program

import (
	"iter"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Operand is a value with a concrete shape and place.
type Operand struct {
	Node   int
	DType  dtype.DType
	Shape  []int
	Space  Space
	Offset int64 // in bytes, in Space
	Bytes  int64 // size of the value, not of its place
}

// BoundStep is a step with the shapes of one run.
type BoundStep struct {
	Node *ir.Node
	In   []Operand // as Node.In; an absent operand is zero
	Outs []Operand // one, unless the op has several results
	Syms map[string]int64
}

// Operands returns the operands that the step has, with their indices in In.
func (s BoundStep) Operands() iter.Seq2[int, Operand] {
	return func(yield func(int, Operand) bool) {
		for k := range s.Node.Operands() {
			if !yield(k, s.In[k]) {
				return
			}
		}
	}
}

// Bound is a program with the shapes of one run.
type Bound struct {
	Steps   []BoundStep
	Inputs  []Operand // in the order of Graph.Inputs()
	Outputs []Operand // in the order of Graph.Outputs
}

// Bind evaluates all shapes for the given values of the symbols. To bind a program repeatedly, use a Binder.
func (p *Program) Bind(syms map[string]int64) (*Bound, error) { return NewBinder(p).Bind(syms) }

// A Binder evaluates the shapes of a program. It computes what does not depend on symbols once, so a run with new sizes
// costs little more than a run with the same sizes. The program must not change afterwards.
type Binder struct {
	p        *Program
	requires []ir.Requirement
	dims     []ir.Dim  // the distinct dims that have a symbol
	values   []Operand // by node; those in sized have no Shape and Bytes yet
	sized    []sized
	ranks    int // sum of the ranks of the values in sized
}

// sized is a value whose shape depends on symbols. Each of its dims is a number, or ^k for Binder.dims[k].
type sized struct {
	node int
	dims []int
}

// Values holds the value of each node for given values of the symbols.
type Values struct {
	Operands []Operand
	shapes   []int // backing array of the shapes that depend on symbols
}

// NewBinder returns a Binder for p.
func NewBinder(p *Program) *Binder {
	g := p.Graph
	b := &Binder{p: p, requires: g.Requires(), values: make([]Operand, len(g.Nodes))}
	index := map[ir.Dim]int{}
	for i, n := range g.Nodes {
		at, t := p.Places[i], n.Type
		b.values[i] = Operand{Node: i, DType: t.DType, Space: at.Space, Offset: at.Offset}
		if t.Shape.IsStatic() {
			b.values[i].Shape, b.values[i].Bytes = t.Shape.Eval(nil), t.Bytes(nil)
			continue
		}
		dims := make([]int, len(t.Shape))
		for k, d := range t.Shape {
			if d.IsStatic() {
				dims[k] = int(d.Const)
				continue
			}
			j, ok := index[d]
			if !ok {
				j = len(b.dims)
				index[d], b.dims = j, append(b.dims, d)
			}
			dims[k] = ^j
		}
		b.sized = append(b.sized, sized{i, dims})
		b.ranks += len(dims)
	}
	return b
}

// Check returns an error if the program does not allow these values of its symbols.
func (b *Binder) Check(syms map[string]int64) error {
	if err := b.p.Graph.Syms.Check(syms); err != nil {
		return err
	}
	for _, r := range b.requires {
		if err := r.Check(syms); err != nil {
			return err
		}
	}
	return nil
}

// Values evaluates the shapes of all values. syms must have passed Check. If old is not nil, Values reuses its memory,
// so old must not be in use any more.
func (b *Binder) Values(syms map[string]int64, old *Values) *Values {
	sizes := make([]int, len(b.dims))
	for i, d := range b.dims {
		sizes[i] = int(d.Eval(syms))
	}
	if old == nil {
		old = &Values{slices.Clone(b.values), make([]int, b.ranks)}
	}
	shapes := old.shapes
	for i := range b.sized {
		s := &b.sized[i]
		n := len(s.dims)
		shape := shapes[:n:n]
		shapes = shapes[n:]
		v := &old.Operands[s.node]
		bytes := int64(v.DType.Size())
		for k, d := range s.dims {
			if d < 0 {
				d = sizes[^d]
			}
			shape[k] = d
			bytes *= int64(d)
		}
		v.Shape, v.Bytes = shape, bytes
	}
	return old
}

// IO evaluates only the shapes of inputs and outputs. syms must have passed Check.
func (b *Binder) IO(syms map[string]int64) (inputs, outputs []Operand) {
	for _, n := range b.p.Graph.Inputs() {
		inputs = append(inputs, b.value(n, syms))
	}
	return inputs, b.Outputs(syms)
}

// Outputs evaluates only the shapes of outputs. syms must have passed Check.
func (b *Binder) Outputs(syms map[string]int64) []Operand {
	outputs := make([]Operand, len(b.p.Graph.Outputs))
	for i, o := range b.p.Graph.Outputs {
		outputs[i] = b.value(o.Node, syms)
	}
	return outputs
}

// value returns a value with a shape that the caller may keep.
func (b *Binder) value(n *ir.Node, syms map[string]int64) Operand {
	v := b.values[n.ID]
	v.Shape, v.Bytes = n.Type.Shape.Eval(syms), n.Type.Bytes(syms)
	return v
}

// Bind checks the values of the symbols, evaluates all shapes, and returns the operands of each step.
func (b *Binder) Bind(syms map[string]int64) (*Bound, error) {
	if err := b.Check(syms); err != nil {
		return nil, err
	}
	g, values := b.p.Graph, b.Values(syms, nil).Operands
	out := &Bound{Steps: make([]BoundStep, len(b.p.Steps))}
	for i, s := range b.p.Steps {
		n := g.Nodes[s.Node]
		in := make([]Operand, len(n.In))
		for k, x := range n.Operands() {
			in[k] = values[x.ID]
		}
		outs := n.Values() // the nodes of several results are consecutive
		first, end := outs[0].ID, outs[0].ID+len(outs)
		out.Steps[i] = BoundStep{n, in, values[first:end:end], syms}
	}
	for _, n := range g.Inputs() {
		out.Inputs = append(out.Inputs, values[n.ID])
	}
	for _, o := range g.Outputs {
		out.Outputs = append(out.Outputs, values[o.Node.ID])
	}
	return out, nil
}

// recentSizes is how many sizes Recent remembers. It suits callers that alternate between some sizes, such as a server
// whose runs have as many rows as there are clients, and limits the memory that large programs need for each.
const recentSizes = 32

// Recent remembers a value for each of the last few sizes of runs.
type Recent[T any] struct{ entries []recent[T] } // most recently used first

type recent[T any] struct {
	syms  map[string]int64
	value T
}

// Get returns the value for the given sizes.
func (r *Recent[T]) Get(syms map[string]int64) (v T, ok bool) {
	for i, e := range r.entries {
		if maps.Equal(e.syms, syms) {
			copy(r.entries[1:i+1], r.entries[:i])
			r.entries[0] = e
			return e.value, true
		}
	}
	return v, false
}

// Put sets the value for the given sizes.
func (r *Recent[T]) Put(syms map[string]int64, v T) {
	if _, ok := r.Get(syms); ok {
		r.entries[0].value = v
		return
	}
	r.entries = r.entries[:min(len(r.entries), recentSizes-1)] // drop the least recently used one
	r.entries = slices.Insert(r.entries, 0, recent[T]{maps.Clone(syms), v})
}
