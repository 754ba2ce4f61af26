// Package ir defines the intermediate representation: a graph of typed, immutable nodes in topological order. Graphs
// have block-level ops (HIR), tensor ops (MIR) and the ops that a target runs. OpDef.Block marks block-level ops.
//
// The package imports only core/dtype and core/tensor, and knows no op.
package ir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/tensor"
)

// Node is one operation and its result. Graph.Add makes nodes. They are not changed afterwards, except that a graph may
// renumber them. An op with several results takes several nodes; see tuple.go.
type Node struct {
	ID    int    // index in Graph.Nodes
	Name  string // unique in the graph, or empty; inputs and params are found by it
	Op    *OpDef
	Attrs any // a value of the op's attribute type
	// an entry for each operand that the op declares, in order; nil for an absent optional operand
	In    []*Node
	Type  Type // type of the value; the zero Type if Results is set
	Graph *Graph

	Results []Type // types of the results, if the op has several (a tuple node); otherwise nil
}

// Output is a named result of a graph.
type Output struct {
	Name string
	Node *Node
}

// Graph is one method of a model. A node refers only to earlier nodes.
type Graph struct {
	Name    string // name of the method
	Syms    Syms
	Nodes   []*Node
	Outputs []Output

	params   map[string]*Node // that Inline has found or added, by name
	err      error
	building bool // set during Build; an error then ends the builder
	exact    bool // set during Parse; nodes are taken as written, see infer
}

// NewGraph returns an empty graph.
func NewGraph(name string, syms ...Sym) *Graph { return &Graph{Name: name, Syms: syms} }

// Err returns the first error of Add or AddDeclared. Builders need to check it only once, at the end.
func (g *Graph) Err() error { return g.err }

// Fail records an error that a builder found. During Build it does not return.
func (g *Graph) Fail(err error) {
	if g.err == nil {
		g.err = err
	}
	if g.building {
		panic(stop{g})
	}
}

// stop is the panic value that ends the innermost Build of a graph.
type stop struct{ g *Graph }

// Build calls a builder and returns the graph's first error. The first error ends the builder. So during Build every
// node has a type, and code that computes with the shapes of new nodes needs no checks.
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

// Add appends an op and infers its type. After an error (see Err) it returns a node of the invalid type, so that
// builders need not check each node. A builder that uses shapes must run in Build. In the list in, nil stands for an
// absent optional operand; absent operands at the end may be left out.
func (g *Graph) Add(def *OpDef, attrs any, in ...*Node) *Node {
	return g.AddDeclared(def, attrs, Type{}, in...)
}

// AddDeclared appends an op whose type is declared instead of inferred; see OpDef.Declared.
func (g *Graph) AddDeclared(def *OpDef, attrs any, t Type, in ...*Node) *Node {
	n := &Node{ID: len(g.Nodes), Op: def, Attrs: attrs, In: padded(def, in), Graph: g}
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
	if err := n.Op.CheckOperands(len(n.In), func(k int) bool { return n.In[k] != nil }); err != nil {
		return fmt.Errorf("%s: %w", n.OpName(), err)
	}
	for k, x := range n.Operands() {
		if x.Graph != g || x.ID >= len(g.Nodes) || g.Nodes[x.ID] != x {
			return fmt.Errorf("%s: operand %s is not a node of this graph", n.OpName(), n.Op.OperandName(k))
		}
	}
	return nil
}

// Named sets the name of n, which must pass CheckName, and returns it.
func (n *Node) Named(name string) *Node {
	n.Name = name
	return n
}

// OpName returns the name of the node's op for messages. For a custom op it is the name in the op's definition.
func (n *Node) OpName() string { return n.Op.opName(n.Attrs) }

// opName returns the name, for messages, of an op with attributes a.
func (d *OpDef) opName(a any) string {
	if d.called != nil {
		return d.called(a)
	}
	return d.Name
}

// Label returns the text that refers to the node, or to all results of a tuple node.
func (n *Node) Label() string {
	if n.Name != "" {
		return n.Name
	}
	if n.Op.Tuple {
		return n.tupleLabel()
	}
	return fmt.Sprintf("%%%d", n.ID)
}

// EvalMemory returns the memory that evaluating the node by its definition takes, in bytes, with the symbols at their
// upper bounds. arrays is the memory for operands and results as tensor.Array. own is an upper bound of what Eval
// allocates in addition.
func (n *Node) EvalMemory() (arrays, own int64) {
	in, out, syms := n.InTypes(), n.ResultTypes(), n.Graph.Syms
	for _, t := range n.Types() {
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

// View reports whether the node's value is a range of the bytes of operand 0, and the offset of that range in bytes.
func (n *Node) View() (offset int64, ok bool) {
	if n.Op.view == nil || len(n.In) == 0 {
		return 0, false
	}
	return n.Op.view(n.Attrs, n.In[0].Type, n.Type)
}

// Source returns the node whose value n views: n itself, unless n is a view.
func (n *Node) Source() *Node {
	for {
		if _, view := n.View(); !view {
			return n
		}
		n = n.In[0]
	}
}

// IsWhole reports whether n covers all of its source, for all values of the symbols.
func (n *Node) IsWhole() bool {
	src, have := n.Source(), n.Type.Shape
	for m := n; m != src; m = m.In[0] {
		if off, _ := m.View(); off != 0 {
			return false
		}
	}
	a, ok := have.Numel()
	b, ok2 := src.Type.Shape.Numel()
	return n.Type.DType.Size() == src.Type.DType.Size() && (ok && ok2 && a == b || have.Equal(src.Type.Shape))
}

// Return adds a named output.
func (g *Graph) Return(name string, n *Node) { g.Outputs = append(g.Outputs, Output{name, n}) }

// Inputs returns the nodes of op "input" in order. The op is defined in core/op; its name is fixed.
func (g *Graph) Inputs() []*Node { return g.ofOp("input") }

// Params returns the nodes of op "param" in order.
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
		for _, x := range n.Operands() {
			c[x.ID]++
		}
	}
	for _, o := range g.Outputs {
		c[o.Node.ID]++
	}
	return c
}

// Rebuild makes a new graph. It visits g's nodes in order and calls f with the new graph, the old node and the new
// nodes of its operands. f returns the replacement of the node in the new graph, or nil to copy the node. lookup
// returns the replacement of an old node. A replacement without a name gets the name of the old node. Afterwards
// Rebuild drops nodes that no output needs, except inputs and updates of states.
//
// Tuple nodes are copied without calling f. f is called for each of their result nodes that has readers, or is the new
// value of a state. If f replaces all of these, the copy is dropped.
func (g *Graph) Rebuild(f func(out *Graph, n *Node, in []*Node, lookup func(*Node) *Node) *Node) (*Graph, error) {
	out := &Graph{Name: g.Name, Syms: g.Syms}
	to := make([]*Node, len(g.Nodes))
	copies := map[int]*Node{} // copies of result nodes, by ID of the old node
	kept := map[*Node]bool{}  // copies of tuple nodes with a result that is not replaced
	uses := g.UseCounts()
	lookup := func(n *Node) *Node { return to[n.ID] }
	for _, n := range g.Nodes {
		in := n.MapIn(lookup)
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
			if f != nil && (n.Op != ResultDef || uses[n.ID] > 0 || n.Updated() != nil) {
				r = f(out, n, in, lookup)
			}
			if r == nil {
				r = copies[n.ID]
			}
			if r == nil && n.Op.Name == "param" && out.params[n.Name] != nil { // Inline may have added it
				r = out.paramLike(n)
			}
			if r == nil {
				r = out.addCopy(n, in)
			}
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Label(), err)
		}
		if r.Name == "" {
			r.Name = n.Name
		}
		to[n.ID] = r
		if n.Op == ResultDef && r == copies[n.ID] {
			kept[r.In[0]] = true
		}
	}
	for _, o := range g.Outputs {
		out.Return(o.Name, to[o.Node.ID])
	}
	out.compact(func(n *Node) bool { return n.Op.Updates && (!n.Op.Tuple || kept[n]) })
	return out, nil
}

// addCopy appends a copy of n, a node of a graph with the same symbols, with the operands in. Its type is inferred only
// if an operand has another type than in n's graph, because the same operands give the same type.
func (g *Graph) addCopy(n *Node, in []*Node) *Node {
	same := len(in) == len(n.In)
	for k := 0; k < len(in) && same; k++ {
		same = (in[k] == nil) == (n.In[k] == nil) && (in[k] == nil || in[k].Type.Equal(n.In[k].Type))
	}
	if !same || g.err != nil {
		return g.AddDeclared(n.Op, n.Attrs, n.Type, in...)
	}
	c := &Node{ID: len(g.Nodes), Op: n.Op, Attrs: n.Attrs, In: in, Type: n.Type, Graph: g}
	if err := g.checkOperands(c); err != nil {
		g.Fail(err)
		return c
	}
	g.Nodes = append(g.Nodes, c)
	return c
}

// compact drops nodes that neither an output nor a node that updates states needs, and renumbers the rest. It keeps
// inputs, because they belong to the signature.
func (g *Graph) compact(updates func(n *Node) bool) {
	live := make([]bool, len(g.Nodes))
	for i, n := range g.Nodes {
		live[i] = updates(n)
	}
	for _, o := range g.Outputs {
		live[o.Node.ID] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if n := g.Nodes[i]; live[i] {
			for _, x := range n.Operands() {
				live[x.ID] = true
			}
			for k := range n.Results { // a tuple node keeps all of its result nodes
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
