package pass

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// cse keeps one of several nodes that compute the same: equal op, attributes, operands (in either order where the op is
// commutative) and type. Blocks repeat constants, casts and position tables; patterns rely on equal values being one
// node. Inputs and params are left alone. What nothing needs any more is dropped, as after every pass.
func cse(c *context, g *ir.Graph) (*ir.Graph, error) {
	seen := map[string]*ir.Node{}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
		if n.Op.Effects {
			return nil
		}
		k := key(n, in)
		if old := seen[k]; old != nil {
			c.fired("same", n)
			return old
		}
		r := out.AddDeclared(n.Op, n.Attrs, n.Type, in...)
		seen[k] = r
		return r
	})
}

func key(n *ir.Node, in []*ir.Node) string {
	var b strings.Builder
	fmt.Fprint(&b, n.Op.Name, n.AttrText(), n.Type)
	if n.Op.Commutative && len(in) == 2 && in[0].ID > in[1].ID {
		in = []*ir.Node{in[1], in[0]}
	}
	for _, x := range in {
		fmt.Fprint(&b, " ", x.ID)
	}
	return b.String()
}
