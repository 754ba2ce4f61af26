package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// roundActivations lets products with packed weights round their activations to 8 bits, if Options.Activations asks for
// it. Processors multiply bytes several times as fast as floats. Products stay exact if the target has no kernel for
// rounded activations.
//
//	y = dequant_matmul x, w {scheme="packed", activations="f32"}
//	  -> y = dequant_matmul x, w {scheme="packed", activations="q8"}
func roundActivations(c *context, g *ir.Graph) (*ir.Graph, error) {
	if c.activations != op.ActivationsQ8 {
		return g, nil
	}
	return c.rules(g, roundingRules)
}

var roundingRules = []rw.Rule{
	{Name: "matmul", Match: rw.Op(op.DequantMatMulDef), To: func(c *rw.Context) *ir.Node {
		a := c.Root().Attrs.(op.DequantMatMulAttrs)
		if a.Activations != op.ActivationsF32 || a.Scheme != op.SchemePacked {
			return nil
		}
		a.Activations = op.ActivationsQ8
		return rounded(c, a)
	}},
	{Name: "grouped", Match: rw.Op(op.DequantGroupedMatMulDef), To: func(c *rw.Context) *ir.Node {
		a := c.Root().Attrs.(op.DequantGroupedMatMulAttrs)
		if a.Activations != op.ActivationsF32 {
			return nil
		}
		a.Activations = op.ActivationsQ8
		return rounded(c, a)
	}},
}

// rounded copies the root of the match with other attributes.
func rounded(c *rw.Context, attrs any) *ir.Node {
	r := c.Root()
	in := r.MapIn(c.Map)
	return c.Out.Add(r.Op, attrs, in...)
}
