package pass

import (
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
	return []rw.Rule{{Name: "batch-norm", Match: match, To: foldBatchNorm}}
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
