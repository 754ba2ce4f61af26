package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// splitLinear computes the parts of a packed projection separately if only parts are used. A slice of the last axis is
// a copy. A slice of the rows of a weight that is stored [out,in] is a view, so q, k and v need no copies:
//
//	m = matmul x, w {trans_b=true}     wq = narrow w {axis=0, len=C}
//	y = add m, b                       mq = matmul x, wq {trans_b=true}
//	q = narrow y {axis=2, len=C}  ->   q  = add mq, (narrow b {axis=0, len=C})
//
// Every use of y must be such a slice, and the slices must not overlap, so that nothing is computed twice.
func splitLinear(c *context, g *ir.Graph) (*ir.Graph, error) {
	uses := g.UseCounts()
	cuts := map[*ir.Node][]*ir.Node{}
	for _, n := range g.Nodes {
		if n.Is(op.NarrowDef) && n.Attrs.(op.NarrowAttrs).Axis == n.Type.Rank()-1 {
			cuts[n.In[0]] = append(cuts[n.In[0]], n)
		}
	}
	split := map[*ir.Node]linearForm{}
	for y, parts := range cuts {
		lin, ok := linearOf(y, uses)
		if !ok || !lin.mm.Attrs.(op.MatMulAttrs).TransB || lin.w.Type.Rank() != 2 {
			continue
		}
		if _, view := parts[0].View(); view || uses[y.ID] != len(parts) || overlap(parts) {
			continue
		}
		for _, p := range parts {
			split[p] = lin
		}
	}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		lin, ok := split[n]
		if !ok {
			return nil
		}
		a := n.Attrs.(op.NarrowAttrs)
		return c.replace(out, "narrow", n, func() *ir.Node {
			y := op.MatMul(lookup(lin.x), op.Narrow(lookup(lin.w), 0, a.Start, a.Len), lin.mm.Attrs.(op.MatMulAttrs))
			if lin.bias != nil {
				y = op.Add(y, op.Narrow(lookup(lin.bias), 0, a.Start, a.Len))
			}
			return y
		})
	})
}

// overlap reports whether slices of one axis share elements.
func overlap(parts []*ir.Node) bool {
	for i, p := range parts {
		a := p.Attrs.(op.NarrowAttrs)
		for _, q := range parts[:i] {
			b := q.Attrs.(op.NarrowAttrs)
			if a.Start < b.Start+b.Len && b.Start < a.Start+a.Len {
				return true
			}
		}
	}
	return false
}

// linearForm is x·w + bias as tensor ops.
type linearForm struct {
	mm, x, w, bias *ir.Node // bias is [N] or nil
}

// linearOf recognises a linear layer at n. Its product must have no other use.
func linearOf(n *ir.Node, uses []int) (linearForm, bool) {
	if n.Is(op.MatMulDef) {
		return linearForm{mm: n, x: n.In[0], w: n.In[1]}, true
	}
	if !n.Is(op.AddDef) {
		return linearForm{}, false
	}
	for i, mm := range n.In {
		b := n.In[1-i]
		if mm.Is(op.MatMulDef) && uses[mm.ID] == 1 && mm.Type.Equal(n.Type) && b.Type.Rank() == 1 &&
			b.Type.Shape[0] == n.Type.Shape[n.Type.Rank()-1] {
			return linearForm{mm: mm, x: mm.In[0], w: mm.In[1], bias: b}, true
		}
	}
	return linearForm{}, false
}
