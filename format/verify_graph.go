package format

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// checkGraph runs checks 17 to 28 on a graph and its bodies and returns them.
func checkGraph(r *rawGraph, dir *Directory) (*ir.Graph, []*body, error) {
	where := KindGraph.String()
	if err := program.CheckMethod(r.method); err != nil {
		return nil, nil, fail(17, where, r.at, "%w", err)
	}
	if err := ir.CheckName(r.target); err != nil {
		return nil, nil, fail(17, where, r.at, "target: %w", err)
	}
	if err := checkCounts(where, r.at, r.reference, r.rewritten); err != nil {
		return nil, nil, err
	}
	bodies, err := checkBodies(r, dir)
	if err != nil {
		return nil, nil, err
	}
	all := rawBody{at: r.at, name: r.method, syms: r.syms, nodes: r.nodes, outputs: r.outputs}
	g, err := checkNodes(&all, bodies, dir)
	if err != nil {
		return nil, nil, err
	}
	if int64(g.depth) != r.nesting {
		return nil, nil, fail(25, where, r.at, "nesting is %d; the graphs that attributes refer to nest %d deep",
			r.nesting,
			g.depth)
	}
	for i, b := range bodies {
		if !b.used {
			return nil, nil, fail(25, where, r.bodies[i].at, "body %s: no attribute refers to it", b.Name)
		}
	}
	return g.Graph, bodies, nil
}

// body is a graph that attributes may refer to, or the graph of a program.
type body struct {
	*ir.Graph
	depth int // 0 without bodies of its own, 1 if its bodies have no bodies, and so on
	nodes int // of the graph, and of a body for each attribute that refers to it
	used  bool

	params bool // it reads weights
	nested bool // it is a program of its own, the graph of a loop
}

// checkBodies runs checks 17 to 28 on the graphs that attributes refer to.
func checkBodies(r *rawGraph, dir *Directory) (list []*body, err error) {
	where := KindGraph.String()
	if r.nesting > ir.MaxNesting {
		return nil, fail(25, where, r.at, "attributes nest graphs %d deep; at most %d", r.nesting, ir.MaxNesting)
	}
	seen := names{r.method: true}
	for i := range r.bodies {
		b := &r.bodies[i]
		if err := seen.add(where, b.at, "body", b.name); err != nil {
			return nil, err
		}
		for k, n := range b.nodes {
			def, ok := ir.Find(n.op)
			if ok && (def.Effects && n.op != "input" && n.op != "param" || def.Updates) {
				return nil, fail(25, where, n.at, "body %s: node %d is of op %s; a body has no states", b.name, k, n.op)
			}
		}
		g, err := checkNodes(b, list, dir)
		if err != nil {
			return nil, err
		}
		g.params = slices.ContainsFunc(b.nodes, func(n rawNode) bool { return n.op == "param" })
		list = append(list, g)
	}
	return list, nil
}

// checkNodes runs checks 17 to 28 on the symbols, nodes and outputs of a graph or a body and returns it. bodies are the
// graphs that its attributes may refer to.
func checkNodes(r *rawBody, bodies []*body, dir *Directory) (*body, error) {
	where := KindGraph.String()
	if err := checkSyms(r.syms, where, r.at); err != nil {
		return nil, err
	}
	b := graphBuilder{r: r, dir: dir, bodies: bodies,
		g: &ir.Graph{Name: r.name, Syms: r.syms, Nodes: make([]*ir.Node, 0, len(r.nodes))}, names: names{},
		updated: map[*ir.Node]bool{}}
	for i := range r.nodes {
		if err := b.node(i); err != nil {
			return nil, err
		}
	}
	if err := b.complete(); err != nil {
		return nil, err
	}
	outs := names{}
	for _, o := range r.outputs {
		if err := outs.add(where, r.at, "output", o.name); err != nil {
			return nil, err
		}
		if o.node >= int64(len(b.g.Nodes)) {
			return nil, fail(27, where, r.at, "output %s is node %d; there are %d", o.name, o.node, len(b.g.Nodes))
		}
		n := b.g.Nodes[o.node]
		if n.Op.Tuple {
			return nil, fail(27, where, r.at, "output %s is node %d, which has several results and no value of its own",
				o.name, o.node)
		}
		b.g.Return(o.name, n)
	}
	if len(r.outputs) == 0 {
		return nil, fail(27, where, r.at, "the graph has no outputs")
	}
	return &body{Graph: b.g, depth: b.depth, nodes: len(b.g.Nodes) + b.bodyNodes}, nil
}

// checkCounts runs check 17 on lists of op counts.
func checkCounts(where string, at int64, lists ...[]program.OpCount) error {
	for _, list := range lists {
		for i, c := range list {
			if err := ir.CheckName(c.Op); err != nil {
				return fail(17, where, at, "op that is counted: %w", err)
			}
			if i > 0 && list[i-1].Op >= c.Op {
				return fail(17, where, at, "ops are counted in the order %s, %s; want ascending names", list[i-1].Op,
					c.Op)
			}
		}
	}
	return nil
}

func checkSyms(syms ir.Syms, where string, at int64) error {
	seen := map[string]bool{}
	for _, s := range syms {
		if !ir.IsSymbol(s.Name) {
			return fail(17, where, at, "symbol %.40q is not a name of letters, digits and _", s.Name)
		}
		if seen[s.Name] {
			return fail(17, where, at, "symbol %s is listed twice", s.Name)
		}
		seen[s.Name] = true
		if s.Min < 0 || s.Min > s.Max || s.Max > ir.MaxDim {
			return fail(28, where, at, "symbol %s has the range %d..%d; want 0 <= min <= max <= %d", s.Name, s.Min,
				s.Max, int64(ir.MaxDim))
		}
	}
	return nil
}

// graphBuilder builds a graph node by node. It checks each node before it looks at the next.
type graphBuilder struct {
	r      *rawBody
	dir    *Directory
	bodies []*body // that attributes may refer to

	depth, bodyNodes int // so far, see body
	g                *ir.Graph
	names            names
	tuple            *ir.Node // the newest node with several results

	updated map[*ir.Node]bool // values of states that some node has already updated
}

// complete checks that the newest op with several results has all its result nodes. They must follow it directly.
func (b *graphBuilder) complete() error {
	if t := b.tuple; t != nil && len(b.g.Nodes)-1-t.ID < len(t.Results) {
		r := &b.r.nodes[t.ID]
		return fail(24, KindGraph.String(), r.at,
			"node %d (op %s) has %d results; result nodes for %d of them follow it", t.ID, t.OpName(), len(t.Results),
			len(b.g.Nodes)-1-t.ID)
	}
	return nil
}

func (b *graphBuilder) node(i int) error {
	r := &b.r.nodes[i]
	bad := func(check int, format string, args ...any) error {
		label := r.name
		if label == "" {
			label = fmt.Sprintf("%%%d", i)
		}
		return fail(check, KindGraph.String(), r.at, "node %d (%.80q): "+format, append([]any{i, label}, args...)...)
	}
	leaf := r.op == "input" || r.op == "param" || r.op == ir.StateDef.Name
	if r.name != "" || leaf {
		if err := b.names.add(KindGraph.String(), r.at, "node", r.name); err != nil {
			return err
		}
	}
	def, attrs, err := b.op(r, bad)
	if err != nil {
		return err
	}
	n := &ir.Node{ID: i, Name: r.name, Op: def, Attrs: attrs, Graph: b.g}
	if n.In, err = b.operands(r, n, bad); err != nil {
		return err
	}
	var declared ir.Type
	if !def.Tuple {
		if declared, err = checkType(&r.typ, b.g.Syms, KindGraph.String(), r.at); err != nil {
			return err
		}
	} else if r.name != "" || r.typ.dtype != "" || len(r.typ.shape) > 0 {
		return bad(26, "op %s has several results; want no name, element type %q and no dims", r.op, "")
	}
	if err := b.checkSequence(n, bad); err != nil {
		return err
	}
	if n.Type, n.Results, err = n.Infer(declared, b.g.Syms); err != nil {
		return bad(26, "%w", err)
	}
	if !n.Type.Equal(declared) {
		return bad(26, "the type is %v; inferred is %v", declared, n.Type)
	}
	if err := n.CheckUpdate(b.updated); err != nil {
		return bad(checkState, "%w", err)
	}
	if r.op == "param" && b.dir != nil {
		if err := b.checkWeight(n, bad); err != nil {
			return err
		}
	}
	b.g.Nodes = append(b.g.Nodes, n)
	if def.Tuple {
		b.tuple = n
	}
	return nil
}

// failure makes an error of a check that names a node.
type failure func(check int, format string, args ...any) error

// operands returns the operands of node n by position. An absent operand is nil.
func (b *graphBuilder) operands(r *rawNode, n *ir.Node, bad failure) ([]*ir.Node, error) {
	in := make([]*ir.Node, max(len(r.in), len(n.Op.Operands)))
	set := func(k int, x int64) error {
		switch {
		case x >= int64(len(b.r.nodes)):
			return bad(23, "operand %s is node %d; there are %d", n.Op.OperandName(k), x, len(b.r.nodes))
		case x >= int64(n.ID):
			return bad(24, "operand %s is node %d, which does not come before it", n.Op.OperandName(k), x)
		}
		if in[k] = b.g.Nodes[x]; in[k].Op.Tuple && n.Op != ir.ResultDef {
			return bad(23, "operand %s is node %d, which has several results and no value of its own",
				n.Op.OperandName(k), x)
		}
		return nil
	}
	for k, x := range r.in {
		if err := set(k, x); err != nil {
			return nil, err
		}
	}
	for _, o := range r.optional {
		if err := set(n.Op.Operand(o.name), o.node); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// checkSequence checks that node n is the next result of the newest op with several results, or comes after the last.
func (b *graphBuilder) checkSequence(n *ir.Node, bad failure) error {
	if n.Op != ir.ResultDef {
		return b.complete()
	}
	t := b.tuple
	if t == nil || n.In[0] != t || n.ID-1-t.ID >= len(t.Results) ||
		n.Attrs != any(ir.ResultAttrs{Index: n.ID - 1 - t.ID}) {
		return bad(24, "a result node out of order; want the next result of the op with several results before it")
	}
	return nil
}

// checkWeight checks that the file has the weight of a param.
func (b *graphBuilder) checkWeight(n *ir.Node, bad failure) error {
	t, ok := b.dir.Find(n.Name)
	if !ok {
		return bad(23, "there is no weight of this name")
	}
	if !t.Type.Equal(n.Type) {
		return bad(26, "the type is %v; the weight is %v", n.Type, t.Type)
	}
	return nil
}

// op runs check 22.
func (b *graphBuilder) op(r *rawNode, bad failure) (*ir.OpDef, any, error) {
	def, ok := ir.Find(r.op)
	switch {
	case !ok:
		return nil, nil, bad(22, "op %.80q is unknown", r.op)
	case def.Block:
		return nil, nil, bad(22, "op %s is a block of the compiler's", r.op)
	case len(r.in) > def.Required() && !def.Variadic():
		return nil, nil, bad(22, "op %s: %d operands without a name; want %d of %s", r.op, len(r.in), def.Required(),
			def.Signature())
	}
	if err := def.CheckOperands(len(r.in), func(int) bool { return true }); err != nil {
		return nil, nil, bad(22, "op %s: %w", r.op, err)
	}
	for k, o := range r.optional {
		if at := def.Operand(o.name); at < 0 || !def.Operands[at].Optional {
			return nil, nil, bad(22, "op %s has no optional operand %.80q; want %s", r.op, o.name, def.Signature())
		}
		if k > 0 && o.name <= r.optional[k-1].name {
			return nil, nil, bad(22, "op %s: the optional operand %.80q comes after %.80q; want ascending names", r.op,
				o.name, r.optional[k-1].name)
		}
	}
	list := slices.Clone(r.attrs)
	known := def.AttrNames()
	if len(list) != len(known) {
		return nil, nil, bad(22, "op %s has %d attributes; want %v", r.op, len(list), known)
	}
	for k, a := range list {
		if a.Name != known[k] {
			return nil, nil, bad(22, "op %s: attribute %d is %.80q; want %v", r.op, k, a.Name, known)
		}
		var err error
		if list[k].Value, err = b.attr(def, a, bad); err != nil {
			return nil, nil, err
		}
		if got := ir.ValueKind(list[k].Value); got != def.AttrKind(a.Name) {
			return nil, nil,
				bad(22, "op %s: attribute %s is of type %s; want %s", r.op, a.Name, got, def.AttrKind(a.Name))
		}
	}
	attrs, err := def.MakeAttrs(list)
	if err != nil {
		return nil, nil, bad(22, "%w", err)
	}
	return def, attrs, nil
}

// attr returns the value of an attribute. It replaces names of element types by the types, and numbers of bodies by the
// graphs.
func (b *graphBuilder) attr(def *ir.OpDef, a ir.Attr, bad failure) (any, error) {
	switch v := a.Value.(type) {
	case rawDType:
		return attrType(def.Name, a.Name, v, bad)
	case rawRef:
		return b.body(def, a.Name, int(v), bad)
	case []ir.Attr:
		own := slices.Clone(v)
		for i, x := range own {
			if name, ok := x.Value.(rawDType); ok {
				d, err := attrType(def.Name, x.Name, name, bad)
				if err != nil {
					return nil, err
				}
				own[i].Value = d
			}
		}
		return own, nil
	}
	return a.Value, nil
}

// attrType returns the element type that an attribute names. An empty name means no type.
func attrType(op, attr string, name rawDType, bad failure) (dtype.DType, error) {
	d, ok := name.parse()
	if !ok && name != "" {
		return d, bad(18, "op %s: attribute %s is the unknown element type %.40q", op, attr, string(name))
	}
	return d, nil
}

// body returns the graph that an attribute refers to as body i; nil if i is negative.
func (b *graphBuilder) body(def *ir.OpDef, attr string, i int, bad failure) (*ir.Graph, error) {
	op := def.Name
	if i >= len(b.bodies) {
		return nil, bad(25, "op %s: attribute %s is body %d, which does not come before this graph; there are %d", op,
			attr, i, len(b.bodies))
	}
	if i < 0 {
		return nil, nil
	}
	x := b.bodies[i]
	if x.params && !def.Nested {
		return nil, bad(25, "op %s: attribute %s is body %s, which reads weights; only bodies of a loop may", op, attr,
			x.Name)
	}
	x.nested = x.nested || def.Nested
	x.used, b.depth, b.bodyNodes = true, max(b.depth, 1+x.depth), b.bodyNodes+x.nodes
	if n := len(b.r.nodes) + b.bodyNodes; n > MaxNodes {
		return nil, bad(25, "with the bodies that attributes refer to, there are %d nodes or more; at most %d", n,
			MaxNodes)
	}
	return x.Graph, nil
}

// checkSignature runs check 27 on META and the programs, and asks the task whether the methods fit it.
func checkSignature(c *contents, programs []*program.Program, dir *Directory) error {
	m, raw := c.meta, c.graphs
	has := map[string]bool{}
	for _, s := range c.splits {
		has[s.method] = true
	}
	for i, p := range programs {
		bad := func(format string, args ...any) error {
			return fail(27, KindGraph.String(), raw[i].at, "program %s for %s: "+format,
				append([]any{p.Method, p.Target}, args...)...)
		}
		x, ok := m.Method(p.Method)
		if !ok {
			return bad("META has no such method")
		}
		has[x.Name] = true
		want := MethodOf(p.Method, p.Graph)
		if !slices.Equal(x.Syms, want.Syms) {
			return bad("symbols are %v; META has %v", want.Syms, x.Syms)
		}
		if !equalValues(x.Inputs, want.Inputs) || !equalValues(x.Outputs, want.Outputs) {
			return bad("takes %v and gives %v; META has %v and %v", want.Inputs, want.Outputs, x.Inputs, x.Outputs)
		}
	}
	for _, x := range m.Methods {
		if !has[x.Name] {
			return fail(27, KindMeta.String(), -1, "method %s has no program", x.Name)
		}
	}
	return checkTask(m, dir)
}

// MethodOf returns the signature of a method that g computes, as the section META stores it.
func MethodOf(name string, g *ir.Graph) Method {
	m := Method{Name: name, Syms: g.Syms}
	for _, n := range g.Inputs() {
		m.Inputs = append(m.Inputs, Value{Name: n.Name, Type: n.Type})
	}
	for _, o := range g.Outputs {
		m.Outputs = append(m.Outputs, Value{Name: o.Name, Type: o.Node.Type})
	}
	return m
}

func equalValues(a, b []Value) bool {
	return slices.EqualFunc(a, b, func(x, y Value) bool { return x.Name == y.Name && x.Type.Equal(y.Type) })
}
