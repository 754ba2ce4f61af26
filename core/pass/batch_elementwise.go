package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// batchElementwise computes elementwise ops once where slices of a tensor get the same ones and are then put together
// again. This saves a step for each slice, and the copy:
//
//	a = narrow x {axis=1, start=0, len=2}     c = narrow x {axis=1, start=2, len=3}
//	b = mul a, s                              d = mul c, s
//	y = concat b, d {axis=1}             ->   y = mul x, s
//
// The slices must lie one after another along the axis of the concat. Several tensors may be cut in the same way. Any
// other operand must be one node for all slices, and the same for each element of the axis. The ops on slices must have
// no other readers; otherwise both would be computed.
func batchElementwise(c *context, g *ir.Graph) (*ir.Graph, error) {
	uses := g.UseCounts()
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		if !n.Is(op.ConcatDef) || len(n.In) < 2 || !n.In[0].Op.Elementwise {
			return nil
		}
		b := batch{axis: n.Attrs.(op.ConcatAttrs).Axis, uses: uses}
		if !b.matches(n.In) {
			return nil
		}
		return c.replace(out, "batch", n, func() *ir.Node { return b.build(n.In, lookup) })
	})
}

// batch is the search for elementwise ops on slices along an axis.
type batch struct {
	axis int
	uses []int
}

// matches reports whether the parts are slices of one tensor, one after another, or the same elementwise op on such
// parts.
func (b batch) matches(parts []*ir.Node) bool {
	first := parts[0]
	if first.Is(op.NarrowDef) {
		return b.adjacent(parts)
	}
	if !first.Op.Elementwise || first.Op == op.ElementwiseRegionDef {
		return false
	}
	for _, p := range parts {
		if p.Op != first.Op || p.AttrText() != first.AttrText() || b.uses[p.ID] != 1 || len(p.In) != len(first.In) ||
			p.Type.DType != first.Type.DType || p.Type.Rank() != first.Type.Rank() {
			return false
		}
	}
	sliced := false
	for k := range first.In {
		in := operands(parts, k)
		switch {
		case slices.Contains(in, nil):
			return false
		case b.shared(first, in):
		case b.covers(parts, in) && b.matches(in):
			sliced = true
		default:
			return false
		}
	}
	return sliced
}

// operands returns operand k of each part.
func operands(parts []*ir.Node, k int) []*ir.Node {
	in := make([]*ir.Node, len(parts))
	for i, p := range parts {
		in[i] = p.In[k]
	}
	return in
}

// shared reports whether the operands are one node, with the same values for each element of the axis.
func (b batch) shared(part *ir.Node, in []*ir.Node) bool {
	x := in[0]
	if slices.ContainsFunc(in, func(y *ir.Node) bool { return y != x }) {
		return false
	}
	at := b.axis - (part.Type.Rank() - x.Type.Rank()) // the axis in x
	return at < 0 || x.Type.Shape[at].Is(1)
}

// covers reports whether each operand has the size of its part along the axis.
func (b batch) covers(parts, in []*ir.Node) bool {
	for i, x := range in {
		if x.Type.Rank() != parts[i].Type.Rank() || x.Type.Shape[b.axis] != parts[i].Type.Shape[b.axis] {
			return false
		}
	}
	return true
}

// adjacent reports whether the parts are slices of one tensor along the axis, one after another.
func (b batch) adjacent(parts []*ir.Node) bool {
	next := 0
	for i, p := range parts {
		if !p.Is(op.NarrowDef) || p.In[0] != parts[0].In[0] {
			return false
		}
		a := p.Attrs.(op.NarrowAttrs)
		if a.Axis != b.axis || i > 0 && a.Start != next {
			return false
		}
		next = a.Start + a.Len
	}
	return true
}

// build computes the parts at once.
func (b batch) build(parts []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
	first := parts[0]
	if first.Is(op.NarrowDef) {
		from, to := first.Attrs.(op.NarrowAttrs), parts[len(parts)-1].Attrs.(op.NarrowAttrs)
		x, size := lookup(first.In[0]), to.Start+to.Len-from.Start
		if x.Type.Shape[b.axis].Is(int64(size)) {
			return x
		}
		return op.Narrow(x, b.axis, from.Start, size)
	}
	in := make([]*ir.Node, len(first.In))
	for k := range in {
		if same := operands(parts, k); b.shared(first, same) {
			in[k] = lookup(same[0])
		} else {
			in[k] = b.build(same, lookup)
		}
	}
	return in[0].Graph.Add(first.Op, first.Attrs, in...)
}
