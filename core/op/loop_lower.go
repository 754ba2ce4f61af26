package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// InlineGuarded adds the nodes of a body to g, as ir.Graph.Inline does. active, if not nil, is a bool[] that is false
// if nothing uses the results. The added nodes must not fail then. So each operand that an op checks (ir.Def.Checked),
// such as the indices of gather, is replaced by a safe value unless active is true, and loops get active as their
// guard.
func InlineGuarded(g, body *ir.Graph, in []*ir.Node, prefix string, active *ir.Node) []*ir.Node {
	if active == nil {
		return g.Inline(body, in, prefix)
	}
	return g.InlineWith(body, in, prefix, func(n *ir.Node, in []*ir.Node) (any, []*ir.Node) {
		if n.Op == LoopDef {
			a := n.Attrs.(LoopAttrs)
			if last := len(in) - 1; a.Guarded {
				in[last] = And(active, in[last])
			} else {
				a.Guarded, in = true, append(in, active)
			}
			return a, in
		}
		for _, c := range n.Op.Checked {
			k := c.Operand
			if k < len(in) && in[k] != nil && !(c.Integers && in[k].Type.DType.IsFloat()) {
				in[k] = Where(active, in[k], Const(g, c.Safe, ir.Type{DType: in[k].Type.DType}))
			}
		}
		return n.Attrs, in
	})
}

// unrolled is the loop without a loop: every iteration is computed, and those after the end do not change the values.
// They cannot fail; see InlineGuarded.
var _ = ir.LowerTuple(LoopDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a := n.Attrs.(LoopAttrs)
	if a.Nodes() > MaxUnrolled {
		g.Fail(fmt.Errorf("the loop has %d iterations, which have %d nodes together; where a target does not run loops as "+
			"one step, as cpu does, they are unrolled, to at most %d nodes. Compile for cpu, give fewer iterations or a "+
			"smaller body, or run a shorter loop several times with its results as inputs", a.Length, a.Nodes(),
			MaxUnrolled))
	}
	prefix := func(t int, what string) string {
		if i := n.ID + 1; n.Graph != nil && i < len(n.Graph.Nodes) && n.Graph.Nodes[i].Name != "" {
			return fmt.Sprintf("%s.%d.%s.", n.Graph.Nodes[i].Name, t, what)
		}
		return ""
	}
	a.Body = withoutLoops(g, a.Body)
	if a.Cond != nil {
		a.Cond = withoutLoops(g, a.Cond)
	}
	first, fixed, steps, guard := splitLoop(a, in)
	var active *ir.Node
	if guard != nil {
		active = *guard
	}
	now, zero := slices.Clone(first), map[int]*ir.Node{}
	all := make([][]*ir.Node, a.Carried)
	for t := range a.Length {
		if a.Cond != nil {
			// After the end cond gets the values with which it returned false, so only the guard makes it fail.
			var safe *ir.Node
			if guard != nil {
				safe = *guard
			}
			c := InlineGuarded(g, a.Cond, slices.Concat(now, fixed), prefix(t, "cond"), safe)[0]
			if active != nil {
				c = And(active, c)
			}
			active = c
		}
		args := slices.Concat(now, fixed)
		for _, x := range steps {
			args = append(args, Reshape(Narrow(x, 0, t, 1), x.Type.Shape[1:]))
		}
		next := InlineGuarded(g, a.Body, args, prefix(t, "body"), active)
		for k := range next {
			if a.Cond != nil && next[k] != now[k] {
				next[k] = Where(active, next[k], now[k])
			}
		}
		now = next
		for _, k := range a.Results {
			if k -= a.Carried; k >= 0 {
				row := now[k]
				if a.Cond != nil {
					if zero[k] == nil {
						zero[k] = Const(g, 0, ir.Type{DType: row.Type.DType})
					}
					row = Where(active, row, zero[k])
				}
				all[k] = append(all[k], row)
			}
		}
	}
	var out []*ir.Node
	for _, k := range a.Results {
		if k < a.Carried {
			if a.Cond == nil && guard != nil && now[k] != first[k] {
				now[k] = Where(*guard, now[k], first[k])
			}
			out = append(out, now[k])
			continue
		}
		x := Stack(0, all[k-a.Carried]...)
		if a.Cond == nil && guard != nil {
			x = Where(*guard, x, Const(g, 0, ir.Type{DType: x.Type.DType}))
		}
		out = append(out, x)
	}
	return out
})

// withoutLoops returns b with its loops unrolled.
func withoutLoops(g, b *ir.Graph) *ir.Graph {
	if !slices.ContainsFunc(b.Nodes, func(n *ir.Node) bool { return n.Op == LoopDef }) {
		return b
	}
	out, _, err := b.Expand(func(n *ir.Node) bool { return n.Op == LoopDef })
	if err != nil {
		g.Fail(fmt.Errorf("graph %s: %w", b.Name, err))
	}
	return out
}
