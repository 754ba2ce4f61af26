package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// Reasons why a matmul is not fused with what follows.
const (
	// the addend is neither a vector along the last axis nor a full residual
	missBias       = "BiasRankTooHigh"
	missActivation = "UnsupportedEpilogueActivation" // an elementwise op that fused_matmul lacks
)

// fuseMatMul moves the bias, activation and residual that follow a matmul into its epilogue, where the result is still
// in registers.
//
//	m = matmul x, w {trans_b=true}
//	s = add m, b
//	a = gelu s
//	y = add a, r      ->   y = fused_matmul x, w, bias=b, residual=r {act="gelu", trans_b=true}
//
// The bias must be [N] (leading ones are dropped), and the residual must have the type of the result. A scalar or an
// [M,N] addend is neither. A matmul that is followed by none of these is not changed.
func fuseMatMul(c *context, g *ir.Graph) (*ir.Graph, error) { return c.rules(g, matMulRules) }

var matMulRules = []rw.Rule{
	{Name: "bias", Match: rw.Op(op.AddDef, rw.As("mm", rw.Once(rw.Op(op.MatMulDef))), rw.Any("b")), To: fuseBias},
	{Name: "residual", Match: rw.Op(op.AddDef, rw.As("mm", rw.Once(rw.If(product2D, noResidual))), rw.Any("r")),
		To: fuseResidual},
	{Name: "activation", Match: activated, To: fuseActivation},
}

var product2D = rw.OneOf(rw.Op(op.MatMulDef), rw.Op(op.FusedMatMulDef))

func noResidual(n *ir.Node) bool {
	return !n.Is(op.FusedMatMulDef) || n.In[op.FusedMatMulResidual] == nil
}

// activated matches a unary elementwise op on a product that has no activation or residual yet.
func activated(n *ir.Node, m *rw.Match) bool {
	if !n.Op.Elementwise || len(n.In) != 1 || n.Is(op.CastDef) {
		return false
	}
	return rw.As(
		"mm", rw.Once(
			rw.If(product2D, func(n *ir.Node) bool { return noResidual(n) && fusedAttrs(n).Act == "" })))(n.In[0], m)
}

// fusedAttrs returns the attributes of a matmul as those of a fused_matmul without epilogue.
func fusedAttrs(n *ir.Node) op.FusedMatMulAttrs {
	if a, ok := n.Attrs.(op.FusedMatMulAttrs); ok {
		return a
	}
	a := n.Attrs.(op.MatMulAttrs)
	return op.FusedMatMulAttrs{TransA: a.TransA, TransB: a.TransB}
}

// epilogue returns the captured product's attributes and its operands in the new graph.
func epilogue(c *rw.Context) (a op.FusedMatMulAttrs, x, w, bias *ir.Node) {
	mm := c.Node("mm")
	a = fusedAttrs(mm)
	if mm.Is(op.FusedMatMulDef) && mm.In[op.FusedMatMulBias] != nil {
		bias = c.Map(mm.In[op.FusedMatMulBias])
	}
	return a, c.Map(mm.In[0]), c.Map(mm.In[1]), bias
}

func fuseBias(c *rw.Context) *ir.Node {
	b, t := c.Node("b"), c.Root().Type
	shape := b.Type.Shape
	for len(shape) > 1 && shape[0].Is(1) {
		shape = shape[1:]
	}
	if !c.Node("mm").Type.Equal(t) || len(shape) != 1 || shape[0] != t.Shape[t.Rank()-1] || b.Type.Rank() > t.Rank() {
		if !b.Type.Equal(t) { // the next rule handles a residual
			c.Miss(missBias)
		}
		return nil
	}
	a, x, w, _ := epilogue(c)
	bias := c.Map(b)
	if len(shape) != b.Type.Rank() {
		bias = op.Reshape(bias, shape)
	}
	return op.FusedMatMul(x, w, bias, nil, a)
}

func fuseResidual(c *rw.Context) *ir.Node {
	mm, r := c.Node("mm"), c.Node("r")
	if !r.Type.Equal(c.Root().Type) || !mm.Type.Equal(r.Type) || r == mm {
		return nil
	}
	a, x, w, bias := epilogue(c)
	return op.FusedMatMul(x, w, bias, c.Map(r), a)
}

func fuseActivation(c *rw.Context) *ir.Node {
	a, x, w, bias := epilogue(c)
	if a.Act = op.FormatActivation(c.Root().Op, c.Root().Attrs); !op.IsActivation(a.Act) {
		c.Miss(missActivation)
		return nil
	}
	return op.FusedMatMul(x, w, bias, nil, a)
}
