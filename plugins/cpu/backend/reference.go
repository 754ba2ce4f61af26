package backend

import (
	"runtime/debug"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// collectFrom is how many bytes of garbage a definition may leave before the collector runs. The garbage of several steps would
// exceed Memory.
const collectFrom = 4 << 20

// reference runs a node by its op's definition, in memory that all such steps of a program share.
func reference(n *ir.Node) func(c *call) error {
	_, own := n.EvalMemory()
	return func(c *call) error {
		rest := c.wide
		array := func(t tensor.Tensor) (a *tensor.Array) {
			a, rest = tensor.ArrayIn(rest, t.DType, t.Shape...)
			return a
		}
		in := make([]*tensor.Array, len(c.in))
		for i, t := range c.in {
			in[i] = array(t)
			in[i].Set(t)
		}
		results := c.results()
		out := make([]*tensor.Array, len(results))
		for i, t := range results {
			out[i] = array(t)
			clear(out[i].F)
			clear(out[i].I)
			clear(out[i].B)
		}
		if err := c.node.Op.Eval(c.node.Attrs, in, out...); err != nil {
			return err
		}
		for i, t := range results {
			out[i].Store(t.Data)
		}
		if own >= collectFrom {
			debug.FreeOSMemory()
		}
		return nil
	}
}
