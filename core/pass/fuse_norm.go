package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// missResidual means that the sum broadcasts, so that no operand is a residual.
const missResidual = "ResidualShape"

// fuseNorm computes a residual sum inside the norm that reads it. This saves writing the sum and reading it once:
//
//	s = add x, r
//	y = layer_norm s, γ, β {eps}   ->   y = fused_residual_layer_norm x, r, γ, β {eps}
//
// Both operands of the sum must have its full shape. A sum that has other uses must be written anyway; see addNorms.
func fuseNorm(c *context, g *ir.Graph) (*ir.Graph, error) {
	g, err := addNorms(c, g)
	if err != nil {
		return nil, err
	}
	return c.rules(g, normRules)
}

var normRules = []rw.Rule{
	{Name: "layer-norm", Match: normOfSum(op.LayerNormDef), To: func(c *rw.Context) *ir.Node {
		if !fullSum(c) {
			return nil
		}
		return op.FusedResidualLayerNorm(c.New("x"), c.New("r"), c.New("g"), c.New("b"),
			c.Root().Attrs.(op.LayerNormAttrs).Eps)
	}},
	{Name: "rms-norm", Match: normOfSum(op.RmsNormDef), To: func(c *rw.Context) *ir.Node {
		if !fullSum(c) {
			return nil
		}
		return op.FusedResidualRmsNorm(c.New("x"), c.New("r"), c.New("g"), c.New("b"),
			c.Root().Attrs.(op.RmsNormAttrs).Eps)
	}},
}

func normOfSum(def *ir.OpDef) rw.Pattern {
	return rw.Op(def, rw.Once(rw.Op(op.AddDef, rw.Any("x"), rw.Any("r"))), rw.Any("g"), rw.Any("b"))
}

func fullSum(c *rw.Context) bool {
	ok := c.Node("x").Type.Equal(c.Node("r").Type)
	if !ok {
		c.Miss(missResidual)
	}
	return ok
}
