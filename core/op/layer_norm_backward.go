package op

import "github.com/rlx-go/rlx/core/ir"

// LayerNormBackwardDef defines the gradients of layer_norm.
var LayerNormBackwardDef = normBackward("layer_norm",
	"The gradients of layer_norm (see there), given x, gamma and the gradient dy of its result; dy has the type of x, f32 "+
		"or f64. With s = 1/sqrt(var + eps), xhat = (x - mean)*s and g = dy*gamma: dx = s*(g - mean(g) - "+
		"xhat*mean(g*xhat)) over the last axis; dgamma = sum of dy*xhat and dbeta = sum of dy, both over all rows in the "+
		"same order in every run.",
	true, func(a LayerNormAttrs) float64 { return a.Eps },
	func(eps float64) LayerNormAttrs { return LayerNormAttrs{eps} })

// LayerNormBackward returns the gradients of x, gamma and beta of LayerNorm, given the gradient of its result.
func LayerNormBackward(x, gamma, dy *ir.Node, eps float64) []*ir.Node {
	return x.Graph.AddResults(3, LayerNormBackwardDef, LayerNormAttrs{eps}, x, gamma, dy)
}

var _ = ir.LowerTuple(LayerNormBackwardDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	return lowerRowsBackward(in, n.Attrs.(LayerNormAttrs).Eps, true)
})

var _ = ir.Gradient(LayerNormDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	in := allWidened(n.In[0], n.In[1], dy[0])
	return narrowed(LayerNormBackward(in[0], in[1], in[2], n.Attrs.(LayerNormAttrs).Eps), n.In), nil
})
