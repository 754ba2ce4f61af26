package pass

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// strip returns the node before any reshapes.
func strip(n *ir.Node) *ir.Node {
	for n.Is(op.ReshapeDef) {
		n = n.In[0]
	}
	return n
}

// scalarOf returns the value of a splat, possibly reshaped.
func scalarOf(n *ir.Node) (float64, bool) {
	for n.Is(op.ReshapeDef, op.ExpandDef) {
		n = n.In[0]
	}
	if !n.Is(op.ConstDef) {
		return 0, false
	}
	v := n.Attrs.(op.ConstAttrs).Value
	if n.Type.DType == dtype.F32 {
		v = float64(float32(v))
	}
	return v, true
}

// unscale removes constant factors from n, also through reshapes. n is factor * base, up to its shape.
func unscale(n *ir.Node) (base *ir.Node, factor float64) {
	factor = 1
	for base = n; ; {
		var f float64
		base, f = unscaleKeepShape(strip(base))
		factor *= f
		if !base.Is(op.ReshapeDef) {
			return base, factor
		}
	}
}

// sameElems reports whether n has the shape of its operand x, so that the other operand, a splat, did not broadcast x.
func sameElems(n, x *ir.Node) bool { return n.Type.Shape.Equal(x.Type.Shape) }

// attrScale returns the scale attribute for a factor. It is 0 for the default, 1/√d.
func attrScale(factor float64, d int64) float64 {
	if math.Abs(factor*math.Sqrt(float64(d))-1) < 1e-6 {
		return 0
	}
	return factor
}

// product is a recognised scale * q·kᵀ. q and k have no factors any more, but may be reshapes; their last axes are
// [S,D].
type product struct {
	mm, q, k *ir.Node
	kTrans   bool // the last axes of k are [D,S]
	scale    float64
}

// productOf recognises a product of scores at n, through reshapes. Nodes between n and the product must have one use.
func productOf(n *ir.Node) (product, bool) {
	mm, f := unscale(n)
	if !mm.Is(op.MatMulDef) || mm.Attrs.(op.MatMulAttrs).TransA {
		return product{}, false
	}
	q, fq := unscaleKeepShape(mm.In[0])
	k, fk := unscaleKeepShape(mm.In[1])
	if q.Type.DType != k.Type.DType {
		return product{}, false
	}
	return product{mm, q, k, !mm.Attrs.(op.MatMulAttrs).TransB, f * fq * fk}, true
}

// unscaleKeepShape removes constant factors but stops at a reshape.
func unscaleKeepShape(n *ir.Node) (*ir.Node, float64) {
	f := 1.0
	for n.Is(op.MulDef, op.DivDef) {
		base, g := unscaleOnce(n)
		if base == nil {
			break
		}
		n, f = base, f*g
	}
	return n, f
}

func unscaleOnce(n *ir.Node) (*ir.Node, float64) {
	if v, ok := scalarOf(n.In[1]); ok && v != 0 && sameElems(n, n.In[0]) {
		if n.Is(op.DivDef) {
			v = 1 / v
		}
		return n.In[0], v
	}
	if v, ok := scalarOf(n.In[0]); ok && v != 0 && n.Is(op.MulDef) && sameElems(n, n.In[1]) {
		return n.In[1], v
	}
	return nil, 0
}

// usedOnce reports whether each node from n to base, including both, has only one use. It follows the operand that
// leads to base.
func usedOnce(n, base *ir.Node, uses []int) bool {
	for {
		if uses[n.ID] != 1 {
			return false
		}
		if n == base {
			return true
		}
		next := (*ir.Node)(nil)
		for _, x := range n.Operands() {
			if _, c := scalarOf(x); !c {
				next = x
				break
			}
		}
		if next == nil {
			return false
		}
		n = next
	}
}
