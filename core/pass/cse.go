package pass

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// cse keeps one of several nodes that compute the same: equal op, attributes, operands (in either order where the op is
// commutative) and type. Blocks repeat constants, casts and position tables; patterns rely on equal values being one
// node. Inputs and params are left alone. Unused nodes are dropped, as after every pass.
//
// A result of an op with several is the same as that result of an equal op.
func cse(c *context, g *ir.Graph) (*ir.Graph, error) {
	seen := map[string]*ir.Node{}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		if n.Op.Effects || n.Op.Updates {
			return nil
		}
		k := key(n, lookup)
		if old := seen[k]; old != nil {
			c.fired("same", n)
			return old
		}
		if by, result := n.Maker(); by != n {
			seen[k] = in[0].Values()[result]
		} else {
			seen[k] = out.AddDeclared(n.Op, n.Attrs, n.Type, in...)
		}
		return seen[k]
	})
}

// key is equal for nodes that compute the same; lookup gives the new nodes of operands.
func key(n *ir.Node, lookup func(*ir.Node) *ir.Node) string {
	by, result := n.Maker()
	in := make([]int, len(by.In))
	for i, x := range by.In {
		in[i] = lookup(x).ID
	}
	if by.Op.Commutative && len(in) == 2 {
		slices.Sort(in)
	}
	return fmt.Sprint(by.Op.Name, by.AttrText(), n.Type, " ", result, in)
}
