package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// The lowering stores the scores, which the op itself avoids; many of them in blocks.
var _ = ir.LowerTuple(AttentionBackwardDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a, dy := n.Attrs.(AttentionAttrs), in[AttentionBackwardDY]
	in = forwardOperands(in)
	s, err := a.Sizes(in[0].Type, in[1].Type, in[2].Type)
	group := s.H / max(s.HKV, 1)
	rows, ok := s.Sq.Mul(ir.Static(group))
	if err == nil && !ok {
		err = fmt.Errorf("attention_backward: q is %v, which has too many rows", in[0].Type)
	}
	if err != nil {
		g.Fail(err)
		return in[:len(n.Results)]
	}
	if rows := a.blockRows(g, in, s); rows > 0 {
		return a.backwardInBlocks(g, in, dy, s, rows)
	}
	return a.lowerBackward(g, in, dy, s, rows, nil)
})

// lowerBackward adds the gradients for s.Sq queries. in has the operands of attention. rows is the number of queries
// of the heads that share a kv head. first, if not nil, is the position of query 0.
func (a AttentionAttrs) lowerBackward(g *ir.Graph, in []*ir.Node, dy *ir.Node, s AttentionShape, rows ir.Dim,
	first *ir.Node) []*ir.Node {
	group := s.H / max(s.HKV, 1)
	zero := number(0, dy)
	x := a.lowerWeights(g, in, s, first)
	dy = a.splitHeads(dy, s, s.Sq, group, s.DV)
	dp := MatMul(dy, x.v, MatMulAttrs{TransB: true})
	mean := ReduceSum(Mul(x.weight, dp), true, -1)
	dscore := Mul(x.weight, Sub(dp, mean))
	ds := Mul(dscore, number(a.EffectiveScale(s.D), dy))
	if a.Softcap != 0 {
		ds = Mul(ds, Sub(number(1, dy), Mul(x.capped, x.capped)))
	}
	k := x.k
	if x.stale != nil {
		k = Where(x.stale, zero, k)
		shape := x.stale.Type.Shape
		ds = Where(Reshape(x.stale, ir.Shape{shape[0], shape[1], shape[2], shape[4], shape[3]}), zero, ds)
	}
	// overGroup returns the product a^T*b, summed over the query heads of a group: [B,HKV,1,Sk,columns].
	overGroup := func(a, b *ir.Node, columns int64) *ir.Node {
		one, kv := ir.Static(1), ir.Static(s.HKV)
		a = Reshape(a, ir.Shape{s.B, kv, one, rows, s.Sk})
		b = Reshape(b, ir.Shape{s.B, kv, one, rows, ir.Static(columns)})
		return MatMul(a, b, MatMulAttrs{TransA: true})
	}
	join := func(x *ir.Node, t ir.Type) *ir.Node {
		if a.Layout != BHSD {
			x = Transpose(x, 0, 3, 1, 2, 4)
		}
		return Reshape(x, t.Shape)
	}
	results := []*ir.Node{
		join(MatMul(ds, k, MatMulAttrs{}), in[0].Type),
		join(overGroup(ds, x.q, s.D), in[1].Type),
		join(overGroup(x.weight, dy, s.DV), in[2].Type),
	}
	if a.Mask == MaskBias {
		mask := in[AttentionMask].Type
		var axes []int // on which the mask is repeated
		for i, axis := range [][]int{{0}, {1, 2}, {3}, {4}} {
			if mask.Shape[i].Is(1) {
				axes = append(axes, axis...)
			}
		}
		results = append(results, Reshape(ReduceSum(dscore, false, axes...), mask.Shape))
	}
	if sinks := in[AttentionSinks]; sinks != nil {
		lost := ReduceSum(Mul(Div(x.sink, x.sinkSum), mean), false, 0, 3, 4)
		results = append(results, Reshape(Neg(lost), sinks.Type.Shape))
	}
	return results
}

var _ = ir.Gradient(AttentionDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a := n.Attrs.(AttentionAttrs)
	s, err := a.SizesOf(n.InTypes())
	if err != nil {
		return nil, err
	}
	pages := n.In[AttentionPages]
	if pages == nil && n.In[1].Type.Shape[0] != s.B && !s.B.IsStatic() {
		return nil, fmt.Errorf("q is %v and k %v, a cache with room for more sequences; its gradient needs a static batch",
			n.In[0].Type, n.In[1].Type)
	}
	in := a.firstBatches(n.In, s)
	packed := a.Packed
	if len(packed) > 0 {
		in = a.unpacked(in, s)
		a.Packed, a.HeadDim = nil, 0
	}
	in = allWidened(append(in[:len(in):len(in)], dy[0])...)
	o := AttentionOperands{Mask: in[AttentionMask], Position: in[AttentionPosition], KVLen: in[AttentionKVLen],
		Sinks: in[AttentionSinks]}
	if m := n.In[AttentionMask]; a.Mask == MaskCustom {
		o.Mask = m // is compared and not computed with
	}
	d := AttentionBackward(in[0], in[1], in[2], in[len(in)-1], o, a)
	dx := make([]*ir.Node, len(n.In))
	for i := range 3 {
		dx[i] = d[i]
		if len(packed) > 0 {
			dx[i] = padTo(dx[i], n.In[i].Type.Shape, 2, packed[i])
		}
		switch sequence := n.In[AttentionSequence]; {
		case i > 0 && pages != nil:
			dx[i] = a.addPages(dx[i], pages, n.In[i].Type.Shape)
		case i > 0 && sequence != nil:
			dx[i] = ScatterAdd(dx[i], sequence, n.In[i].Type.Shape[0])
		default:
			dx[i] = padTo(dx[i], n.In[i].Type.Shape, 0, 0)
		}
	}
	d = d[3:]
	if a.Mask == MaskBias {
		dx[AttentionMask], d = d[0], d[1:]
	}
	if o.Sinks != nil {
		dx[AttentionSinks] = d[0]
	}
	return narrowed(dx, n.In), nil
})

// addPages adds the gradient of the result of gatherPages to the pages of which it was made. shape is theirs.
func (a AttentionAttrs) addPages(dy, pages *ir.Node, shape ir.Shape) *ir.Node {
	p := pages.Type.Shape
	all, ok := p.Numel()
	if !ok {
		panic("BUG: op: the number of pages is no size")
	}
	if a.Layout == BHSD {
		dy = Transpose(Reshape(dy, ir.Shape{p[0], shape[1], p[1], shape[2], shape[3]}), 0, 2, 1, 3, 4)
	}
	each := slices.Clone(shape)
	each[0] = all
	return ScatterAdd(Reshape(dy, each), Reshape(pages, ir.Shape{all}), shape[0])
}

// padTo returns x with zeros before and after it on an axis, so that it has the size that shape has there and begins at
// start.
func padTo(x *ir.Node, shape ir.Shape, axis, start int) *ir.Node {
	if x.Type.Shape[axis] == shape[axis] {
		return x
	}
	before, after := make([]int, len(shape)), make([]int, len(shape))
	before[axis], after[axis] = start, int(shape[axis].Const-x.Type.Shape[axis].Const)-start
	return Pad(x, before, after, 0)
}
