package grad

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// Attrs are the attributes of grad.
type Attrs struct {
	// number of operands at the end that are values to keep. They have no gradient. The backward pass computes other
	// values that it needs from them again.
	Checkpoints int `attr:"checkpoints"`
}

// Def is the block that stands for gradients in a graph. Its lowering is Of.
var Def = ir.DefineTuple(ir.TupleDef[Attrs]{
	Name: "grad",
	Doc: "The gradient of loss, a float of rank 0, with respect to each of wrt, which are floats: loss is " +
		"differentiated as a function of the values wrt, by the rules of the ops in between. The gradient is " +
		"0 where loss does not depend on a value. With checkpoints, the last operands are values to keep, " +
		"such as the result of each layer; values between them are computed again in the backward pass, which " +
		"saves memory. In text the node may be written da, db = grad(loss; a, b). docs/gradients.md " +
		"describes gradients.",
	Results:  "a gradient for each of wrt, of its type",
	Operands: "loss, wrt...",
	Block:    true,
	Late:     true,
	Infer: func(s ir.Sig[Attrs]) ([]ir.Type, error) {
		if loss := s.In[0]; !loss.DType.IsFloat() || loss.Rank() != 0 {
			return nil, fmt.Errorf("loss is %v; want a float of rank 0; reduce it to one number first, for example with reduce_mean",
				loss)
		}
		n, most := len(s.In)-s.Attrs.Checkpoints, len(s.In)-2
		if s.Attrs.Checkpoints < 0 || s.Attrs.Checkpoints > most {
			return nil, fmt.Errorf("checkpoints is %d; want 0 to %d, so that values to take a gradient with respect to are left",
				s.Attrs.Checkpoints, most)
		}
		for k, t := range s.In[1:n] {
			if !t.DType.IsFloat() {
				return nil, fmt.Errorf("wrt[%d] is %v; want a float type: only floats have gradients", k, t)
			}
		}
		return s.In[1:n], nil
	},
	Tol: func(_ Attrs, _, out []ir.Type) []ir.Tolerance { return make([]ir.Tolerance, len(out)) },
})

var _ = ir.LowerTuple(Def, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	first := len(in) - n.Attrs.(Attrs).Checkpoints
	d, err := Checkpointed(in[0], in[first:], in[1:first]...)
	if err != nil {
		g.Fail(err)
	}
	return d
})
