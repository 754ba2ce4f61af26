package op

import "github.com/rlx-go/rlx/core/ir"

// RmsNormBackwardDef defines the gradients of rms_norm.
var RmsNormBackwardDef = normBackward("rms_norm",
	"The gradients of rms_norm (see there), given x, gamma and the gradient dy of its result; dy has the type of x, f32 or "+
		"f64. With r = 1/sqrt(mean(x^2) + eps) and g = dy*gamma: dx = r*g - r^3 * x * mean(g*x) over the last axis; dgamma "+
		"= sum of dy*x*r and dbeta = sum of dy, both over all rows in the same order in every run.",
	false, func(a RmsNormAttrs) float64 { return a.Eps }, func(eps float64) RmsNormAttrs { return RmsNormAttrs{eps} })

// RmsNormBackward returns the gradients of x, gamma and beta of RmsNorm, given the gradient of its result.
func RmsNormBackward(x, gamma, dy *ir.Node, eps float64) []*ir.Node {
	return x.Graph.AddResults(3, RmsNormBackwardDef, RmsNormAttrs{eps}, x, gamma, dy)
}

var _ = ir.LowerTuple(RmsNormBackwardDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	return lowerRowsBackward(in, n.Attrs.(RmsNormAttrs).Eps, false)
})

var _ = ir.Gradient(RmsNormDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	in := allWidened(n.In[0], n.In[1], dy[0])
	return narrowed(RmsNormBackward(in[0], in[1], in[2], n.Attrs.(RmsNormAttrs).Eps), n.In), nil
})
