package pass

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// Reasons why attention is not fused. What follows them names nodes and shapes.
const (
	missLayout = "UnsupportedLayout" // ranks, batches or head dims that attention does not take
	missScores = "UnsupportedScores" // something other than a scaled product, a soft cap, masks and biases
)

// fuseAttention replaces softmax(scale * q·kᵀ + bias)·v by one op, so the scores [B,H,Sq,Sk] are not stored:
//
//	s = matmul q, k {trans_b=true}
//	c = mul s, scale
//	m = add c, bias
//	p = softmax m {axis=3}
//	o = matmul p, v        ->   o = attention q, k, v, bias {layout="bhsd", mask="bias"}
//
// The factor may also be a division, and it may be on q or k; one that differs by head or query moves to q. A soft cap
// (cap * tanh(s / cap)) may follow it. Then there may be any number of biases and of masks by where. One mask alone
// becomes causal or sliding if its condition compares positions or is a table of such a comparison, and custom
// otherwise; several become one bias. Reshapes and casts of scores and of weights may be anywhere, as long as queries
// and keys stay axes of their own. Batch and heads are the axes of the form that has most of them. Keys and values that
// are repeated for groups of query heads are read without the repetition (kv_heads). Tensors of rank 3 count as one
// head. If another node reads the scores or the softmax, they must be stored, so nothing is fused (MultiConsumer). A
// row that is masked completely by -Inf gives zeros after fusing, and NaN before, unless the model makes its weights 0.
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
		return c.replace(out, "attention", n, func() *ir.Node { return a.build(n, lookup) })
	})
}

type attentionForm struct {
	scoresForm
	attentionSizes
	operands [3]attentionOperand // q, k and v
	attrs    op.AttentionAttrs
}

// attentionAt recognises the pattern at its last product. miss says why a softmax of a product is not fused.
func (c *context) attentionAt(n *ir.Node, uses []int) (a attentionForm, ok bool, miss string) {
	if !n.Is(op.MatMulDef) || n.Attrs.(op.MatMulAttrs) != (op.MatMulAttrs{}) {
		return a, false, ""
	}
	p, bias, shared := weightsOf(n.In[0], uses)
	if p == nil || p.Attrs.(op.SoftmaxAttrs).Axis != p.Type.Rank()-1 {
		return a, false, ""
	}
	f := scoresFinder{c, map[*ir.Node]string{}}
	var why string
	if a.scoresForm, why = f.find(p.In[0]); why != "" {
		return a, true, missScores + ": " + why
	}
	if bias != nil && !a.adds(bias) {
		return a, true, missScores + ": weights become 0 by " + bias.Label() + ", which is not added to the scores"
	}
	if shared == nil {
		shared = a.stored(uses)
	}
	if shared != nil {
		return a, true, fmt.Sprintf("%s: %s %s is read by other nodes", rw.MultiConsumer, shared.OpName(),
			shared.Label())
	}
	if why = a.fits(n, p); why != "" {
		return a, true, missLayout + ": " + why
	}
	a.setAttrs()
	return a, true, ""
}

// weightsOf returns the softmax below reshapes and casts of the weights x, or nil. It also looks below two forms that
// make the weights of masked rows 0, as attention does: where(isnan(p), 0, p), and where(max(bias) == -Inf, 0, p), for
// which it returns the bias. shared is a node on the way that another node reads.
func weightsOf(x *ir.Node, uses []int) (p, bias, shared *ir.Node) {
	for once := 1; ; {
		if uses[x.ID] != once {
			shared = x
		}
		once = 1
		switch {
		case x.Is(op.SoftmaxDef):
			return x, bias, shared
		case x.Is(op.ReshapeDef) && keepsLastTwo(x.In[0], x),
			x.Is(op.CastDef) && x.Type.DType.IsFloat() && x.In[0].Type.DType.IsFloat():
			x = x.In[0]
		case x.Is(op.WhereDef) && x.In[0].Is(op.IsnanDef) && x.In[0].In[0] == x.In[2]:
			if !isZero(x.In[1]) || uses[x.In[0].ID] != 1 {
				return nil, nil, nil
			}
			x, once = x.In[2], 2
		case x.Is(op.WhereDef) && bias == nil && isZero(x.In[1]) && sameElems(x, x.In[2]):
			if bias = fullyMasked(x.In[0]); bias == nil {
				return nil, nil, nil
			}
			x = x.In[2]
		default:
			return nil, nil, nil
		}
	}
}

func isZero(n *ir.Node) bool {
	v, ok := scalarOf(n)
	return ok && v == 0
}

// fullyMasked returns the value whose rows the condition compares with -Inf by their largest element, without casts. It
// returns nil for other conditions.
func fullyMasked(cond *ir.Node) *ir.Node {
	if !cond.Is(op.EqDef) || !cond.In[0].Is(op.ReduceMaxDef) {
		return nil
	}
	most := cond.In[0]
	attrs, x := most.Attrs.(op.ReduceAttrs), most.In[0]
	least, ok := scalarOf(cond.In[1])
	if !ok || !math.IsInf(least, -1) || !attrs.KeepDims || !slices.Equal(attrs.Axes, []int{x.Type.Rank() - 1}) {
		return nil
	}
	return withoutCasts(x)
}

// withoutCasts returns the node before casts from one type of floats to another.
func withoutCasts(n *ir.Node) *ir.Node {
	for n.Is(op.CastDef) && n.Type.DType.IsFloat() && n.In[0].Type.DType.IsFloat() {
		n = n.In[0]
	}
	return n
}

// adds reports whether the value is a bias of the scores, so that they are -Inf where it is.
func (s *scoresForm) adds(bias *ir.Node) bool {
	return slices.ContainsFunc(s.terms, func(t scoreTerm) bool { return withoutCasts(t.n) == bias && t.times > 0 })
}

// setAttrs sets the attributes of the op.
func (a *attentionForm) setAttrs() {
	a.attrs = op.AttentionAttrs{Heads: int(a.h), Layout: op.BHSD, Mask: op.MaskNone,
		Scale: attrScale(a.scale, a.d), Softcap: a.softcap}
	if a.hkv != a.h {
		a.attrs.KVHeads = int(a.hkv)
	}
	if a.spanOnly() && a.span.attrs(&a.attrs, a.sq, a.sk) {
		return
	}
	switch {
	case len(a.terms) == 0 && len(a.masks) == 0:
	case len(a.terms) == 0 && len(a.masks) == 1 && math.IsInf(a.masks[0].never, -1):
		a.attrs.Mask = op.MaskCustom
	default:
		a.attrs.Mask = op.MaskBias
	}
}

// build adds the op and what it needs, and returns a value of n's type.
func (a *attentionForm) build(n *ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
	q, k, v := a.operand(0, lookup), a.operand(1, lookup), a.operand(2, lookup)
	if a.factor != nil {
		q = op.Mul(q, a.mapped(*a.factor, lookup))
	}
	if k.Type.DType != v.Type.DType {
		k, v = widened32(k), widened32(v)
	}
	if q.Type.DType != v.Type.DType && v.Type.DType == dtype.F32 {
		q = widened32(q)
	}
	var o op.AttentionOperands
	switch a.attrs.Mask {
	case op.MaskCustom:
		m := a.masks[0]
		o.Mask = a.mapped(scoreTerm{m.cond, m.full, 1}, lookup)
		if m.opposite {
			o.Mask = op.Not(o.Mask)
		}
	case op.MaskBias:
		o.Mask = a.bias(q.Type.DType, lookup)
	}
	y := op.Attention(q, k, v, o, a.attrs)
	if y.Type.DType != n.Type.DType {
		y = op.Cast(y, n.Type.DType)
	}
	return reshaped(y, n.Type.Shape)
}

// widened32 returns x as f32.
func widened32(x *ir.Node) *ir.Node {
	if x.Type.DType == dtype.F32 {
		return x
	}
	return op.Cast(x, dtype.F32)
}

// bias adds the sum of the terms where no mask replaces it.
func (a *attentionForm) bias(t dtype.DType, lookup func(*ir.Node) *ir.Node) *ir.Node {
	var sum *ir.Node
	for _, term := range a.terms {
		x := a.mapped(term, lookup)
		if x.Type.DType != t {
			x = op.Cast(x, t)
		}
		if term.times != 1 {
			x = op.Mul(x, op.Const(x.Graph, term.times, ir.Type{DType: t}))
		}
		if sum == nil {
			sum = x
		} else {
			sum = op.Add(sum, x)
		}
	}
	for _, m := range a.masks {
		cond := a.mapped(scoreTerm{m.cond, m.full, 1}, lookup)
		never := op.Const(cond.Graph, m.never, ir.Type{DType: t})
		if sum == nil {
			sum = op.Const(cond.Graph, 0, ir.Type{DType: t})
		}
		if m.opposite {
			sum = op.Where(cond, never, sum)
		} else {
			sum = op.Where(cond, sum, never)
		}
	}
	return sum
}

// reshaped returns x with the shape s.
func reshaped(x *ir.Node, s ir.Shape) *ir.Node {
	if x.Type.Shape.Equal(s) {
		return x
	}
	return op.Reshape(x, s)
}

func withoutAxis(s ir.Shape, axis int) ir.Shape { return slices.Delete(slices.Clone(s), axis, axis+1) }
