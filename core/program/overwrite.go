package program

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// MayOverwrite reports whether n may write its result over operand k. The op must allow it, and both must have the same
// element size and shape for all values of the symbols, so that each element is read before it is overwritten. Only an
// elementwise op may read operand k a second time. Any other op may read its remaining operands after it has begun to
// write. For example, fused_matmul r, w, residual=r must not write its product over r, because r is also the left
// factor.
//
// An update of a state always writes over its operand 0.
//
// The planner and the verifier both use MayOverwrite. The caller must check whether another step still needs the
// operand.
func MayOverwrite(n *ir.Node, k int) bool {
	if k >= len(n.In) || n.In[k] == nil || !slices.Contains(n.Op.InPlace, k) {
		return false
	}
	x := n.In[k]
	if !n.Op.Elementwise && (slices.Index(n.In, x) != k || slices.Contains(n.In[k+1:], x)) {
		return false
	}
	return x.Type.Shape.Equal(n.Type.Shape) && x.Type.DType.Size() == n.Type.DType.Size()
}
