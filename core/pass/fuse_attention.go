package pass

import (
	"cmp"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// Reasons why attention is not fused.
const (
	missLayout = "UnsupportedLayout" // ranks, batches or head dims that attention does not take
	missScores = "UnsupportedScores" // something other than a scaled product, a soft cap and one mask
)

// fuseAttention replaces softmax(scale * q·kᵀ + bias)·v by one op, so the scores [B,H,Sq,Sk] are not stored:
//
//	s = matmul q, k {trans_b=true}
//	c = mul s, scale
//	m = add c, bias
//	p = softmax m {axis=3}
//	o = matmul p, v        ->   o = attention q, k, v, bias {layout="bhsd", mask="bias"}
//
// The factor may also be a division, and it may be on q or k. A soft cap (cap * tanh(s / cap)) may follow it. Instead
// of the bias there may be a mask by where. It becomes causal or sliding if its condition compares positions or is a
// table of such a comparison, and custom otherwise. Keys and values that are repeated for groups of query heads are
// read without the repetition (kv_heads), and so are those of [B,Hkv,1,S,D] for queries of [B,Hkv,group,S,D]. Tensors
// of rank 3 count as one head. If another node reads the scores or the softmax, they must be stored, so nothing is
// fused (MultiConsumer). A row that is masked completely gives zeros after fusing, and NaN before.
func fuseAttention(c *context, g *ir.Graph) (*ir.Graph, error) {
	uses := g.UseCounts()
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		a, ok, miss := c.attentionAt(n, uses)
		switch {
		case !ok:
			return nil
		case miss != "":
			c.missed("attention", n, miss)
			return nil
		}
		return c.replace(out, "attention", n, func() *ir.Node { return a.build(out, n, lookup) })
	})
}

type attentionForm struct {
	scoresForm
	v     *ir.Node
	sizes attentionSizes
	attrs op.AttentionAttrs
}

// attentionSizes are the sizes of the op: batch, query and key-value heads, lengths and head dim.
type attentionSizes struct {
	b, sq, sk ir.Dim
	h, hkv, d int64
}

// attentionAt recognises the pattern at its last product. miss says why a softmax of a product is not fused.
func (c *context) attentionAt(n *ir.Node, uses []int) (a attentionForm, ok bool, miss string) {
	if !n.Is(op.MatMulDef) || n.Attrs.(op.MatMulAttrs) != (op.MatMulAttrs{}) || !n.In[0].Is(op.SoftmaxDef) {
		return a, false, ""
	}
	p := n.In[0]
	if p.Attrs.(op.SoftmaxAttrs).Axis != p.Type.Rank()-1 {
		return a, false, ""
	}
	a.v = n.In[1]
	if a.scoresForm, ok = c.scoresOf(p.In[0]); !ok || a.masks() > 1 {
		return a, true, missScores
	}
	if a.kTrans && a.k.Is(op.TransposeDef) && swapsLastTwo(a.k) {
		a.k, a.kTrans = a.k.In[0], false
	}
	switch {
	case uses[p.ID] != 1 || a.stored(uses):
		return a, true, rw.MultiConsumer
	case !a.fits(n):
		return a, true, missLayout
	case a.span != keySpan{} && !a.span.attrs(&a.attrs, a.sizes.sq, a.sizes.sk):
		return a, true, missScores
	}
	return a, true, ""
}

// fits checks that q is [B,H,S,D] or [B,S,D], that k and v have the same form with equal batches and as many heads, or
// fewer that are repeated, and that the mask broadcasts to the scores. It sets sizes and attrs.
func (a *attentionForm) fits(n *ir.Node) bool {
	r := n.Type.Rank()
	q := a.q.Type
	ranks := r >= 3 && r <= 5 && q.Rank() == r && a.k.Type.Rank() == r && a.v.Type.Rank() == r
	if !ranks || !q.Equal(n.Type) || !a.mm.Type.Equal(n.In[0].Type) {
		return false
	}
	s := attentionSizes{b: q.Shape[0], sq: q.Shape[r-2], sk: a.mm.Type.Shape[r-1], h: 1, hkv: 1}
	// With rank 5 the heads are [Hkv,group], and the group of k and v is 1.
	heads := q.Shape[1 : r-2]
	for _, d := range append(slices.Clone(heads), q.Shape[r-1]) {
		if !d.IsStatic() || d.Const < 1 {
			return false
		}
	}
	for _, d := range heads {
		s.h *= d.Const
	}
	s.d = q.Shape[r-1].Const
	if !a.keysFit(&s, heads) {
		return false
	}
	a.sizes = s
	a.attrs = op.AttentionAttrs{Heads: int(s.h), Layout: op.BHSD, Mask: op.MaskNone, Scale: attrScale(a.scale, s.d),
		Softcap: a.softcap}
	if s.hkv != s.h {
		a.attrs.KVHeads = int(s.hkv)
	}
	switch {
	case a.bias != nil:
		a.attrs.Mask = op.MaskBias
		return a.bias.Type.DType == q.DType && a.maskShape(a.bias) != nil
	case a.keep != nil:
		a.attrs.Mask = op.MaskCustom
		return a.maskShape(a.keep) != nil
	}
	return true
}

// keysFit checks the shapes of the keys and values, and sets the number of their heads. If both are repeated for groups
// of query heads, it replaces them by what is repeated. heads are the axes of the queries' heads.
func (a *attentionForm) keysFit(s *attentionSizes, heads ir.Shape) bool {
	if !a.kTrans && a.k.Type.Rank() == 4 {
		k, kh := unrepeated(a.k)
		if v, vh := unrepeated(a.v); k != nil && v != nil && kh == vh {
			a.k, a.v = k, v
		}
	}
	shape := slices.Clone(a.k.Type.Shape)
	r := len(shape) // 5 if the repeated value is [B,Hkv,1,S,D]
	if a.kTrans {
		shape[r-1], shape[r-2] = shape[r-2], shape[r-1]
	}
	if !shape.Equal(a.v.Type.Shape) || a.q.Type.DType != a.v.Type.DType || shape[0] != s.b || !shape[1:r-2].IsStatic() {
		return false
	}
	if r > 3 {
		s.hkv = shape[1].Const
	}
	if r == 5 && !shape[2].Is(1) || s.hkv < 1 || s.h%s.hkv != 0 {
		return false
	}
	return len(heads) != 2 || heads[0].Is(s.hkv)
}

// unrepeated returns the value that x repeats for each head of a group, and how often. The pattern is repeat_kv of
// Transformers:
//
//	r = reshape x : [B,Hkv,1,S,D];  e = expand r : [B,Hkv,group,S,D];  reshape e : [B,Hkv*group,S,D]
//
// It returns nil for anything else. x may already have rank 5.
func unrepeated(x *ir.Node) (from *ir.Node, group int64) {
	if !x.Is(op.ReshapeDef) || !x.In[0].Is(op.ExpandDef) || x.Type.Rank() != 4 {
		return nil, 0
	}
	e := x.In[0]
	one, many := e.In[0].Type.Shape, e.Type.Shape
	if len(one) != 5 || len(many) != 5 || !one[2].Is(1) || !many[2].IsStatic() || !one[:2].Equal(many[:2]) ||
		!one[3:].Equal(many[3:]) ||
		!many[3:].Equal(x.Type.Shape[2:]) || many[0] != x.Type.Shape[0] || !many[1].IsStatic() ||
		!x.Type.Shape[1].Is(many[1].Const*many[2].Const) {
		return nil, 0
	}
	from = e.In[0]
	if from.Is(op.ReshapeDef) && from.In[0].Type.Rank() == 4 && from.In[0].Type.Shape.Equal(withoutAxis(one, 2)) {
		from = from.In[0]
	}
	return from, many[2].Const
}

func withoutAxis(s ir.Shape, axis int) ir.Shape { return slices.Delete(slices.Clone(s), axis, axis+1) }

// maskShape returns the shape of a mask as [B,H,Sq,Sk], where dims may be 1. It returns nil if m cannot be a mask.
func (a *attentionForm) maskShape(m *ir.Node) ir.Shape {
	full, own := a.mm.Type.Shape, m.Type.Shape
	if len(own) > len(full) {
		return nil
	}
	for len(own) < len(full) {
		own = append(ir.Shape{ir.Static(1)}, own...)
	}
	for i, d := range own {
		if !d.Is(1) && d != full[i] {
			return nil
		}
	}
	r := len(own)
	heads := ir.Static(1)
	if h := own[1 : r-2]; h.Equal(full[1 : r-2]) {
		heads = ir.Static(a.sizes.h)
	} else if slices.ContainsFunc(h, func(d ir.Dim) bool { return !d.Is(1) }) {
		return nil // a mask that some heads share
	}
	return ir.Shape{own[0], heads, own[r-2], own[r-1]}
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
	s := a.sizes
	four := func(x *ir.Node, heads int64, length ir.Dim) *ir.Node {
		return reshaped(x, ir.Shape{s.b, ir.Static(heads), length, ir.Static(s.d)})
	}
	var o op.AttentionOperands
	if m := cmp.Or(a.bias, a.keep); m != nil {
		o.Mask = reshaped(lookup(m), a.maskShape(m))
	}
	return reshaped(op.Attention(four(q, s.h, s.sq), four(k, s.hkv, s.sk), four(v, s.hkv, s.sk), o, a.attrs),
		n.Type.Shape)
}

// reshaped returns x with the shape s.
func reshaped(x *ir.Node, s ir.Shape) *ir.Node {
	if x.Type.Shape.Equal(s) {
		return x
	}
	return op.Reshape(x, s)
}
