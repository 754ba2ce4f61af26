package pass

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// strip walks up through reshapes.
func strip(n *ir.Node) *ir.Node {
	for n.Is(op.ReshapeDef) {
		n = n.In[0]
	}
	return n
}

// scalarOf is the value of a splat, or of a reshaped one.
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

// unscale removes constant factors from n, also through reshapes: n = factor * base, up to its shape.
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

// sameElems reports whether a splat did not broadcast the other operand.
func sameElems(n, x *ir.Node) bool { return n.Type.Shape.Equal(x.Type.Shape) }

// attrScale is the scale attribute for a factor: 0 if it is the default.
func attrScale(factor float64, d int64) float64 {
	if math.Abs(factor*math.Sqrt(float64(d))-1) < 1e-6 {
		return 0
	}
	return factor
}

// product is scale * q·kᵀ, recognised at n. q and k have no factors any more, but may be reshapes:
// their last axes are [S,D].
type product struct {
	mm, q, k *ir.Node
	kTrans   bool // k is [D,S]
	scale    float64
}

// productOf recognises scores; n is the scores after any reshapes. Nodes between n and the product must have one use.
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

// unscaleKeepShape removes factors but stops at a reshape.
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

// usedOnce reports that n and what lies above it up to (and including) base are used by nothing else. It follows the
// operand that leads to base.
func usedOnce(n, base *ir.Node, uses []int) bool {
	for {
		if uses[n.ID] != 1 {
			return false
		}
		if n == base {
			return true
		}
		next := (*ir.Node)(nil)
		for _, x := range n.In {
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
