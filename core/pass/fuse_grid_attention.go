package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// missPacked means that q, k and v are not three parts of one tensor.
const missPacked = "NotPacked"

// fuseGridAttention replaces self-attention over a grid of tokens with decomposed relative positions, as in SAM's image
// encoder, by one op. The scores of a global block are [heads, 4096, 4096] and must not be stored.
//
//	q, k, v = parts of qkv [W,wh,ww,3*H*D], each as [W,H,S,D]
//	s = matmul (q * scale), k {trans_b=true}, seen as [W,H,wh,ww,wh,ww]
//	s = s + matmul(q, Rh) [W,H,wh,ww,wh,1] + matmul(qᵗ, Rw)ᵗ [W,H,wh,ww,1,ww]
//	o = matmul (softmax s), v, with the heads back inside: [W,wh,ww,H*D]
//	->
//	o = grid_attention qkv, pad, Rh, Rw {heads=H}
//
// The terms may be added in any order, the factor may be on q, k or the product, and reshapes may be anywhere in
// between. The window is the whole grid here, so no token is padding and pad is not read. It is the bias of the layer
// that computes qkv, if there is one, because absorbWindows needs that.
func fuseGridAttention(c *context, g *ir.Graph) (*ir.Graph, error) {
	uses := g.UseCounts()
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		f, ok, miss := gridAt(n, uses)
		switch {
		case !ok:
			return nil
		case miss != "":
			c.missed("grid-attention", n, miss)
			return nil
		}
		return c.replace(out, "grid-attention", n, func() *ir.Node { return f.build(out, n, lookup, uses) })
	})
}

// gridForm is a recognised pattern.
type gridForm struct {
	q      packedPart
	wh, ww int64
	scale  float64
	rh, rw *ir.Node
}

// gridAt recognises the pattern at the transpose that moves the heads back inside.
func gridAt(n *ir.Node, uses []int) (f gridForm, ok bool, miss string) {
	pv, weights := gridWeights(n)
	if weights == nil {
		return f, false, ""
	}
	terms, once := addends(weights.In[0], uses)
	positional := len(terms) == 3
	if !positional && len(terms) != 1 {
		return f, false, ""
	}
	s, prod, ok := scoresOf(terms, weights, &f)
	if !ok {
		return f, positional, missScores
	}
	if f.q, ok = packedParts(prod.q, prod.k, pv.In[1]); !ok {
		return f, positional, missPacked
	}
	f.scale = prod.scale
	if !positional { // the tensor must have a grid; otherwise this is plain attention
		shape := f.q.qkv.Type.Shape
		if len(shape) != 4 || !shape[0].Is(f.q.w) {
			return f, false, ""
		}
		f.wh, f.ww = shape[1].Const, shape[2].Const
	}
	if !f.sizesFit(n, pv, weights, prod) || !f.positions(f.q, prod.q) {
		return f, positional, missLayout
	}
	if !once || uses[weights.ID] != 1 || uses[pv.ID] != 1 || !usedOnce(s, prod.mm, uses) {
		return f, true, rw.MultiConsumer
	}
	return f, true, ""
}

// gridWeights returns the product of the weights with the values, below the transpose n, and the softmax that gives the
// weights. They are nil if n is not the end of an attention.
func gridWeights(n *ir.Node) (pv, weights *ir.Node) {
	if !n.Is(op.TransposeDef) || !headsInside(n) || !n.Type.Shape.IsStatic() {
		return nil, nil
	}
	pv = strip(n.In[0])
	if !pv.Is(op.MatMulDef) || pv.Attrs.(op.MatMulAttrs) != (op.MatMulAttrs{}) {
		return nil, nil
	}
	weights = strip(pv.In[0])
	if !weights.Is(op.SoftmaxDef) || weights.Attrs.(op.SoftmaxAttrs).Axis != weights.Type.Rank()-1 {
		return nil, nil
	}
	return pv, weights
}

// packedParts checks that the nodes are the queries, keys and values of one tensor, and returns the first.
func packedParts(query, key, value *ir.Node) (packedPart, bool) {
	q, okQ := packedOf(query)
	k, okK := packedOf(key)
	v, okV := packedOf(value)
	if !okQ || !okK || !okV || q.which != 0 || k.which != 1 || v.which != 2 {
		return q, false
	}
	return q, q.sameSource(k) && q.sameSource(v)
}

// sizesFit checks the sizes that every reshape in between assumes.
func (f *gridForm) sizesFit(n, pv, weights *ir.Node, prod product) bool {
	q, shape := f.q, f.q.qkv.Type.Shape
	return f.wh*f.ww == q.s && shape[len(shape)-1].Is(3*q.h*q.d) &&
		isScores(weights.Type.Shape, q) && isScores(prod.mm.Type.Shape, q) &&
		endsWith(pv.Type.Shape, q.s, q.d) && elems(pv.Type.Shape) == q.w*q.h*q.s*q.d && backInside(n, q)
}

// addends returns the terms of a sum, through reshapes. once is false if a partial sum has other uses.
func addends(n *ir.Node, uses []int) (terms []*ir.Node, once bool) {
	once = uses[n.ID] == 1
	base := n
	for base.Is(op.ReshapeDef) {
		base = base.In[0]
		once = once && uses[base.ID] == 1
	}
	if !base.Is(op.AddDef) {
		return []*ir.Node{n}, true // the caller checks its uses
	}
	for _, x := range base.Operands() {
		t, o := addends(x, uses)
		terms = append(terms, t...)
		once = once && o
	}
	return terms, once
}

// scoresOf finds the product among the terms. It keeps the other two as positions: [.., wh, ww, wh, 1] and [.., wh, ww,
// 1, ww].
func scoresOf(terms []*ir.Node, weights *ir.Node, f *gridForm) (term *ir.Node, p product, ok bool) {
	total := elems(weights.Type.Shape)
	for _, t := range terms {
		if elems(t.Type.Shape) == total && term == nil {
			if p, ok = productOf(t); ok && !p.kTrans {
				term = t
				continue
			}
		}
		s := t.Type.Shape
		if len(s) < 5 {
			return nil, p, false
		}
		s = s[len(s)-4:]
		switch {
		case s[3].Is(1) && s[2] == s[0] && f.rh == nil:
			f.rh, f.wh = t, s[0].Const
		case s[2].Is(1) && s[3] == s[1] && f.rw == nil:
			f.rw, f.ww = t, s[1].Const
		default:
			return nil, p, false
		}
	}
	return term, p, term != nil && (f.rh == nil) == (f.rw == nil)
}

// positions checks that the positional terms are products of the query with tables, and replaces the terms by the
// tables.
func (f *gridForm) positions(q packedPart, query *ir.Node) bool {
	if f.rh == nil {
		return true
	}
	query = strip(query)
	rh, ok := tableOf(strip(f.rh), f.wh, f.wh, q.d, func(grid *ir.Node) bool {
		return strip(grid) == query && endsWith(grid.Type.Shape, f.wh, f.ww, q.d)
	})
	if !ok {
		return false
	}
	// Along x the grid is transposed before and after the product, so that qx is the batch axis.
	t := strip(f.rw)
	if !t.Is(op.TransposeDef) || !swapsBeforeLast(t) {
		return false
	}
	rw, ok := tableOf(t.In[0], f.ww, f.ww, q.d, func(grid *ir.Node) bool {
		return grid.Is(op.TransposeDef) && swapsBeforeLast(grid) && strip(grid.In[0]) == query &&
			endsWith(grid.Type.Shape, f.ww, f.wh, q.d)
	})
	f.rh, f.rw = rh, rw
	return ok
}

// tableOf recognises matmul(grid, table) {trans_b} with a table [n, m, d].
func tableOf(mm *ir.Node, n, m, d int64, isGrid func(*ir.Node) bool) (*ir.Node, bool) {
	if !mm.Is(op.MatMulDef) || mm.Attrs.(op.MatMulAttrs) != (op.MatMulAttrs{TransB: true}) || !isGrid(mm.In[0]) {
		return nil, false
	}
	table := mm.In[1]
	return table, table.Type.Equal(ir.Type{DType: mm.In[0].Type.DType, Shape: ir.ShapeOf(n, m, d)})
}

// swapsBeforeLast reports whether n transposes the two axes before the last.
func swapsBeforeLast(n *ir.Node) bool {
	p := perm(n)
	want := make([]int, len(p))
	for i := range want {
		want[i] = i
	}
	if r := len(p); r >= 3 {
		want[r-3], want[r-2] = r-2, r-3
		return slices.Equal(p, want)
	}
	return false
}

// isScores reports whether s is [.., S, S] with one matrix for each window and head.
func isScores(s ir.Shape, q packedPart) bool {
	return endsWith(s, q.s, q.s) && elems(s) == q.w*q.h*q.s*q.s
}

func endsWith(s ir.Shape, dims ...int64) bool {
	return len(s) >= len(dims) && s[len(s)-len(dims):].Equal(ir.ShapeOf(dims...))
}

// headsInside reports whether n is a transpose [W,H,S,D] -> [W,S,H,D], or the same with the tokens as a grid.
func headsInside(n *ir.Node) bool {
	return slices.Equal(perm(n), headsFirst) || slices.Equal(perm(n), []int{0, 2, 3, 1, 4})
}

// backInside checks the sizes of headsInside.
func backInside(n *ir.Node, q packedPart) bool {
	s := n.In[0].Type.Shape
	return s[0].Is(q.w) && s[1].Is(q.h) && s[len(s)-1].Is(q.d)
}

func (f *gridForm) build(g *ir.Graph, n *ir.Node, lookup func(*ir.Node) *ir.Node, uses []int) *ir.Node {
	e := 3 * f.q.h * f.q.d
	var pad *ir.Node
	if lin, ok := linearOf(f.q.qkv, uses); ok && lin.bias != nil {
		pad = lookup(lin.bias)
	} else {
		pad = op.Const(g, 0, ir.TypeOf(f.q.qkv.Type.DType, e))
	}
	qkv := op.Reshape(lookup(f.q.qkv), ir.ShapeOf(f.q.w, f.wh, f.ww, e))
	attrs := op.GridAttentionAttrs{Heads: int(f.q.h), Scale: attrScale(f.scale, f.q.d)}
	var rh, rw *ir.Node
	if f.rh != nil {
		rh, rw = lookup(f.rh), lookup(f.rw)
	}
	return op.Reshape(op.GridAttention(qkv, pad, rh, rw, attrs), n.Type.Shape)
}
