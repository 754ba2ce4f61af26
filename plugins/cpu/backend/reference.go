package backend

import (
	"runtime/debug"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// If a definition may leave at least collectFrom bytes of garbage, the garbage collector runs after it. Otherwise the garbage of
// several steps could exceed what Memory reports.
const collectFrom = 4 << 20

// reference returns a function that runs a node by its op's definition, in the memory call.wide.
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
			if c.has(i) {
				in[i] = array(t)
				in[i].Set(t)
			}
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
