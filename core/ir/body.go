package ir

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
)

// A graph may be the value of an attribute. It is then a body of the node, and of every graph that has the node:
//
//	graph double
//	sym N = 1..8
//	x = input : f32[N]
//	y = add x, x : f32[N]
//	return y=y
//
//	graph main
//	sym N = 1..8
//	a = input : f32[N]
//	b = apply a {body=@double} : f32[N]
//	return b=b
//
// The inputs of a body stand for operands of the node, in order; the op says which. Its symbols are those of the graph
// that has the node, and its params are found by name among the weights of the model, like those of any graph. A body
// has no states. Nodes share bodies, so a body is not changed once an attribute refers to it.

// MaxNesting is the largest depth to which bodies may be nested. In a graph of depth 1, no body contains another one. A
// chain of "else if" needs a level for each alternative. MaxNesting bounds the recursion of code that follows bodies,
// above all of the verifier and of the runner of loops. The parser and the verifier limit the size of all bodies
// together; they count a body once for each attribute that refers to it.
const MaxNesting = 16

var graphType = reflect.TypeFor[*Graph]()

// Bodies returns the graphs that the node's attributes refer to, in the order of the attributes' names.
func (n *Node) Bodies() (list []*Graph) {
	for _, f := range n.Op.attrs.fields {
		if f.graph && n.Op.attrs.accepts(n.Attrs) {
			if b := reflect.ValueOf(n.Attrs).Field(f.index).Interface().(*Graph); b != nil {
				list = append(list, b)
			}
		}
	}
	return list
}

// Bodies returns the different graphs that attributes of g's nodes and of their bodies refer to, each after its own
// bodies.
func (g *Graph) Bodies() (list []*Graph) {
	seen := map[*Graph]bool{g: true}
	var visit func(g *Graph)
	visit = func(g *Graph) {
		for _, n := range g.Nodes {
			for _, b := range n.Bodies() {
				if !seen[b] {
					seen[b] = true
					visit(b)
					list = append(list, b)
				}
			}
		}
	}
	visit(g)
	return list
}

// Programs returns the graphs that the node's step runs as programs of their own (see TupleDef.Nested).
func (n *Node) Programs() []*Graph {
	if !n.Op.Nested {
		return nil
	}
	return n.Bodies()
}

// Body returns the graph that the attribute of that name refers to, or nil.
func (n *Node) Body(attr string) *Graph {
	for _, f := range n.Op.attrs.fields {
		if f.graph && f.name == attr && n.Op.attrs.accepts(n.Attrs) {
			return reflect.ValueOf(n.Attrs).Field(f.index).Interface().(*Graph)
		}
	}
	return nil
}

// AttrsWith returns the node's attributes with each graph replaced by the result of replace.
func (n *Node) AttrsWith(replace func(b *Graph) *Graph) any {
	v := reflect.New(n.Op.attrs.typ).Elem()
	v.Set(reflect.ValueOf(n.Attrs))
	for _, f := range n.Op.attrs.fields {
		if !f.graph {
			continue
		}
		if b := v.Field(f.index).Interface().(*Graph); b != nil {
			v.Field(f.index).Set(reflect.ValueOf(replace(b)))
		}
	}
	return v.Interface()
}

// AllParams returns the params of g and of the graphs that its nodes run as programs of their own, one node for each
// name.
func (g *Graph) AllParams() (list []*Node) {
	seen := map[string]bool{}
	var visit func(g *Graph)
	done := map[*Graph]bool{}
	visit = func(g *Graph) {
		if done[g] {
			return
		}
		done[g] = true
		for _, n := range g.Nodes {
			if n.Op.Name == "param" && !seen[n.Name] {
				seen[n.Name] = true
				list = append(list, n)
			}
			for _, b := range n.Programs() {
				visit(b)
			}
		}
	}
	visit(g)
	return list
}

// Nesting returns the depth of g's bodies: 0 if it has none, 1 if these have none, and so on.
func (g *Graph) Nesting() int {
	depth := map[*Graph]int{}
	own := func(g *Graph) (d int) {
		for _, n := range g.Nodes {
			for _, b := range n.Bodies() {
				d = max(d, 1+depth[b])
			}
		}
		return d
	}
	for _, b := range g.Bodies() {
		depth[b] = own(b)
	}
	return own(g)
}

// verifyBodies verifies the bodies of g. In the text form bodies are found by name, so different ones have different
// names.
func (g *Graph) verifyBodies() error {
	texts := map[string]string{}
	for _, b := range g.Bodies() {
		switch text, known := texts[b.Name]; {
		case b.Name == "":
			return fmt.Errorf("a graph that an attribute refers to has no name")
		case b.Name == g.Name:
			return fmt.Errorf("graph %s has a body of the same name", b.Name)
		case known && text != b.text(b.Name):
			return fmt.Errorf("two different graphs that attributes refer to are called %s", b.Name)
		}
		texts[b.Name] = b.text(b.Name)
		if err := b.verify(); err != nil {
			return fmt.Errorf("graph %s: %w", b.Name, err)
		}
		if err := b.checkStateless(); err != nil {
			return fmt.Errorf("graph %s: %w", b.Name, err)
		}
	}
	if d := g.Nesting(); d > MaxNesting {
		return tooDeep(g.Name, d)
	}
	return nil
}

func tooDeep(name string, depth int) error {
	return fmt.Errorf("graph %s nests graphs %d deep; at most %d (branches and bodies of loops count). Put the inner ones "+
		"together, or run the inner loop on its own with its results as inputs", name, depth, MaxNesting)
}

// NameByText names g, a body that the compiler has made: prefix and a hash of g's text. So bodies that differ have
// different names, and equal bodies have the same name.
func (g *Graph) NameByText(prefix string) {
	h := fnv.New32a()
	h.Write([]byte(g.text(prefix)))
	g.Name = fmt.Sprintf("%s.%08x", prefix, h.Sum32())
}

// checkStateless returns an error if g, a body, has a state or updates one. How often a body runs is known only at run
// time, and an update must happen exactly once in each run.
func (g *Graph) checkStateless() error {
	for _, n := range g.Nodes {
		if n.Op == StateDef || n.Op.Updates {
			return fmt.Errorf(
				"%s: op %s has to do with a state, which is not allowed in a graph that an attribute refers to; "+
					"update the state outside, with a value that the graph returns", n.Label(), n.OpName())
		}
	}
	return nil
}

// CheckBody checks that the inputs of a body have the given types, in order, and that its symbols are among syms. It
// returns the types of the body's outputs. attr is the name of the attribute, for errors.
func CheckBody(attr string, b *Graph, in []Type, syms Syms) (out []Type, err error) {
	if b == nil {
		return nil, fmt.Errorf("has no %s; want a graph, such as {%s=@NAME}", attr, attr)
	}
	for _, s := range b.Syms {
		if k := slices.IndexFunc(syms, func(o Sym) bool { return o.Name == s.Name }); k < 0 || syms[k] != s {
			return nil, fmt.Errorf("%s: graph %s has the symbol %s = %d..%d; want symbols of the graph that refers to "+
				"it, with the same range", attr, b.Name, s.Name, s.Min, s.Max)
		}
	}
	inputs := b.Inputs()
	if len(inputs) != len(in) {
		return nil, fmt.Errorf("%s: graph %s has %d inputs; want %d, one for each of %v", attr, b.Name, len(inputs),
			len(in), in)
	}
	for k, x := range inputs {
		if !x.Type.Equal(in[k]) {
			return nil, TypesDiffer(in[k], x.Type, "%s: input %s of graph %s is %v; it is given %v", attr, x.Label(),
				b.Name, x.Type, in[k])
		}
	}
	for _, o := range b.Outputs {
		out = append(out, o.Node.Type)
	}
	return out, nil
}

// Inline adds the nodes of a body to g, with the nodes in for its inputs, and returns its outputs. Names of nodes get
// prefix in front, or are dropped if prefix is empty. Params keep their names. If g already has a param of that name,
// Inline uses it.
func (g *Graph) Inline(b *Graph, in []*Node, prefix string) (out []*Node) {
	return g.InlineWith(b, in, prefix, func(n *Node, in []*Node) (any, []*Node) { return n.Attrs, in })
}

// InlineWith is like Inline, but calls change for each node n of the body. in has n's operands in g. The node in g gets
// the attributes and operands that change returns.
func (g *Graph) InlineWith(b *Graph, in []*Node, prefix string,
	change func(n *Node, in []*Node) (attrs any, operands []*Node)) (out []*Node) {
	to := make([]*Node, len(b.Nodes))
	for _, n := range b.Nodes {
		if n.Op == ResultDef { // added with its tuple node
			continue
		}
		var values []*Node
		switch n.Op.Name {
		case "input":
			values, in = in[:1:1], in[1:]
		case "param":
			values = []*Node{g.paramLike(n)}
		default:
			attrs, args := change(n, n.MapIn(func(x *Node) *Node { return to[x.ID] }))
			if n.Op.Tuple {
				values = g.AddResults(len(n.Results), n.Op, attrs, args...)
			} else {
				values = []*Node{g.AddDeclared(n.Op, attrs, n.Type, args...)}
			}
			for k, v := range n.Values() {
				if prefix != "" && v.Name != "" {
					values[k].Named(prefix + v.Name)
				}
			}
		}
		for k, v := range n.Values() {
			to[v.ID] = values[k]
		}
	}
	for _, o := range b.Outputs {
		out = append(out, to[o.Node.ID])
	}
	return out
}

// paramLike returns the param of g with n's name and type. If g has no such param, it adds one.
func (g *Graph) paramLike(n *Node) *Node {
	x := g.params[n.Name]
	if x == nil || x.ID >= len(g.Nodes) || g.Nodes[x.ID] != x {
		var ok bool
		if x, ok = g.Find(n.Name); !ok {
			x = g.AddDeclared(n.Op, n.Attrs, n.Type).Named(n.Name)
		}
		if g.params == nil {
			g.params = map[string]*Node{}
		}
		g.params[n.Name] = x
	}
	if x.Op != n.Op || !x.Type.Equal(n.Type) {
		g.Fail(fmt.Errorf("graph %s has a param %s of type %v; graph %s has %v", n.Graph.Name, n.Name, n.Type, g.Name,
			x))
	}
	return x
}

// LowerBlocks replaces each block by its own expansion (see Lower), until no block is left. It replaces late blocks
// (TupleDef.Late) once there are no others. lowered, if not nil, is called with each block.
func (g *Graph) LowerBlocks(lowered func(n *Node)) (*Graph, error) {
	for {
		late := !slices.ContainsFunc(g.Nodes, func(n *Node) bool { return n.Op.Block && !n.Op.Late })
		next, n, err := g.Expand(func(n *Node) bool {
			chosen := n.Op.Block && n.Op.Late == late
			if chosen && lowered != nil {
				lowered(n)
			}
			return chosen
		})
		if err != nil || n == 0 {
			return next, err
		}
		g = next
	}
}

// Expand replaces each node that which accepts by the node's expansion (see Lower), once. It calls which once for each
// node, and returns the number of replaced nodes.
func (g *Graph) Expand(which func(n *Node) bool) (out *Graph, count int, err error) {
	expanded := map[*Node][]*Node{} // replacements of results, by node that makes them; nil if not selected
	out, err = g.Rebuild(func(out *Graph, n *Node, _ []*Node, lookup func(*Node) *Node) *Node {
		by, result := n.Maker()
		if _, known := expanded[by]; !known {
			if !which(by) {
				expanded[by] = nil
				return nil
			}
			expanded[by] = by.Op.LowerTo(out, by, by.MapIn(lookup))
			count++
		}
		if expanded[by] == nil {
			return nil
		}
		return expanded[by][result]
	})
	return out, count, err
}
