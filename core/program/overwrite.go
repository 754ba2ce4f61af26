package program

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// MayOverwrite reports whether the value n may be written over operand k of its op. If n is a result of an op with
// several, that op is its Maker's. The op must allow it, and both must have the same
// element size and shape for all values of the symbols, so that each element is read before it is overwritten. Only an
// elementwise op may read operand k a second time. Any other op may read its remaining operands after it has begun to
// write. For example, fused_matmul r, w, residual=r must not write its product over r, because r is also the left
// factor.
//
// An update of a state always writes over the state (ir.Node.Updated).
//
// The planner and the verifier both use MayOverwrite. The caller must check whether another step still needs the
// operand.
func MayOverwrite(n *ir.Node, k int) bool {
	by, _ := n.Maker()
	if k >= len(by.In) || by.In[k] == nil || !slices.Contains(n.Overwrites(), k) {
		return false
	}
	x := by.In[k]
	if !by.Op.Elementwise && (slices.Index(by.In, x) != k || slices.Contains(by.In[k+1:], x)) {
		return false
	}
	return x.Type.Shape.Equal(n.Type.Shape) && x.Type.DType.Size() == n.Type.DType.Size()
}
