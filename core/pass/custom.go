package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// customOps decides which custom ops a program has. It runs before the passes that fuse, because these would take the
// parts of an expansion or of a pattern.
//
// A custom op that the target does not claim becomes its expansion, whose nodes are optimized like those of the model:
//
//	y = custom x {name="acme.wave", expansion=@acme.wave}   ->   s = sin x
//	                                                             y = mul s, a
//
// Where the target claims a custom op that has patterns, the opposite happens: nodes of a pattern become the op.
func customOps(c *context, g *ir.Graph) (*ir.Graph, error) {
	g, inlined, err := inlineCustom(c, g)
	if err != nil {
		return nil, err
	}
	if inlined {
		if g, err = c.again(g); err != nil {
			return nil, err
		}
	}
	return findCustom(c, g)
}

// again runs the passes before the first one that asks the target, because the graph has new nodes.
func (c *context) again(g *ir.Graph) (*ir.Graph, error) {
	plain := *c
	plain.asks = false
	for _, run := range []func(c *context, g *ir.Graph) (*ir.Graph, error){simplify, absorbCasts, fold, cse} {
		var err error
		if g, err = run(&plain, g); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// inlineCustom expands the custom ops that the target does not claim.
func inlineCustom(c *context, g *ir.Graph) (out *ir.Graph, inlined bool, err error) {
	if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Op == op.CustomDef }) {
		return g, false, nil
	}
	if g, err = withoutRules(g); err != nil {
		return nil, false, err
	}
	out, n, err := g.Expand(func(n *ir.Node) bool {
		if n.Op != op.CustomDef {
			return false
		}
		if how, _ := c.target.Takes(n); how == target.Native {
			return false
		}
		name := n.Attrs.(op.CustomAttrs).Name
		c.fired("inline-"+name, n)
		c.report.Rewritten = count(c.report.Rewritten, name)
		return true
	})
	return out, n > 0, err
}

// withoutRules drops the gradient rules of custom ops. They have served when the blocks were lowered.
func withoutRules(g *ir.Graph) (*ir.Graph, error) {
	has := func(n *ir.Node) bool { a, ok := n.Attrs.(op.CustomAttrs); return ok && a.Gradient != nil }
	if !slices.ContainsFunc(g.Nodes, has) {
		return g, nil
	}
	values := map[*ir.Node][]*ir.Node{} // of the new node, by the old one
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		by, result := n.Maker()
		if !has(by) {
			return nil
		}
		if values[by] == nil {
			a := by.Attrs.(op.CustomAttrs)
			a.Gradient = nil
			values[by] = out.AddResults(len(by.Results), by.Op, a, by.MapIn(lookup)...)
		}
		return values[by][result]
	})
}

// findCustom replaces the nodes of patterns by custom ops, where the target claims these.
func findCustom(c *context, g *ir.Graph) (*ir.Graph, error) {
	if !c.target.Has(op.CustomDef.Name) {
		return g, nil
	}
	patterns, err := c.custom.Patterns()
	if err != nil || patterns == nil {
		return g, err
	}
	uses := custom.NewUses(g)
	found := map[*ir.Node]*replacement{} // by output
	for _, p := range patterns {
		for _, n := range g.Nodes {
			m := p.Match(uses, n)
			if m == nil {
				continue
			}
			r := &replacement{in: m.In}
			if r.attrs, err = p.Attrs(m.Own, nil); err != nil {
				return nil, err
			}
			r.attrs.Gradient = nil // as in withoutRules
			why := m.Miss
			if why == "" {
				why = r.refused(c, g)
			}
			if why != "" {
				c.missed(p.Name, n, why)
				continue
			}
			c.fired(p.Name, n)
			uses.Take(m)
			for k, o := range m.Outputs {
				found[o] = r
				r.outputs = append(r.outputs, output{o, k})
			}
		}
	}
	if len(found) == 0 {
		return g, nil
	}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		r := found[n]
		if r == nil {
			return nil
		}
		if r.values == nil {
			in := make([]*ir.Node, len(r.in))
			for k, x := range r.in {
				in[k] = lookup(x)
			}
			r.values = out.AddResults(len(r.attrs.Expansion.Outputs), op.CustomDef, r.attrs, in...)
		}
		for _, o := range r.outputs {
			if o.node == n {
				return r.values[o.result]
			}
		}
		return nil
	})
}

// replacement is a custom op that replaces nodes.
type replacement struct {
	attrs   op.CustomAttrs
	in      []*ir.Node // in the old graph
	outputs []output
	values  []*ir.Node // in the new graph, once it is there
}

// output is a node that a result replaces.
type output struct {
	node   *ir.Node
	result int
}

// refused returns the reason why the target does not claim the op, or "".
func (r *replacement) refused(c *context, g *ir.Graph) string {
	n := &ir.Node{ID: len(g.Nodes), Op: op.CustomDef, Attrs: r.attrs, In: r.in, Graph: g}
	var err error
	if n.Type, n.Results, err = n.Infer(ir.Type{}, g.Syms); err != nil {
		return err.Error()
	}
	if how, why := c.target.Takes(n); how != target.Native {
		return missTarget + ": " + why
	}
	return ""
}
