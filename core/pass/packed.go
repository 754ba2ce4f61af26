package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// packedPart is q, k or v (index 0, 1 or 2) as a part of one tensor qkv [..., 3*H*D], for W sequences of S tokens.
type packedPart struct {
	qkv        *ir.Node
	which      int
	w, s, h, d int64
}

// packedOf recognises a part at n. The elements of n are those of [W,H,S,D], in some shape. There are two forms:
//
//	transpose{0,2,1,3}( [W,S,H,D] = narrow{last axis, i*H*D, H*D}(qkv) )
//	narrow{0, i, 1}( transpose{2,0,3,1,4}( [W,S,3,H,D] = qkv ) )
func packedOf(n *ir.Node) (p packedPart, ok bool) {
	n = strip(n)
	if !n.Type.Shape.IsStatic() {
		return p, false
	}
	if n.Is(op.TransposeDef) && slices.Equal(perm(n), headsFirst) {
		s := n.In[0].Type.Shape
		cut := strip(n.In[0])
		p.w, p.s, p.h, p.d = s[0].Const, s[1].Const, s[2].Const, s[3].Const
		if !cut.Is(op.NarrowDef) {
			return p, false
		}
		a := cut.Attrs.(op.NarrowAttrs)
		p.qkv = strip(cut.In[0])
		x := cut.In[0].Type
		if a.Axis != x.Rank()-1 || int64(a.Len) != p.h*p.d || !x.Shape[a.Axis].Is(3*p.h*p.d) || a.Start%a.Len != 0 ||
			a.Len == 0 {
			return p, false
		}
		p.which = a.Start / a.Len
		return p, true
	}
	if !n.Is(op.NarrowDef) {
		return p, false
	}
	a, t := n.Attrs.(op.NarrowAttrs), strip(n.In[0])
	if a.Axis != 0 || a.Len != 1 || !n.In[0].Type.Shape[0].Is(3) || !t.Is(op.TransposeDef) ||
		!slices.Equal(perm(t), []int{2, 0, 3, 1, 4}) {
		return p, false
	}
	s := t.In[0].Type.Shape
	p = packedPart{strip(t.In[0]), a.Start, s[0].Const, s[1].Const, s[3].Const, s[4].Const}
	return p, s[2].Is(3)
}

// sameSource reports whether two parts come from the same tensor and have the same sizes.
func (p packedPart) sameSource(q packedPart) bool {
	q.which = p.which
	return p == q
}

// elems returns the number of elements of a static shape.
func elems(s ir.Shape) int64 {
	n, _ := s.Numel()
	return n.Const
}
