package pass

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// normRules fold a batch norm into the convolution or the product before it, if all weights are known at compile time:
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
		product := n.In[0]
		if product.Is(op.ReshapeDef) {
			product = product.In[0]
		}
		return n.Type.DType == dtype.F32 && product.Is(op.MatMulDef, op.Conv1DDef, op.Conv2DDef, op.Conv3DDef) &&
			c.fixed(product.In[1]) && product.In[1].Type.DType == dtype.F32
	})
	return []rw.Rule{{Name: "batch-norm", Match: match, To: foldBatchNorm}}
}

func foldBatchNorm(c *rw.Context) *ir.Node {
	n := c.Root()
	x := n.In[0]
	product := x
	if x.Is(op.ReshapeDef) {
		product = x.In[0]
	}
	if c.Uses(x) != 1 || c.Uses(product) != 1 || c.Uses(product.In[1]) != 1 {
		c.Miss(rw.MultiConsumer)
		return nil
	}
	channels := n.Type.Shape[1]
	w, a, isProduct := product.In[1], ir.Shape{channels}, product.Is(op.MatMulDef)
	switch last := product.Type.Rank() - 1; {
	case isProduct:
		// the channels of a norm of rank 2 are the columns of the product
		if n.Type.Rank() != 2 || last < 1 || w.Type.Rank() != 2 || product.Type.Shape[last] != channels {
			return nil
		}
		if product.Attrs.(op.MatMulAttrs).TransB {
			a = append(a, ir.Static(1))
		}
	case x != product || product.Attrs.(op.ConvAttrs).Layout != firstLayout(product):
		return nil
	default:
		for range w.Type.Rank() - 1 {
			a = append(a, ir.Static(1))
		}
	}
	gamma, beta, mean, variance := c.Map(n.In[1]), c.Map(n.In[2]), c.Map(n.In[3]), c.Map(n.In[4])
	eps := op.Const(c.Out, n.Attrs.(op.BatchNormAttrs).Eps, ir.TypeOf(dtype.F32))
	scale := op.Mul(gamma, op.Rsqrt(op.Add(variance, eps)))
	in := product.MapIn(c.Map)
	in[1] = op.Mul(in[1], reshaped(scale, a))
	if isProduct {
		shift := op.Sub(beta, op.Mul(mean, scale))
		return reshaped(op.Add(op.MatMul(in[0], in[1], product.Attrs.(op.MatMulAttrs)), shift), n.Type.Shape)
	}
	if in[op.ConvBias] != nil {
		mean = op.Sub(mean, in[op.ConvBias])
	}
	in[op.ConvBias] = op.Sub(beta, op.Mul(mean, scale))
	return c.Out.Add(product.Op, product.Attrs, in...)
}

// firstLayout returns the layout of a convolution with channels first.
func firstLayout(n *ir.Node) string {
	return map[*ir.OpDef]string{op.Conv1DDef: op.NCW, op.Conv2DDef: op.NCHW, op.Conv3DDef: op.NCDHW}[n.Op]
}
