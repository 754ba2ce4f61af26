package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// Reasons not to fuse attention.
const (
	missLayout = "UnsupportedLayout" // ranks, batches or head dims that attention does not take
	missScores = "UnsupportedScores" // something other than a scaled product and one bias
)

// fuseAttention replaces softmax(scale * q·kᵀ + bias)·v by one op, so that the scores [B,H,Sq,Sk] are never stored:
//
//	s = matmul q, k {trans_b=true}
//	c = mul s, scale
//	m = add c, bias
//	p = softmax m {axis=3}
//	o = matmul p, v        ->   o = attention q, k, v, bias {layout="bhsd", mask="bias"}
//
// The factor may also be a division, and on q or k; the bias may be absent; both may be added in either order. Tensors of
// rank 3 are taken as one head. Scores or weights that something else reads are stored anyway, so they stay
// (MultiConsumer). A row that a bias of -Inf masks out completely gives zeros afterwards, and NaN before.
func fuseAttention(c *context, g *ir.Graph) (*ir.Graph, error) {
	uses := g.UseCounts()
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		a, ok, miss := attentionAt(n, uses)
		switch {
		case !ok:
			return nil
		case miss != "":
			c.missed("attention", n, miss)
			return nil
		}
		c.fired("attention", n)
		return a.build(out, n, lookup)
	})
}

type attentionForm struct {
	product
	v, bias *ir.Node // bias may be nil
}

// attentionAt recognises the pattern at its last product. Miss says why a softmax of a product is not fused.
func attentionAt(n *ir.Node, uses []int) (a attentionForm, ok bool, miss string) {
	if !n.Is(op.MatMulDef) || n.Attrs.(op.MatMulAttrs) != (op.MatMulAttrs{}) || !n.In[0].Is(op.SoftmaxDef) {
		return a, false, ""
	}
	p, v := n.In[0], n.In[1]
	scores := p.In[0]
	if p.Attrs.(op.SoftmaxAttrs).Axis != p.Type.Rank()-1 {
		return a, false, ""
	}
	a.v = v
	if a.product, ok = productOf(scores); !ok && scores.Is(op.AddDef) {
		for i := range 2 {
			if a.product, ok = productOf(scores.In[i]); ok && scores.In[i].Type.Equal(scores.Type) {
				a.bias = scores.In[1-i]
				break
			}
			ok = false
		}
	}
	if !ok {
		return a, true, missScores
	}
	inner := scores
	if a.bias != nil {
		inner = scores.In[0]
		if inner == a.bias {
			inner = scores.In[1]
		}
	}
	switch {
	case uses[p.ID] != 1 || uses[scores.ID] != 1 || !usedOnce(inner, a.mm, uses):
		return a, true, rw.MultiConsumer
	case !a.fits(n):
		return a, true, missLayout
	}
	return a, true, ""
}

// fits checks that q, k, v are [B,H,S,D] or [B,S,D] with equal batches and heads, and the bias broadcasts to the scores.
func (a *attentionForm) fits(n *ir.Node) bool {
	q, k, v := a.q.Type, a.k.Type, a.v.Type
	r := q.Rank()
	if r != 3 && r != 4 || k.Rank() != r || v.Rank() != r || n.Type.Rank() != r || !q.Equal(n.Type) || !a.mm.Type.Equal(n.In[0].Type) {
		return false
	}
	kShape := k.Shape
	if a.kTrans {
		kShape = append(append(ir.Shape{}, kShape[:r-2]...), kShape[r-1], kShape[r-2])
	}
	if !kShape.Equal(v.Shape) || !kShape[:r-2].Equal(q.Shape[:r-2]) || q.DType != v.DType || !q.Shape[r-1].IsStatic() || q.Shape[r-1].B < 1 {
		return false
	}
	if r == 4 && (!q.Shape[1].IsStatic() || q.Shape[1].B < 1) {
		return false
	}
	if a.bias == nil {
		return true
	}
	b, s := a.bias.Type.Shape, a.mm.Type.Shape
	if len(b) > r || a.bias.Type.DType != q.DType {
		return false
	}
	for i, d := range b {
		if e := s[r-len(b)+i]; !d.Is(1) && d != e {
			return false
		}
	}
	return true
}

func (a *attentionForm) build(g *ir.Graph, n *ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
	q, k, v := lookup(a.q), lookup(a.k), lookup(a.v)
	if a.kTrans {
		r := k.Type.Rank()
		p := make([]int, r)
		for i := range p {
			p[i] = i
		}
		p[r-2], p[r-1] = r-1, r-2
		k = op.Transpose(k, p...)
	}
	// four has rank 4; a missing axis of heads goes after the batch.
	four := func(x *ir.Node) *ir.Node {
		if s := x.Type.Shape; len(s) == 3 {
			return op.Reshape(x, ir.Shape{s[0], ir.Static(1), s[1], s[2]})
		}
		return x
	}
	attrs := op.AttentionAttrs{Heads: 1, Layout: op.BHSD, Mask: op.MaskNone}
	if n.Type.Rank() == 4 {
		attrs.Heads = int(q.Type.Shape[1].B)
	}
	attrs.Scale = attrScale(a.scale, q.Type.Shape[q.Type.Rank()-1].B)
	var bias *ir.Node
	if a.bias != nil {
		attrs.Mask = op.MaskBias
		s := a.bias.Type.Shape
		for len(s) < n.Type.Rank() {
			s = append(ir.Shape{ir.Static(1)}, s...)
		}
		bias = four(op.Reshape(lookup(a.bias), s))
	}
	o := op.Attention(four(q), four(k), four(v), bias, attrs)
	if !o.Type.Equal(n.Type) {
		o = op.Reshape(o, n.Type.Shape)
	}
	return o
}
