package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// normRules fold a batch norm into the product before it, if all weights are known at compile time. mergeConvs does the
// same for convolutions.
//
//	m = matmul x, w                                 s = mul gamma, rsqrt(variance + eps)
//	r = reshape m                                   m = matmul x, mul(w, s)
//	y = batch_norm r, gamma, beta, mean, variance   a = add m, sub(beta, mul(mean, s))
//	                                           ->   y = reshape a
//
// Only f32 is folded: of other types, the weights would be rounded once more.
func (c *context) normRules() []rw.Rule {
	match := rw.If(rw.Op(op.BatchNormDef), func(n *ir.Node) bool {
		for _, x := range n.In[1:] {
			if !c.fixed(x) {
				return false
			}
		}
		product := withoutReshape(n.In[0])
		return n.Type.DType == dtype.F32 && product.Is(op.MatMulDef) && c.fixed(product.In[1]) &&
			product.In[1].Type.DType == dtype.F32
	})
	scaled := rw.If(rw.Op(op.MulDef), func(n *ir.Node) bool { return c.scaledProduct(n).product != nil })
	return []rw.Rule{{Name: "batch-norm", Match: match, To: foldBatchNorm},
		{Name: "column-scale", Match: scaled, To: func(r *rw.Context) *ir.Node { return c.foldScale(r) }}}
}

// scaled is a product whose columns are multiplied by known factors, as the scales of layers of a transformer:
//
//	m = matmul x, w                  m = matmul x, mul(w, s)
//	a = add m, b                     y = add m, mul(b, s)
//	y = mul a, s                ->
//
// The product may be transposed before the factors, and need not have a bias.
type scaled struct {
	product, bias, factor *ir.Node // bias may be nil
	transpose             *ir.Node // or nil
	inner                 []*ir.Node
}

// scaledProduct returns the product that n multiplies by factors; product is nil if there is none.
func (c *context) scaledProduct(n *ir.Node) (s scaled) {
	if n.Type.DType != dtype.F32 {
		return scaled{}
	}
	y := n.In[1]
	if s.factor = n.In[0]; !c.constant(s.factor) {
		y, s.factor = s.factor, y
	}
	if !c.constant(s.factor) || !s.factor.IsWhole() || !y.Type.Equal(n.Type) {
		return scaled{}
	}
	axis := n.Type.Rank() - 1
	if y.Is(op.TransposeDef) {
		axis = slices.Index(perm(y), axis)
		s.transpose, s.inner, y = y, append(s.inner, y), y.In[0]
	}
	if y.Is(op.AddDef) {
		product := y.In[0]
		if s.bias = y.In[1]; !c.constant(s.bias) {
			product, s.bias = s.bias, product
		}
		if !c.constant(s.bias) || !s.bias.IsWhole() || !alongOnly(s.bias, y.Type, y.Type.Rank()-1) ||
			!product.Type.Equal(y.Type) {
			return scaled{}
		}
		s.inner, y = append(s.inner, y), product
	}
	if !y.Is(op.MatMulDef) || y.Type.DType != dtype.F32 || y.In[1].Type.Rank() != 2 ||
		y.In[1].Type.DType != dtype.F32 || !c.fixed(y.In[1]) || y.Type.Rank() < 2 ||
		!alongOnly(s.factor, n.Type, axis) {
		return scaled{}
	}
	s.product, s.inner = y, append(s.inner, y, y.In[1])
	return s
}

// alongOnly reports whether v, which broadcasts to t, has an element for each index of one axis of t.
func alongOnly(v *ir.Node, t ir.Type, axis int) bool {
	axis -= t.Rank() - v.Type.Rank()
	for i, d := range v.Type.Shape {
		if i != axis && !d.Is(1) {
			return false
		}
	}
	return axis >= 0 && v.Type.Shape[axis] == t.Shape[axis+t.Rank()-v.Type.Rank()] && v.Type.DType == t.DType
}

func (c *context) foldScale(r *rw.Context) *ir.Node {
	n := r.Root()
	s := c.scaledProduct(n)
	if slices.ContainsFunc(s.inner, func(x *ir.Node) bool { return r.Uses(x) != 1 }) {
		r.Miss(rw.MultiConsumer)
		return nil
	}
	columns := ir.Shape{s.product.Type.Shape[s.product.Type.Rank()-1]}
	factor := op.Reshape(r.Map(s.factor), columns)
	attrs, across := s.product.Attrs.(op.MatMulAttrs), factor
	if attrs.TransB {
		across = op.Reshape(factor, ir.Shape{columns[0], ir.Static(1)})
	}
	y := op.MatMul(r.Map(s.product.In[0]), op.Mul(r.Map(s.product.In[1]), across), attrs)
	if s.bias != nil {
		y = op.Add(y, op.Mul(op.Reshape(r.Map(s.bias), columns), factor))
	}
	if s.transpose != nil {
		y = op.Transpose(y, perm(s.transpose)...)
	}
	return y
}

func withoutReshape(x *ir.Node) *ir.Node {
	if x.Is(op.ReshapeDef) {
		return x.In[0]
	}
	return x
}

func foldBatchNorm(c *rw.Context) *ir.Node {
	n := c.Root()
	product := withoutReshape(n.In[0])
	if c.Uses(n.In[0]) != 1 || c.Uses(product) != 1 || c.Uses(product.In[1]) != 1 {
		c.Miss(rw.MultiConsumer)
		return nil
	}
	// the channels of a norm of rank 2 are the columns of the product
	last, channels := product.Type.Rank()-1, n.Type.Shape[1]
	if n.Type.Rank() != 2 || last < 1 || product.In[1].Type.Rank() != 2 || product.Type.Shape[last] != channels {
		return nil
	}
	in := n.MapIn(c.Map)
	scale := batchNormScale(n, in)
	attrs, factor := product.Attrs.(op.MatMulAttrs), scale
	if attrs.TransB {
		factor = op.Reshape(scale, ir.Shape{channels, ir.Static(1)})
	}
	y := op.MatMul(c.Map(product.In[0]), op.Mul(c.Map(product.In[1]), factor), attrs)
	return reshaped(op.Add(y, op.Sub(in[2], op.Mul(in[3], scale))), n.Type.Shape)
}

// batchNormScale returns gamma / sqrt(variance + eps) of a batch norm with the operands in.
func batchNormScale(n *ir.Node, in []*ir.Node) *ir.Node {
	gamma, variance := in[1], in[4]
	eps := op.Const(gamma.Graph, n.Attrs.(op.BatchNormAttrs).Eps, ir.Type{DType: n.Type.DType})
	return op.Mul(gamma, op.Rsqrt(op.Add(variance, eps)))
}
