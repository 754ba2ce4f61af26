package pass

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// cse keeps one of several nodes that compute the same: with the same op, attributes, type and operands, in either
// order if the op is commutative. Blocks repeat constants, casts and position tables, and patterns assume that equal
// values are one node. cse does not touch inputs and params. As after every pass, unused nodes are dropped.
//
// Results of an op with several results are equal if their ops and their indices are.
func cse(c *context, g *ir.Graph) (*ir.Graph, error) {
	seen := map[string]*ir.Node{}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		if n.Op.Effects || n.Updated() != nil {
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

// key returns equal strings for nodes that compute the same. lookup returns the new nodes of operands.
func key(n *ir.Node, lookup func(*ir.Node) *ir.Node) string {
	by, result := n.Maker()
	in := slices.Repeat([]int{-1}, len(by.In)) // absent operands are -1
	for i, x := range by.Operands() {
		in[i] = lookup(x).ID
	}
	if by.Op.Commutative && len(in) == 2 {
		slices.Sort(in)
	}
	return fmt.Sprint(by.Op.Name, by.AttrText(), n.Type, " ", result, in)
}
