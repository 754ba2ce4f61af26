package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// legalizeBroadcast spells out the broadcasts that not every backend does: where an operand of an elementwise op is
// neither one element nor (without leading 1s) a suffix of the result's shape, its elements are not found by taking the
// result's index modulo their number, and an expand makes them so. Targets whose kernels take any broadcast keep it, as
// an expand costs memory.
//
//	y = add x, c : f32[4,8]            c2 = expand c : f32[4,8]
//	(c is f32[4,1])              ->    y = add x, c2 : f32[4,8]
func legalizeBroadcast(c *context, g *ir.Graph) (*ir.Graph, error) {
	if c.target.Broadcast {
		return g, nil
	}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
		if !n.Op.Elementwise || len(in) < 2 {
			return nil
		}
		changed := false
		for i, x := range in {
			if len(x.Type.Shape) == 0 || op.IsSuffix(x.Type.Shape, n.Type.Shape) {
				continue
			}
			in[i], changed = op.Expand(x, n.Type.Shape), true
			c.fired("expand", n)
		}
		if !changed {
			return nil
		}
		return out.Add(n.Op, n.Attrs, in...)
	})
}
