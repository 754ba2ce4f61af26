package runner

import (
	"runtime/debug"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// If a definition may leave at least collectFrom bytes of garbage, the garbage collector runs after it. Otherwise the
// garbage of several steps could exceed what ir.Node.EvalMemory reports.
const collectFrom = 4 << 20

// Reference returns a function that runs a node by its op's definition, in float64 or int64. memory is room for the
// widened operands and results, as many bytes as arrays of ir.Node.EvalMemory.
func Reference(n *ir.Node) func(in, out []tensor.Tensor, memory []byte) error {
	_, own := n.EvalMemory()
	return func(in, out []tensor.Tensor, memory []byte) error {
		array := func(t tensor.Tensor) (a *tensor.Array) {
			a, memory = tensor.ArrayIn(memory, t.DType, t.Shape...)
			return a
		}
		args := make([]*tensor.Array, len(in))
		for i, t := range in {
			if n.In[i] != nil {
				args[i] = array(t)
				args[i].Set(t)
			}
		}
		results := make([]*tensor.Array, len(out))
		for i, t := range out {
			results[i] = array(t)
			clear(results[i].F)
			clear(results[i].I)
			clear(results[i].B)
		}
		if err := n.Op.Eval(n.Attrs, args, results...); err != nil {
			return err
		}
		for i, t := range out {
			results[i].Store(t.Data)
		}
		if own >= collectFrom {
			debug.FreeOSMemory()
		}
		return nil
	}
}
