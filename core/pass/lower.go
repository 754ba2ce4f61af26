package pass

import (
	"github.com/rlx-go/rlx/core/ir"
)

// lower replaces each block by its own expansion (ir.Lower), until none is left. Models are written in blocks, targets
// run tensor ops.
//
//	y = linear x, w, b {act="relu"}
//
// becomes
//
//	m = matmul x, w {trans_b=true}
//	s = add m, b
//	y = relu s
//
// An op with several results is lowered once, when its first result is reached.
func lower(c *context, g *ir.Graph) (*ir.Graph, error) {
	for {
		expanded := map[*ir.Node][]*ir.Node{} // replacements of results, by tuple node
		next, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
			by, result := n.Maker()
			if !by.Op.Block {
				return nil
			}
			if expanded[by] == nil {
				in := by.MapIn(lookup)
				c.fired(by.Op.Name, by)
				expanded[by] = by.Op.LowerTo(out, by, in)
			}
			return expanded[by][result]
		})
		if err != nil || len(expanded) == 0 {
			return next, err
		}
		g = next
	}
}
