package sched

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// withOutputCopies returns g with a copy for each output that cannot have its own storage: an input, a param or a state
// (or a view of one), a part of a larger value, or a value whose storage another output has.
func withOutputCopies(g *ir.Graph) (*ir.Graph, error) {
	g, err := g.Rebuild(nil)
	if err != nil {
		return nil, err
	}
	taken := map[*ir.Node]bool{}
	for i, o := range g.Outputs {
		src := o.Node.Source()
		if src.Op.Effects || src.Op.Updates || taken[src] || !whole(o.Node) {
			g.Outputs[i].Node = op.Copy(o.Node)
			continue
		}
		taken[src] = true
	}
	return g, g.Err()
}

// whole reports whether n covers all of its source, for all values of the symbols.
func whole(n *ir.Node) bool {
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
