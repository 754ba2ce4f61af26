package grad

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Def is the block that stands for gradients in a graph. Its lowering is Of.
var Def = ir.DefineTuple(ir.TupleDef[op.NoAttrs]{
	Name: "grad",
	Doc: "The gradient of loss, a float of rank 0, with respect to each of wrt, which are floats: loss is differentiated as a function of the values wrt, by the rules of the ops in between. " +
		"The gradient is 0 where loss does not depend on a value. In text the node may be written da, db = grad(loss; a, b). docs/gradients.md describes gradients.",
	Results:  "a gradient for each of wrt, of its type",
	Operands: "loss, wrt...",
	Block:    true,
	Late:     true,
	Infer: func(s ir.Sig[op.NoAttrs]) ([]ir.Type, error) {
		if loss := s.In[0]; !loss.DType.IsFloat() || loss.Rank() != 0 {
			return nil, fmt.Errorf("loss is %v; want a float of rank 0; reduce it to one number first, for example with reduce_mean",
				loss)
		}
		for k, t := range s.In[1:] {
			if !t.DType.IsFloat() {
				return nil, fmt.Errorf("wrt[%d] is %v; want a float type: only floats have gradients", k, t)
			}
		}
		return s.In[1:], nil
	},
	Tol: func(_ op.NoAttrs, _, out []ir.Type) []ir.Tolerance { return make([]ir.Tolerance, len(out)) },
})

var _ = ir.LowerTuple(Def, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	d, err := Of(in[0], in[1:]...)
	if err != nil {
		g.Fail(err)
	}
	return d
})
