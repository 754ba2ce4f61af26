package pass

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// maxHoisted bounds how many values of a loop's graphs become operands of the loop.
const maxHoisted = 64

// hoist moves what each iteration of a loop computes anew, from values that do not change, before the loop:
//
//	graph body                              graph body
//	x = input                               x = input
//	c = input                               c.e = input
//	e = exp c                     ->        y = add x, c.e
//	y = add x, e
//
//	y = loop x, c {body=@body}              e = exp c
//	                                        y = loop x, e {body=@body}
//
// A node moves if all its operands come from operands of the loop that no iteration changes, weights and constants.
// Two kinds stay unless others that move need them: views and nodes that kernels absorb (absorbed), and what depends
// on weights and constants alone, which fold computes at compile time. A node that may fail, such as gather, or a
// loop that has one, moves only if every run computes it: from body if the loop has neither condition nor guard, from
// cond if it has no guard. The values are those that each iteration would compute, in the same bits.
//
// Loops in a loop come first, so a value moves out of all loops that do not change it.
func hoist(c *context, g *ir.Graph) (*ir.Graph, error) {
	h := hoister{c: c, made: map[*ir.Graph]bool{}, done: map[*ir.Graph]*ir.Graph{}}
	out, err := h.graph(g)
	if err != nil || out == g {
		return g, err
	}
	h.name(out)
	return cse(c, out)
}

type hoister struct {
	c    *context
	made map[*ir.Graph]bool      // graphs of loops that this pass has made
	done map[*ir.Graph]*ir.Graph // results of graph
}

// graph moves computations that are the same in each iteration before the loops of g. It returns g itself if nothing
// moves.
func (h *hoister) graph(g *ir.Graph) (out *ir.Graph, err error) {
	if x := h.done[g]; x != nil || g == nil {
		return x, nil
	}
	defer func() { h.done[g] = out }()
	hoisted := map[*ir.Node]*hoisted{}
	for _, n := range g.Nodes {
		if !isLoop(n) {
			continue
		}
		x, err := h.loop(n)
		if err != nil {
			return nil, err
		}
		if x != nil {
			hoisted[n] = x
		}
	}
	if len(hoisted) == 0 {
		return g, nil
	}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		by, result := n.Maker()
		x := hoisted[by]
		if x == nil {
			return nil
		}
		if x.values == nil {
			x.values = x.build(out, lookup)
		}
		return x.values[result]
	})
}

// name gives the graphs that the pass has made names that no other graph has.
func (h *hoister) name(g *ir.Graph) {
	texts := map[string]string{g.Name: ""}
	for _, b := range g.Bodies() {
		if !h.made[b] {
			texts[b.Name] = b.String()
		}
	}
	for _, b := range g.Bodies() {
		if !h.made[b] {
			continue
		}
		base := b.Name
		for k := 2; ; k++ {
			text, known := texts[b.Name]
			if !known || text == b.String() {
				break
			}
			b.Name = fmt.Sprintf("%s.%d", base, k)
		}
		texts[b.Name] = b.String()
	}
}

// hoisted is a loop without what need not be in it.
type hoisted struct {
	loop
	// what runs before the loop; its outputs become operands, after the carried values and those that do not change
	before *ir.Graph
	given  []*ir.Node
	prefix string // of names of nodes of before
}

// loop finds what moves out of a loop. It returns nil if nothing does, and neither out of the loops in it.
func (h *hoister) loop(n *ir.Node) (*hoisted, error) {
	x := &hoisted{loop: loop{attrs: n.Attrs.(op.LoopAttrs), in: n.In, node: n}}
	body, err := h.graph(x.attrs.Body)
	if err != nil {
		return nil, err
	}
	cond, err := h.graph(x.attrs.Cond)
	if err != nil {
		return nil, err
	}
	changed := body != x.attrs.Body || cond != x.attrs.Cond
	x.attrs.Body, x.attrs.Cond = body, cond
	x.sink()
	if x.move() {
		changed = true
		h.c.fired("hoist", n)
	}
	if !changed {
		return nil, nil
	}
	old := n.Attrs.(op.LoopAttrs)
	for _, g := range []*ir.Graph{x.attrs.Body, x.attrs.Cond} {
		if g != nil && g != old.Body && g != old.Cond {
			h.made[g] = true
		}
	}
	return x, nil
}

// move removes from the loop's graphs the nodes that move, and reports whether any do.
func (x *hoisted) move() bool {
	a := &x.attrs
	last := len(x.in) - a.Steps
	if a.Guarded {
		last--
	}
	before := ir.NewGraph(a.Body.Name, a.Body.Syms...)
	given := make([]*ir.Node, last) // inputs of before, by number of the operand
	for k := a.Carried; k < last; k++ {
		in := a.Body.Inputs()[k]
		given[k] = before.AddDeclared(in.Op, in.Attrs, in.Type).Named(in.Name)
	}
	parts := []*loopGraph{newLoopGraph(a.Body, a.Carried, last, !a.Guarded && a.Cond == nil)}
	if a.Cond != nil {
		parts = append(parts, newLoopGraph(a.Cond, a.Carried, last, !a.Guarded))
	}
	count := 0
	for _, p := range parts {
		p.find(maxHoisted - count)
		count += len(p.front)
	}
	if count == 0 {
		return false
	}
	for _, p := range parts {
		p.copyTo(before, given)
	}
	var rest []int // fixed operands that the graphs still read
	for k := a.Carried; k < last; k++ {
		if slices.ContainsFunc(parts, func(p *loopGraph) bool { return p.reads(k) }) {
			rest = append(rest, k)
		}
	}
	types := make([]ir.Type, 0, count)
	for _, p := range parts {
		for _, n := range p.front {
			types = append(types, n.Type)
		}
	}
	a.Body = parts[0].without(a.Carried, rest, last, types, 0)
	if a.Cond != nil {
		a.Cond = parts[1].without(a.Carried, rest, last, types, len(parts[0].front))
	}
	x.before, x.given = before, x.in[a.Carried:last]
	in := slices.Clone(x.in[:a.Carried])
	for _, k := range rest {
		in = append(in, x.in[k])
	}
	x.in = append(append(in, make([]*ir.Node, count)...), x.in[last:]...) // build sets the nil ones
	if v := x.node.Values(); v[0].Name != "" {
		x.prefix = v[0].Name + ".body."
	}
	return true
}

// build adds the nodes that move, and the loop, and returns its results.
func (x *hoisted) build(out *ir.Graph, lookup func(*ir.Node) *ir.Node) []*ir.Node {
	var moved []*ir.Node
	if x.before != nil {
		given := make([]*ir.Node, len(x.given))
		for k, n := range x.given {
			given[k] = lookup(n)
		}
		for _, n := range x.before.Nodes {
			if _, taken := x.node.Graph.Find(x.prefix + n.Name); taken && !n.Is(op.ParamDef) {
				x.prefix = "" // without names
			}
		}
		moved = out.Inline(x.before, given, x.prefix)
	}
	in := make([]*ir.Node, len(x.in))
	for k, n := range x.in {
		if n == nil {
			in[k], moved = moved[0], moved[1:]
		} else {
			in[k] = lookup(n)
		}
	}
	return op.Loop(x.attrs, in...)
}

// loopGraph is a graph of a loop, and what of it moves before the loop.
type loopGraph struct {
	graph *ir.Graph
	to    []*ir.Node // the nodes of graph in before, by ID; nil for those that do not move
	fixed []bool     // by ID: the value is the same in every iteration, and may be computed before the loop
	found []bool     // by ID: in addition, it depends on an operand of the loop and is worth moving
	front []*ir.Node // the values that move and that others read
	moves []bool     // by ID: of front, or needed by it
}

// newLoopGraph finds the values of a graph that no iteration changes: those that depend only on inputs from first to
// last. always says that every run of the loop computes the graph.
func newLoopGraph(g *ir.Graph, first, last int, always bool) *loopGraph {
	n := len(g.Nodes)
	p := &loopGraph{graph: g, to: make([]*ir.Node, n), fixed: make([]bool, n), found: make([]bool, n),
		moves: make([]bool, n)}
	depends := make([]bool, n)
	for k, x := range g.Inputs() {
		p.fixed[x.ID] = k >= first && k < last
		depends[x.ID] = p.fixed[x.ID]
	}
	for _, n := range g.Nodes {
		if n.Is(op.InputDef) {
			continue
		}
		if n.Op == ir.ResultDef {
			by, _ := n.Maker()
			p.fixed[n.ID], p.found[n.ID] = p.fixed[by.ID], p.found[by.ID]
			depends[n.ID] = depends[by.ID]
			continue
		}
		fixed := always || !mayFail(n)
		for _, x := range n.Operands() {
			fixed = fixed && p.fixed[x.ID]
			depends[n.ID] = depends[n.ID] || depends[x.ID]
		}
		p.fixed[n.ID] = fixed
		p.found[n.ID] = fixed && depends[n.ID] && !absorbed(n)
	}
	return p
}

// absorbed reports whether a node is a view, or only moves or widens data, which kernels often do when they read their
// operands, at no cost.
func absorbed(n *ir.Node) bool {
	_, view := n.View()
	return view || n.Is(op.TransposeDef, op.ExpandDef, op.NarrowDef, op.RepeatDef, op.TileDef, op.CastDef)
}

// mayFail reports whether an error in the values of its operands may end a node, or a node of its graphs.
func mayFail(n *ir.Node) bool {
	for _, c := range n.Op.Checked {
		if x := c.Operand; x < len(n.In) && n.In[x] != nil && !(c.Integers && n.In[x].Type.DType.IsFloat()) {
			return true
		}
	}
	return slices.ContainsFunc(n.Bodies(), func(b *ir.Graph) bool { return slices.ContainsFunc(b.Nodes, mayFail) })
}

// find finds the front, of at most that many values, and the nodes that it needs.
func (p *loopGraph) find(most int) {
	seen := make([]bool, len(p.graph.Nodes))
	var visit func(n *ir.Node)
	visit = func(n *ir.Node) {
		if seen[n.ID] {
			return
		}
		seen[n.ID] = true
		if p.found[n.ID] && len(p.front) < most {
			p.front = append(p.front, n)
			return
		}
		for _, x := range n.Operands() {
			visit(x)
		}
	}
	for _, o := range p.graph.Outputs {
		visit(o.Node)
	}
	var need func(n *ir.Node)
	need = func(n *ir.Node) {
		if p.moves[n.ID] {
			return
		}
		p.moves[n.ID] = true
		for _, x := range n.Operands() {
			need(x)
		}
	}
	for _, n := range p.front {
		need(n)
	}
}

// copyTo adds what moves to before. given has the inputs of before, by number. The front becomes outputs.
func (p *loopGraph) copyTo(before *ir.Graph, given []*ir.Node) {
	for k, x := range p.graph.Inputs() {
		if k < len(given) {
			p.to[x.ID] = given[k]
		}
	}
	for _, n := range p.graph.Nodes {
		by, _ := n.Maker()
		if !p.moves[by.ID] || n.Op == ir.ResultDef || n.Is(op.InputDef) {
			continue
		}
		p.add(before, n, p.to, true)
	}
	for _, n := range p.front {
		before.Return(fmt.Sprint("v", len(before.Outputs)), p.to[n.ID])
	}
}

// add adds a copy of a node, and of its results, to g. to has the copies of nodes, by ID. With rename, names that g has
// are dropped.
func (p *loopGraph) add(g *ir.Graph, n *ir.Node, to []*ir.Node, rename bool) {
	args := n.MapIn(func(x *ir.Node) *ir.Node { return to[x.ID] })
	named := func(x *ir.Node, name string) *ir.Node {
		if _, taken := g.Find(name); name == "" || taken && rename {
			return x
		}
		return x.Named(name)
	}
	if n.Op.Tuple {
		for k, v := range g.AddResults(len(n.Results), n.Op, n.Attrs, args...) {
			to[n.ID], to[n.ID+1+k] = v.In[0], named(v, n.Values()[k].Name)
		}
		return
	}
	if n.Is(op.ParamDef) {
		if x, ok := g.Find(n.Name); ok {
			to[n.ID] = x
			return
		}
	}
	to[n.ID] = named(g.AddDeclared(n.Op, n.Attrs, n.Type, args...), n.Name)
}

// reads reports whether input k is read once the front is given.
func (p *loopGraph) reads(k int) bool {
	inputs := p.graph.Inputs()
	return k < len(inputs) && p.live()[inputs[k].ID]
}

// live reports, by ID, which nodes the outputs need if the front is given.
func (p *loopGraph) live() []bool {
	live := make([]bool, len(p.graph.Nodes))
	var visit func(n *ir.Node)
	visit = func(n *ir.Node) {
		if live[n.ID] {
			return
		}
		live[n.ID] = true
		if slices.Contains(p.front, n) {
			return
		}
		for _, x := range n.Operands() {
			visit(x)
		}
	}
	for _, o := range p.graph.Outputs {
		visit(o.Node)
	}
	return live
}

// without returns the graph without the nodes that move. Its inputs are the carried values, the values of rest, values
// of the given types, and the slices after last. The given types from number at on are those of the front.
func (p *loopGraph) without(carried int, rest []int, last int, types []ir.Type, at int) *ir.Graph {
	out := ir.NewGraph(p.graph.Name, p.graph.Syms...)
	inputs, to, live := p.graph.Inputs(), make([]*ir.Node, len(p.graph.Nodes)), p.live()
	input := func(x *ir.Node) { to[x.ID] = out.AddDeclared(x.Op, x.Attrs, x.Type).Named(x.Name) }
	for _, x := range inputs[:carried] {
		input(x)
	}
	for _, k := range rest {
		input(inputs[k])
	}
	var extra []*ir.Node
	for _, t := range types {
		extra = append(extra, op.Input(out, "", t))
	}
	for _, x := range inputs[last:] {
		input(x)
	}
	for k, n := range p.front {
		to[n.ID] = extra[at+k]
	}
	for _, n := range p.graph.Nodes {
		by, _ := n.Maker()
		wanted := live[n.ID]
		if n.Op.Tuple {
			wanted = slices.ContainsFunc(n.Values(), func(v *ir.Node) bool {
				return live[v.ID] && !slices.Contains(p.front, v)
			})
		}
		if by == n && wanted && to[n.ID] == nil {
			p.add(out, n, to, false)
		}
	}
	for k, x := range extra { // inputs have names
		name := fmt.Sprint("hoisted", k)
		for _, taken := out.Find(name); taken; _, taken = out.Find(name) {
			name += "_"
		}
		x.Named(name)
	}
	for _, o := range p.graph.Outputs {
		out.Return(o.Name, to[o.Node.ID])
	}
	if out.Err() != nil {
		panic("BUG: pass: a loop's graph without what moves: " + out.Err().Error())
	}
	return out
}
