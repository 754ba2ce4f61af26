package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// findOps replaces the parts of activations, norms and rotary embeddings by the ops of these names. Exporters write the
// parts, in many forms. The ops have kernels of their own, and other passes fuse them with products and sums:
//
//	d = div x, 1.4142135                 m = reduce_mean (square x) {axes=[2], keep_dims=true}
//	e = erf d                            r = rsqrt (add m, 1e-6)
//	a = add e, 1                         n = mul x, r
//	m = mul x, a                         y = mul n, weight
//	y = mul m, 0.5   ->   y = gelu x                             ->   y = rms_norm x, weight, 0 {eps=1e-6}
//
// No form depends on the order of operands or on names. Inner values that are read elsewhere, too, are computed twice.
func findOps(c *context, g *ir.Graph) (*ir.Graph, error) {
	finders := []struct {
		rule string
		find func(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node
	}{
		{"activation", findActivation}, {"sigmoid", findSigmoid}, {"clamp", findClamp},
		{"layer-norm", findShiftedNorm}, {"norm", findNorm}, {"l2-norm", findL2Norm},
		{"group-norm", findGroupNorm},
		{"rope", c.findRope}, {"roll", findRoll},
	}
	g, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		if !n.Type.DType.IsFloat() && !n.Is(op.ConcatDef) || len(n.In) == 0 {
			return nil
		}
		for _, f := range finders {
			build := f.find(n)
			if build == nil {
				continue
			}
			if made := c.replace(out, f.rule, n, func() *ir.Node { return build(lookup) }); made != nil {
				return made
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.rules(g, slices.Concat(foundRules, c.normRules()))
}

// isNumber reports whether n is a constant that is near to a number.
func isNumber(n *ir.Node, want float64) bool {
	v, ok := scalarOf(n)
	return ok && near(v, want)
}

// near reports whether a number of a model is want, rounded to f32 or to six digits.
func near(v, want float64) bool {
	d := v - want
	return d <= 2e-6*abs(want) && -d <= 2e-6*abs(want)
}

func abs(x float64) float64 { return max(x, -x) }

// otherThan returns the other operand and the number, if one operand of a binary op is a number.
func otherThan(n *ir.Node, def *ir.OpDef) (x *ir.Node, v float64, ok bool) {
	if !n.Is(def) {
		return nil, 0, false
	}
	for i := range 2 {
		if v, ok = scalarOf(n.In[1-i]); ok && sameElems(n, n.In[i]) && (i == 0 || def.Commutative) {
			return n.In[i], v, true
		}
	}
	return nil, 0, false
}

// isSquare returns x if n is its square.
func isSquare(n *ir.Node) *ir.Node {
	switch {
	case n.Is(op.SquareDef):
		return n.In[0]
	case n.Is(op.MulDef) && n.In[0] == n.In[1]:
		return n.In[0]
	case n.Is(op.PowDef) && isNumber(n.In[1], 2) && sameElems(n, n.In[0]):
		return n.In[0]
	}
	return nil
}
