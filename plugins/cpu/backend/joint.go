package backend

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// Consecutive steps that multiply the same activations by different weights, such as q, k and v of attention, run
// jointly if product.GemmJoint takes them. Each still has a step of its own, and runs by itself if the run is observed.

// jointStep is a product of its first operand with parameters.
type jointStep struct {
	args   func(c *call) (g product.GemmArgs, ok bool) // ok is false if the call is a batch of products
	rounds bool                                        // see product.GemmJoint
}

// joint holds a step and the steps after it that run jointly with it.
type joint struct {
	steps []jointStep // empty if the step runs by itself
	args  []product.GemmArgs
}

// join finds the steps that run jointly.
func (x *executable) join() (scratch pool.Size) {
	x.joints = make([]joint, len(x.program.Steps))
	for i := 0; i < len(x.program.Steps); {
		first := x.program.Graph.Nodes[x.program.Steps[i].Node]
		var steps []jointStep
		var types []dtype.DType
		for k, s := range x.program.Steps[i:] {
			n := x.program.Graph.Nodes[s.Node]
			step, ok := jointStepOf(n)
			if !ok || !x.native[i+k] || n.In[0] != first.In[0] || len(steps) > 0 && step.rounds != steps[0].rounds {
				break
			}
			steps, types = append(steps, step), append(types, n.In[1].Type.DType)
		}
		if len(steps) > 1 {
			x.joints[i] = joint{steps, make([]product.GemmArgs, len(steps))}
			shape := first.Graph.Syms.Largest(first.In[0].Type.Shape)
			last := len(shape) - 1
			scratch = scratch.With(product.JointScratch(tensor.Numel(shape[:last]), shape[last], types))
		}
		i += max(1, len(steps))
	}
	return scratch
}

// jointStepOf returns a node as a joint step. It returns false if the node cannot be one.
func jointStepOf(n *ir.Node) (s jointStep, ok bool) {
	joins := registry[n.Op.Name].joins
	if joins == nil || n.Type.DType != dtype.F32 ||
		slices.ContainsFunc(n.In[1:], func(in *ir.Node) bool { return in != nil && param(in) == nil }) {
		return s, false
	}
	return joins(n)
}

// runJoint runs the steps from i on that run jointly. It returns their number, or 0 if step i has to run by itself.
func (x *executable) runJoint(i int, needed []bool) int {
	j := &x.joints[i]
	if len(j.steps) == 0 || needed != nil && slices.Contains(needed[i:i+len(j.steps)], false) {
		return 0
	}
	for k, s := range j.steps {
		var ok bool
		if j.args[k], ok = s.args(&x.calls[i+k]); !ok {
			return 0
		}
	}
	if !product.GemmJoint(x.pool, j.args, j.steps[0].rounds) {
		return 0
	}
	return len(j.steps)
}
