package device

import (
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Examine passes a result of a step to the run's observer and searches it for NaN, if the options ask for that. by is
// the node of the step, n that of the result. Examine calls read only if it needs the value, which read may copy from a
// device. If there is a NaN, the error is ErrNaN, and stats.FirstNaN is set. Backends must call Examine after each
// step, before later steps reuse the memory.
func (o RunOptions) Examine(by, n *ir.Node, stats *Stats, read func() (tensor.Tensor, error)) error {
	observed := o.Observe != nil && slices.Contains(o.Dump, n.ID)
	checked := o.CheckNaN && n.Type.DType.IsFloat()
	if !observed && !checked {
		return nil
	}
	t, err := read()
	if err != nil {
		return err
	}
	if observed {
		if err := o.Observe(n.ID, t.Shape, t.Data); err != nil {
			return err
		}
	}
	if checked && t.HasNaN() {
		stats.FirstNaN = n.ID
		return diag.New(ErrNaN, n.Label(), "%s produced a NaN in %v", by.OpName(), n.Type)
	}
	return nil
}
