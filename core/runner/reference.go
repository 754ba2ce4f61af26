package runner

import (
	"maps"
	"runtime/debug"
	"slices"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// If a definition may leave at least collectFrom bytes of garbage, the garbage collector runs after it. Otherwise the
// garbage of several steps could exceed what ir.Node.EvalMemory reports.
const collectFrom = 4 << 20

// Kernels lists the ops of a program's steps, sorted. native tells for each step whether a kernel runs it; an op is
// native if all of its steps are.
func Kernels(p *program.Program, native []bool) (out []device.Kernel) {
	all := map[string]bool{}
	for i, s := range p.Steps {
		name := p.Graph.Nodes[s.Node].OpName()
		was, seen := all[name]
		all[name] = native[i] && (was || !seen)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, device.Kernel{Op: name, Native: all[name]})
	}
	return out
}

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
			clear(results[i].Floats)
			clear(results[i].Ints)
			clear(results[i].Bytes)
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
