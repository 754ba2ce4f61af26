package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// fuseConv moves the sums and the activation that follow a convolution into it, where the result is still in a cache. A
// sum before the activation is the addend, as in residual networks, and one after it the residual.
//
//	c = conv2d x, w, bias=b
//	s = add c, r
//	y = relu s       ->   y = fused_conv2d x, w, bias=b, addend=r {act="relu"}
//
// What is added must have the type of the result, or be a bias: a number for each output channel. A convolution that is
// followed by none of these is not changed.
func fuseConv(c *context, g *ir.Graph) (*ir.Graph, error) { return c.rules(g, convRules) }

var convRules = []rw.Rule{
	{Name: "conv-bias", Match: rw.Op(op.AddDef, rw.As("conv", rw.Once(rw.If(anyConv, noConvBias))), rw.Any("b")),
		To: fuseConvBias},
	{Name: "conv-sum", Match: rw.Op(op.AddDef, rw.As("conv", rw.Once(rw.If(anyConv, takesConvSum))), rw.Any("r")),
		To: fuseConvSum},
	{Name: "conv-activation", Match: convActivated, To: fuseConvActivation},
}

var anyConv = rw.OneOf(rw.Op(op.Conv1DDef), rw.Op(op.Conv2DDef), rw.Op(op.Conv3DDef), rw.Op(op.FusedConv1DDef),
	rw.Op(op.FusedConv2DDef), rw.Op(op.FusedConv3DDef))

// fusedConv is a convolution as the operands and attributes of a fused one.
type fusedConv struct {
	attrs                        op.FusedConvAttrs
	x, w, bias, addend, residual *ir.Node
}

// fusedConvOf returns a node for which anyConv is true.
func fusedConvOf(n *ir.Node) fusedConv {
	f := fusedConv{x: n.In[0], w: n.In[1], bias: n.In[op.ConvBias]}
	if a, ok := n.Attrs.(op.ConvAttrs); ok {
		f.attrs = a.Fused("")
		return f
	}
	f.attrs = n.Attrs.(op.FusedConvAttrs)
	f.addend, f.residual = n.In[op.FusedConvAddend], n.In[op.FusedConvResidual]
	return f
}

// in returns the node of the new graph. Its operands are those of the old one.
func (f fusedConv) in(c *rw.Context) *ir.Node {
	to := func(n *ir.Node) *ir.Node {
		if n == nil {
			return nil
		}
		return c.Map(n)
	}
	return op.FusedConv(to(f.x), to(f.w), to(f.bias), to(f.addend), to(f.residual), f.attrs)
}

func noConvBias(n *ir.Node) bool {
	f := fusedConvOf(n)
	return f.bias == nil && f.addend == nil && f.attrs.Act == "" && f.residual == nil
}

// takesConvSum reports whether something can be added to a convolution.
func takesConvSum(n *ir.Node) bool { return fusedConvOf(n).residual == nil }

// convActivated matches a unary elementwise op on a convolution that has no activation or residual yet.
func convActivated(n *ir.Node, m *rw.Match) bool {
	if !n.Op.Elementwise || len(n.In) != 1 || n.Is(op.CastDef) {
		return false
	}
	return rw.As("conv", rw.Once(rw.If(anyConv, func(n *ir.Node) bool {
		f := fusedConvOf(n)
		return f.attrs.Act == "" && f.residual == nil
	})))(n.In[0], m)
}

func fuseConvBias(c *rw.Context) *ir.Node {
	conv, b := c.Node("conv"), c.Node("b")
	t := conv.Type
	g, err := fusedConvOf(conv).attrs.Conv().Geometry()
	if err != nil || !t.Equal(c.Root().Type) || b.Type.Rank() > t.Rank() || b.Type.DType != t.DType {
		return nil
	}
	channel := 1
	if g.Last {
		channel = t.Rank() - 1
	}
	for i, d := range b.Type.Shape {
		want := ir.Static(1)
		if i+t.Rank()-b.Type.Rank() == channel {
			want = t.Shape[channel]
		}
		if d != want {
			return nil
		}
	}
	if channel < t.Rank()-b.Type.Rank() {
		return nil
	}
	a := conv.Attrs
	if f, ok := a.(op.FusedConvAttrs); ok {
		a = f.Conv()
	}
	return c.Out.Add(plainConvs[t.Rank()-2], a, c.Map(conv.In[0]), c.Map(conv.In[1]),
		op.Reshape(c.Map(b), ir.Shape{t.Shape[channel]}))
}

// plainConvs has the convolutions by the number of spatial axes.
var plainConvs = [4]*ir.OpDef{1: op.Conv1DDef, 2: op.Conv2DDef, 3: op.Conv3DDef}

func fuseConvSum(c *rw.Context) *ir.Node {
	conv, r := c.Node("conv"), c.Node("r")
	if !r.Type.Equal(c.Root().Type) || !conv.Type.Equal(r.Type) || r == conv {
		return nil
	}
	f := fusedConvOf(conv)
	if f.addend == nil && f.attrs.Act == "" {
		f.addend = r
	} else {
		f.residual = r
	}
	return f.in(c)
}

func fuseConvActivation(c *rw.Context) *ir.Node {
	f := fusedConvOf(c.Node("conv"))
	if f.attrs.Act = op.FormatActivation(c.Root().Op, c.Root().Attrs); !op.IsActivation(f.attrs.Act) {
		c.Miss(missActivation)
		return nil
	}
	return f.in(c)
}
