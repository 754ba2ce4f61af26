package pass

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// loops decides which loops stay one step, of those that are too long to be unrolled at once (lower). A loop stays if
// the target runs it and every node of its graphs after all passes have run on these. The others are unrolled.
//
// Loops with the same graphs and operands become one that has the results of all. Operands that are weights or
// constants, and do not change, move into the graphs, where kernels and passes see that they are known:
//
//	w = param : f32[4,4]                     graph body        graph body
//	y = loop x, w {body=@body, carried=1}    x = input    ->   x = input
//	                                         w = input         w = param
//
// Before that, recurrent layers that the target does not run become loops (op.RecurrentDef).
func loops(c *context, g *ir.Graph) (*ir.Graph, error) {
	g, err := expandRecurrent(c, g)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(g.Nodes, isLoop) {
		return g, nil
	}
	stay := map[*ir.Node]*loop{} // by node
	var all []*loop
	if c.target.Has(op.LoopDef.Name) {
		same := map[string]*loop{}
		for _, n := range slices.Clone(g.Nodes) {
			if !isLoop(n) {
				continue
			}
			a := n.Attrs.(op.LoopAttrs)
			results := a.Results
			a.Results = nil // compared without
			k := fmt.Sprint(ir.Attr{Value: n.Op.Attrs(a)}.Text(), ids(n.In))
			l := same[k]
			if l == nil {
				l = &loop{attrs: a, in: n.In, node: n}
				same[k], all = l, append(all, l)
			}
			stay[n] = l
			l.results = slices.Compact(slices.Sorted(slices.Values(append(l.results, results...))))
		}
		refused := map[*loop]bool{}
		for _, l := range all {
			l.attrs.Results = l.results
			switch why, err := c.nest(l); {
			case err != nil:
				return nil, err
			case why != "":
				c.missed("nest", l.node, why)
				refused[l] = true
			default:
				c.fired("nest", l.node)
			}
		}
		maps.DeleteFunc(stay, func(_ *ir.Node, l *loop) bool { return refused[l] })
	}
	g, err = g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		by, result := n.Maker()
		l := stay[by]
		if l == nil {
			return nil
		}
		if l.values == nil {
			in := make([]*ir.Node, len(l.in))
			for k, x := range l.in {
				in[k] = lookup(x)
			}
			l.values = op.Loop(l.attrs, in...)
		}
		at, _ := slices.BinarySearch(l.results, by.Attrs.(op.LoopAttrs).Results[result])
		return l.values[at]
	})
	if err != nil {
		return nil, err
	}
	done := map[*ir.Graph]bool{}
	for _, l := range all {
		done[l.attrs.Body] = true
	}
	g, unrolled, err := c.unroll(g, func(n *ir.Node) bool { return !done[n.Attrs.(op.LoopAttrs).Body] })
	if err != nil || !unrolled {
		return g, err
	}
	return c.again(g)
}

// expandRecurrent makes loops of recurrent layers that the target does not run, and unrolls those with few nodes. A
// layer with an unknown number of steps stays, so that legalize reports it.
func expandRecurrent(c *context, g *ir.Graph) (*ir.Graph, error) {
	g, n, err := g.Expand(func(n *ir.Node) bool {
		if n.Op != op.RecurrentDef || !n.In[0].Type.Shape[0].IsStatic() {
			return false
		}
		how, _ := c.target.Takes(n)
		if how == target.Native {
			return false
		}
		c.fired("expand-recurrent", n)
		c.report.Rewritten = count(c.report.Rewritten, n.OpName())
		return true
	})
	if err != nil || n == 0 {
		return g, err
	}
	if g, err = c.again(g); err != nil {
		return nil, err
	}
	g, _, err = c.unroll(g, func(n *ir.Node) bool { return n.Attrs.(op.LoopAttrs).Nodes() <= c.unrollNodes })
	return g, err
}

func isLoop(n *ir.Node) bool { return n.Op == op.LoopDef }

func ids(nodes []*ir.Node) (list []int) {
	for _, n := range nodes {
		list = append(list, n.ID)
	}
	return list
}

// unroll unrolls the loops that which accepts, until no such loop is left.
func (c *context) unroll(g *ir.Graph, which func(n *ir.Node) bool) (out *ir.Graph, some bool, err error) {
	for slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return isLoop(n) && which(n) }) {
		some = true
		if g, _, err = g.Expand(func(n *ir.Node) bool {
			if !isLoop(n) || !which(n) {
				return false
			}
			c.fired("unroll", n)
			return true
		}); err != nil {
			return nil, false, err
		}
	}
	return g, some, nil
}

// loop is a loop that may stay one step.
type loop struct {
	node  *ir.Node // the first of the merged loops
	attrs op.LoopAttrs
	// the numbers of the results of all, ascending; sink renumbers them in attrs and keeps the order
	results []int
	in      []*ir.Node // in the old graph
	values  []*ir.Node // in the new graph, once it is there
}

// nest compiles the graphs of a loop for the target. why says why the target does not run the loop, or is empty.
func (c *context) nest(l *loop) (why string, err error) {
	l.sink()
	compile := func(b *ir.Graph) (*ir.Graph, error) {
		if b == nil {
			return nil, nil
		}
		out, report, err := c.nested(b)
		if err != nil {
			return nil, fmt.Errorf("graph %s: %w", b.Name, err)
		}
		maps.Copy(c.report.Folded, report.Folded)
		c.report.Rewritten = addCounts(c.report.Rewritten, report.Rewritten)
		for _, s := range report.Sites {
			s.Node = b.Name + ":" + s.Node
			c.report.Sites = append(c.report.Sites, s)
		}
		c.name(out)
		return out, nil
	}
	before := c.report.clone()
	rewritten := slices.Clone(c.report.Rewritten)
	if l.attrs.Body, err = compile(l.attrs.Body); err == nil {
		l.attrs.Cond, err = compile(l.attrs.Cond)
	}
	if err == nil {
		n := &ir.Node{ID: len(l.node.Graph.Nodes), Op: op.LoopDef, Attrs: l.attrs, In: l.in, Graph: l.node.Graph}
		if n.Type, n.Results, err = n.Infer(ir.Type{}, n.Graph.Syms); err != nil {
			return "", fmt.Errorf("BUG: pass: %w", err)
		}
		_, why = c.target.Takes(n)
	}
	if errors.Is(err, code.Untaken) {
		why, err = err.Error(), nil
	}
	if why != "" {
		c.report.Folded, c.report.Sites, c.report.Rewritten = before.Folded, before.Sites, rewritten
	}
	return why, err
}

// name gives a graph of a loop a name that no other graph has. Equal ones keep one name.
func (c *context) name(b *ir.Graph) {
	base := b.Name
	for k := 2; ; k++ {
		text, known := c.report.bodies[b.Name]
		if !known {
			c.report.bodies[b.Name] = b.String()
			return
		}
		if text == b.String() {
			return
		}
		b.Name = fmt.Sprintf("%s.%d", base, k)
	}
}

// sink changes the inputs of the loop's graphs. Carried values that never change become values that every iteration
// reads. Values that every iteration reads become nodes of the graphs if they are known, or views of known values.
func (l *loop) sink() {
	a := l.attrs
	in := l.in
	last := len(in)
	if a.Guarded {
		last--
	}
	inputs := a.Body.Inputs()
	var carried, fixed, sunk []int // numbers of operands
	moved := make([]int, a.Carried)
	for k := range last - a.Steps {
		switch {
		case k < a.Carried && (a.Body.Outputs[k].Node != inputs[k] || slices.Contains(a.Results, a.Carried+k) ||
			slices.Contains(a.Results, k)):
			moved[k] = len(carried)
			carried = append(carried, k)
		case ofKnown(in[k]):
			sunk = append(sunk, k)
		default:
			fixed = append(fixed, k)
		}
	}
	if len(carried) == 0 || len(carried) == a.Carried && len(sunk) == 0 {
		return
	}
	order := slices.Concat(carried, fixed)
	outputs := func(k int) bool { return slices.Contains(carried, k) }
	old := a.Carried
	if a.Cond != nil {
		a.Cond = reordered(a.Cond, in, order, sunk, func(int) bool { return true })
	}
	for k := last - a.Steps; k < last; k++ {
		order = append(order, k)
	}
	a.Body = reordered(a.Body, in, order, sunk, outputs)
	a.Carried = len(carried)
	a.Results = nil
	for _, k := range l.attrs.Results {
		if k < old {
			a.Results = append(a.Results, moved[k])
		} else {
			a.Results = append(a.Results, a.Carried+moved[k-old])
		}
	}
	l.in = nil
	for _, k := range order {
		l.in = append(l.in, in[k])
	}
	l.in = append(l.in, in[last:]...)
	l.attrs = a
}

// ofKnown reports whether n is a param, a constant or a view of one.
func ofKnown(n *ir.Node) bool { return n.Source().Is(op.ParamDef, op.ConstDef) }

// reordered returns a graph whose inputs are the inputs of b with the numbers in order. The inputs with the numbers in
// sunk are replaced by copies of the nodes in. The graph has the outputs that keep selects.
func reordered(b *ir.Graph, in []*ir.Node, order, sunk []int, keep func(output int) bool) *ir.Graph {
	out := ir.NewGraph(b.Name, b.Syms...)
	inputs, to := b.Inputs(), make([]*ir.Node, len(b.Nodes))
	for _, k := range order {
		x := inputs[k]
		to[x.ID] = out.AddDeclared(x.Op, x.Attrs, x.Type).Named(x.Name)
	}
	params := map[string]*ir.Node{}
	var add func(n *ir.Node) *ir.Node
	add = func(n *ir.Node) *ir.Node {
		if _, view := n.View(); view {
			return out.AddDeclared(n.Op, n.Attrs, n.Type, append([]*ir.Node{add(n.In[0])}, n.In[1:]...)...)
		}
		if n.Is(op.ConstDef) {
			return out.AddDeclared(n.Op, n.Attrs, n.Type)
		}
		if params[n.Name] == nil {
			params[n.Name] = out.AddDeclared(n.Op, n.Attrs, n.Type).Named(n.Name)
		}
		return params[n.Name]
	}
	for _, k := range sunk {
		to[inputs[k].ID] = add(in[k])
	}
	for _, n := range b.Nodes {
		switch {
		case to[n.ID] != nil:
		case n.Is(op.ParamDef):
			to[n.ID] = add(n)
		case n.Op.Tuple:
			args := n.MapIn(func(x *ir.Node) *ir.Node { return to[x.ID] })
			for k, v := range out.AddResults(len(n.Results), n.Op, n.Attrs, args...) {
				to[n.ID], to[n.ID+1+k] = v.In[0], v.Named(n.Values()[k].Name)
			}
		default:
			args := n.MapIn(func(x *ir.Node) *ir.Node { return to[x.ID] })
			to[n.ID] = out.AddDeclared(n.Op, n.Attrs, n.Type, args...).Named(n.Name)
		}
	}
	for k, o := range b.Outputs {
		if keep(k) {
			out.Return(o.Name, to[o.Node.ID])
		}
	}
	if out.Err() != nil {
		panic("BUG: pass: a loop's graph with other inputs: " + out.Err().Error())
	}
	return out
}
