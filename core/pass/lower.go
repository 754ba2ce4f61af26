package pass

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// lower replaces each op above the target's level by its own expansion (ir.Lower), until none is left: blocks always,
// fused ops where the target does not take them. Models are written in blocks, targets run tensor ops.
//
//	y = linear x, w, b {act="relu"}
//
// becomes
//
//	m = matmul x, w {trans_b=true}
//	s = add m, b
//	y = relu s
func lower(c *context, g *ir.Graph) (*ir.Graph, error) {
	for {
		n := 0
		next, err := g.Rebuild(func(out *ir.Graph, n1 *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
			if n1.Op.Level <= c.target.Level {
				return nil
			}
			if !n1.Op.CanLower() {
				out.Fail(fmt.Errorf("op %s has no expansion, and target %s does not run it", n1.Op.Name, c.target.Name))
				return nil
			}
			n++
			c.fired(n1.Op.Name, n1)
			return n1.Op.LowerTo(out, n1, in)
		})
		if err != nil || n == 0 {
			return next, err
		}
		g = next
	}
}
