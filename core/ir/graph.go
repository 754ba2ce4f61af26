// Package ir is the intermediate representation: typed, immutable nodes in a graph whose order is a topological order.
// The same graph carries block-level IR (HIR), tensor IR (MIR) and the ops that a target runs; OpDef.Block marks the first.
//
// It imports core/dtype and core/tensor only, and knows no op.
package ir

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/tensor"
)

// Node is one operation and its result. Nodes are made by Graph.Add and not changed afterwards, except that a graph may
// renumber them. An op with several results takes several nodes: see tuple.go.
type Node struct {
	ID    int    // index in Graph.Nodes
	Name  string // unique in the graph; empty: printed as %ID. Inputs and params are found by it
	Op    *OpDef
	Attrs any // of the op's attribute type
	In    []*Node
	Type  Type // of the value; the zero Type where Results is set
	Graph *Graph

	Results []Type // of a tuple node, the node of an op with several results; nil for all others
}

// Output is a named result of a graph.
type Output struct {
	Name string
	Node *Node
}

// Graph is one method of a model. Nodes only refer to earlier nodes.
type Graph struct {
	Name    string // of the method
	Syms    Syms
	Nodes   []*Node
	Outputs []Output

	err      error
	building bool // in Build: an error ends the builder
	exact    bool // in Parse: nodes are taken as they are written, see infer
}

// NewGraph makes an empty graph.
func NewGraph(name string, syms ...Sym) *Graph { return &Graph{Name: name, Syms: syms} }

// Err is the first error that Add or AddDeclared met. Builders check it once, at the end.
func (g *Graph) Err() error { return g.err }

// Fail records an error found by a builder. Inside Build it does not return.
func (g *Graph) Fail(err error) {
	if g.err == nil {
		g.err = err
	}
	if g.building {
		panic(stop{g})
	}
}

// stop is the panic that ends the innermost Build of a graph.
type stop struct{ g *Graph }

// Build runs a builder and returns the graph's first error. The builder ends there: inside Build every node has a type,
// so that code which computes with the shapes of what it has just added needs no checks.
func (g *Graph) Build(f func()) (err error) {
	outer := g.building
	g.building = true
	defer func() {
		g.building = outer
		if r := recover(); r != nil && r != any(stop{g}) {
			panic(r)
		}
		err = g.err
	}()
	if g.err == nil {
		f()
	}
	return g.err
}

// Add appends an op whose type is inferred. After an error (see Err) it returns a node of the invalid type, so that
// builders need no checks in between; a builder that looks at shapes runs in Build.
func (g *Graph) Add(def *OpDef, attrs any, in ...*Node) *Node {
	return g.AddDeclared(def, attrs, Type{}, in...)
}

// AddDeclared appends an op whose type is written rather than inferred (OpDef.Declared).
func (g *Graph) AddDeclared(def *OpDef, attrs any, t Type, in ...*Node) *Node {
	n := &Node{ID: len(g.Nodes), Op: def, Attrs: attrs, In: in, Graph: g}
	err := g.err
	if err == nil && def.Tuple {
		err = fmt.Errorf("%s: has several results; AddResults adds it", def.Name)
	}
	if err == nil {
		err = g.checkOperands(n)
	}
	if err == nil {
		err = g.infer(n, t)
	}
	if err != nil {
		g.Fail(err)
		return n
	}
	g.Nodes = append(g.Nodes, n)
	return n
}

func (g *Graph) checkOperands(n *Node) error {
	for i, x := range n.In {
		if x == nil || x.Graph != g || x.ID >= len(g.Nodes) || g.Nodes[x.ID] != x {
			return fmt.Errorf("%s: operand %d is not a node of this graph", n.Op.Name, i)
		}
	}
	return nil
}

// Named sets the name of n, which must pass CheckName, and returns it.
func (n *Node) Named(name string) *Node {
	n.Name = name
	return n
}

// Label is how text refers to the node, or to the results of a tuple node.
func (n *Node) Label() string {
	if n.Name != "" {
		return n.Name
	}
	if n.Op.Tuple {
		return n.tupleLabel()
	}
	return fmt.Sprintf("%%%d", n.ID)
}

// InTypes are the operands' types.
func (n *Node) InTypes() []Type {
	t := make([]Type, len(n.In))
	for i, x := range n.In {
		t[i] = x.Type
	}
	return t
}

// EvalMemory is the memory for evaluating the node by its definition, in bytes at the upper bounds of the symbols: arrays for operands
// and results as tensor.Array, own is an upper bound of what Eval allocates beside them.
func (n *Node) EvalMemory() (arrays, own int64) {
	in, out, syms := n.InTypes(), n.ResultTypes(), n.Graph.Syms
	for _, t := range slices.Concat(in, out) {
		arrays += tensor.ArrayBytes(t.DType, syms.MaxElems(t))
	}
	return arrays, n.Op.memory(n.Attrs, in, syms, out)
}

// Is reports whether the node's op is one of defs.
func (n *Node) Is(defs ...*OpDef) bool {
	for _, d := range defs {
		if n.Op == d {
			return true
		}
	}
	return false
}

// View reports whether the node's value is simply bytes of its operand 0, and at which offset in bytes.
func (n *Node) View() (offset int64, ok bool) {
	if n.Op.view == nil || len(n.In) == 0 {
		return 0, false
	}
	return n.Op.view(n.Attrs, n.In[0].Type, n.Type)
}

// Source is the node whose value n shows: n itself, unless it is a view.
func (n *Node) Source() *Node {
	for {
		if _, view := n.View(); !view {
			return n
		}
		n = n.In[0]
	}
}

// Return adds a named output.
func (g *Graph) Return(name string, n *Node) { g.Outputs = append(g.Outputs, Output{name, n}) }

// Inputs lists the nodes of op "input" in order. The op is defined in core/op; the name is part of the contract.
func (g *Graph) Inputs() []*Node { return g.ofOp("input") }

// Params lists the nodes of op "param" in order.
func (g *Graph) Params() []*Node { return g.ofOp("param") }

func (g *Graph) ofOp(name string) []*Node {
	var out []*Node
	for _, n := range g.Nodes {
		if n.Op.Name == name {
			out = append(out, n)
		}
	}
	return out
}

// Find returns the node of that name.
func (g *Graph) Find(name string) (*Node, bool) {
	for _, n := range g.Nodes {
		if n.Name == name && name != "" {
			return n, true
		}
	}
	return nil, false
}

// UseCounts counts, for each node, its uses as an operand and as an output.
func (g *Graph) UseCounts() []int {
	c := make([]int, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, x := range n.In {
			c[x.ID]++
		}
	}
	for _, o := range g.Outputs {
		c[o.Node.ID]++
	}
	return c
}

// Rebuild makes a new graph by visiting g's nodes in order. For each node, f gets the new graph, the old node and the
// new nodes of its operands, and returns its replacement in the new graph; nil copies it. lookup returns the replacement of an old
// node. A replacement without a name gets the name of the old node. Nodes that no output needs
// are dropped afterwards, except inputs and updates of states, so the result is compact and in topological order.
//
// Tuple nodes are copied without calling f. It is called for those of their selectors that have readers. The copy is dropped if f
// replaces all of these.
func (g *Graph) Rebuild(f func(out *Graph, n *Node, in []*Node, lookup func(*Node) *Node) *Node) (*Graph, error) {
	out := &Graph{Name: g.Name, Syms: g.Syms}
	to := make([]*Node, len(g.Nodes))
	copies := map[int]*Node{} // of selectors, made with their tuple node
	uses := g.UseCounts()
	lookup := func(n *Node) *Node { return to[n.ID] }
	for _, n := range g.Nodes {
		in := make([]*Node, len(n.In))
		for i, x := range n.In {
			in[i] = to[x.ID]
		}
		if n.Op.Tuple {
			for k, v := range out.AddResults(len(n.Results), n.Op, n.Attrs, in...) {
				to[n.ID], copies[n.ID+1+k] = v.In[0], v
			}
			if out.err != nil {
				return nil, fmt.Errorf("%s: %w", n.Label(), out.err)
			}
			continue
		}
		var r *Node
		if err := out.Build(func() {
			if f != nil && (n.Op != ResultDef || uses[n.ID] > 0) {
				r = f(out, n, in, lookup)
			}
			if r == nil {
				r = copies[n.ID]
			}
			if r == nil {
				r = out.AddDeclared(n.Op, n.Attrs, n.Type, in...)
			}
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Label(), err)
		}
		if r.Name == "" {
			r.Name = n.Name
		}
		to[n.ID] = r
	}
	for _, o := range g.Outputs {
		out.Return(o.Name, to[o.Node.ID])
	}
	out.compact()
	return out, nil
}

// compact drops nodes that neither an output nor an update of a state needs (inputs stay: they are the signature) and renumbers.
func (g *Graph) compact() {
	live := make([]bool, len(g.Nodes))
	for i, n := range g.Nodes {
		live[i] = n.Op.Updates
	}
	for _, o := range g.Outputs {
		live[o.Node.ID] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if n := g.Nodes[i]; live[i] {
			for _, x := range n.In {
				live[x.ID] = true
			}
			for k := range n.Results { // a tuple node keeps all of its selectors
				live[i+1+k] = true
			}
		}
	}
	kept := g.Nodes[:0]
	for i, n := range g.Nodes {
		if live[i] || n.Op.Name == "input" {
			n.ID = len(kept)
			kept = append(kept, n)
		}
	}
	g.Nodes = kept
}

// WithOptional is the operands of an op whose last one, which may be nil, can be left out.
func WithOptional(last *Node, in ...*Node) []*Node {
	if last != nil {
		in = append(in, last)
	}
	return in
}
