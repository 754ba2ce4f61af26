package pass

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// absorbCasts removes casts of weights before ops like matmul that can read f16 and bf16. The result is exactly the
// same, and the op reads half as many bytes. The cast would read and write the whole weight in each run.
//
//	c = cast w {to=f32}
//	y = matmul x, c {trans_b=true}   ->   y = matmul x, w {trans_b=true}
//
// A cast before a view or transpose of a weight is first moved after it, next to the op.
func absorbCasts(c *context, g *ir.Graph) (*ir.Graph, error) { return c.rules(g, castRules) }

var castRules = []rw.Rule{
	{Name: "weight", Match: rw.OneOf(
		rw.Op(op.MatMulDef), rw.Op(op.FusedMatMulDef), rw.Op(op.Conv2DDef), rw.Op(op.ConvTranspose2DDef)),
		To: absorbWeight},
	{Name: "cast-below",
		Match: rw.OneOf(rw.Op(op.ReshapeDef, widened), rw.Op(op.TransposeDef, widened), rw.Op(op.NarrowDef, widened)),
		To: func(c *rw.Context) *ir.Node {
			r, w := c.Root(), c.Node("cast").In[0]
			if !ofParam(w) {
				return nil
			}
			moved := c.Out.AddDeclared(r.Op, r.Attrs, ir.Type{DType: w.Type.DType, Shape: r.Type.Shape}, c.Map(w))
			return op.Cast(moved, r.Type.DType)
		}},
}

// widened matches an exact cast to f32 from a type that matmul can read itself.
var widened = rw.As("cast", rw.If(rw.Op(op.CastDef), isWidening))

func isWidening(n *ir.Node) bool {
	if !n.Is(op.CastDef) || n.Type.DType != dtype.F32 {
		return false
	}
	d := n.In[0].Type.DType
	return d == dtype.F16 || d == dtype.BF16
}

// absorbWeight replaces the weight, operand 1, by the operand of the cast.
func absorbWeight(c *rw.Context) *ir.Node {
	r := c.Root()
	if !isWidening(r.In[1]) || r.In[0].Type.DType != dtype.F32 {
		return nil
	}
	in := r.MapIn(c.Map)
	in[1] = c.Map(r.In[1].In[0])
	return c.Out.Add(r.Op, r.Attrs, in...)
}

// ofParam reports whether n is a param or a chain of ops on one that only move elements.
func ofParam(n *ir.Node) bool {
	for n.Is(op.ReshapeDef, op.TransposeDef, op.NarrowDef) {
		n = n.In[0]
	}
	return n.Is(op.ParamDef)
}
