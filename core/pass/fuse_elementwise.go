package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// fuseElementwise makes regions of chains of elementwise ops, so that they run in one pass over memory. A chain grows
// from its last node to its operands. An operand joins if it is elementwise, has the shape of the result, is not read
// outside of the chain, and the target runs the region with it. A cast from a type of fewer bits joins even if it is
// read elsewhere, because computing it again is cheaper than storing it. Small operands that the region op can address
// (a suffix of the shape, or one element) stay operands. Splats become literals.
//
//	a = mul x, y
//	b = sigmoid a
//	c = add b, 1     ->   c = elementwise_region x, y {expr="v0=mul(i0,i1); v1=sigmoid(v0); v2=add(v1,1.0)"}
func fuseElementwise(c *context, g *ir.Graph) (*ir.Graph, error) {
	g, err := batchElementwise(c, g)
	if err != nil {
		return nil, err
	}
	uses := g.UseCounts()
	regions := map[*ir.Node]*region{}
	taken := map[*ir.Node]bool{}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if taken[n] || !regionable(n) {
			continue
		}
		r := c.grow(g, n, uses, taken)
		if len(r.nodes) < 2 {
			continue
		}
		regions[n] = r
		for _, m := range r.nodes {
			taken[m] = !repeatable(m)
		}
	}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		r := regions[n]
		if r == nil {
			return nil
		}
		c.fired("region", n)
		in := make([]*ir.Node, len(r.in))
		for i, x := range r.in {
			in[i] = lookup(x)
		}
		return op.ElementwiseRegion(r.expr, in...)
	})
}

// regionable reports whether a node may be a step of a region. The op and the target decide which types a region may
// have.
func regionable(n *ir.Node) bool { return op.CanBeInRegion(n.Op) }

// repeatable reports whether n is a cast to f32 from a type of fewer bits.
func repeatable(n *ir.Node) bool {
	return n.Is(op.CastDef) && n.Type.DType == dtype.F32 && n.In[0].Type.DType.Size() < dtype.F32.Size()
}

// region is a list of nodes, in order and with the result last, and its expression.
type region struct {
	nodes []*ir.Node
	in    []*ir.Node
	expr  string
}

// grow returns the largest region with n as its result that the op and the target accept. It tries the nearest operands
// first.
func (c *context) grow(g *ir.Graph, n *ir.Node, uses []int, taken map[*ir.Node]bool) *region {
	r := c.makeRegion(g, []*ir.Node{n})
	if r == nil {
		return &region{}
	}
	refused := map[*ir.Node]bool{}
	for {
		next := candidate(r.nodes, uses, func(x *ir.Node) bool {
			return !refused[x] && !taken[x] && regionable(x) && x.Type.Shape.Equal(n.Type.Shape)
		})
		if next == nil {
			return r
		}
		i, _ := slices.BinarySearchFunc(r.nodes, next, func(a, b *ir.Node) int { return a.ID - b.ID })
		if bigger := c.makeRegion(g, slices.Insert(slices.Clone(r.nodes), i, next)); bigger != nil {
			r = bigger
		} else {
			refused[next] = true
		}
	}
}

// candidate returns the latest operand of the nodes that may join them: it is not among them, is allowed, and is
// repeatable or read only by them.
func candidate(nodes []*ir.Node, uses []int, allowed func(*ir.Node) bool) *ir.Node {
	inside := map[*ir.Node]int{}
	for _, n := range nodes {
		for _, x := range n.Operands() {
			inside[x]++
		}
	}
	var best *ir.Node
	for x, k := range inside {
		if (k == uses[x.ID] || repeatable(x)) && !slices.Contains(nodes, x) && allowed(x) &&
			(best == nil || x.ID > best.ID) {
			best = x
		}
	}
	return best
}

// makeRegion returns the region of the nodes. It returns nil if the op refuses it, because of too many steps or
// operands or an operand that it cannot address, or if the target does not run it.
func (c *context) makeRegion(g *ir.Graph, nodes []*ir.Node) *region {
	r := &region{nodes: nodes}
	steps := make([]op.RegionStep, len(nodes))
	if len(nodes) > op.MaxRegionSteps {
		return nil
	}
	for i, n := range nodes {
		steps[i].Op, steps[i].Attrs = n.Op, n.Attrs
		for k, x := range n.Operands() {
			steps[i].In = append(steps[i].In, r.operand(n, k, x))
		}
	}
	if len(r.in) > op.MaxRegionInputs {
		return nil
	}
	types := make([]ir.Type, len(r.in))
	for i, x := range r.in {
		types[i] = x.Type
	}
	r.expr = op.FormatRegion(steps)
	t, err := op.ElementwiseRegionDef.Infer(op.ElementwiseRegionAttrs{Expr: r.expr}, types, ir.Type{}, g.Syms)
	if err != nil || !t.Equal(nodes[len(nodes)-1].Type) {
		return nil
	}
	n := &ir.Node{Op: op.ElementwiseRegionDef, Attrs: op.ElementwiseRegionAttrs{Expr: r.expr}, In: r.in, Type: t,
		Graph: g}
	if how, _ := c.target.Takes(n); how != target.Native {
		return nil
	}
	return r
}

// operand returns how n reads its operand k: as an earlier step, a literal, or an operand of the region.
func (r *region) operand(n *ir.Node, k int, x *ir.Node) op.RegionOperand {
	if i := slices.Index(r.nodes, x); i >= 0 {
		return op.RegionOperand{Kind: op.RegionResult, Index: i}
	}
	if isLiteral(n, k) {
		return op.RegionOperand{Kind: op.RegionLiteral, Value: float32(x.Attrs.(op.ConstAttrs).Value)}
	}
	i := slices.Index(r.in, x)
	if i < 0 {
		i = len(r.in)
		r.in = append(r.in, x)
	}
	return op.RegionOperand{Kind: op.RegionInput, Index: i}
}

// isLiteral reports whether operand k is a splat that can be written as a number. Another operand must determine the
// shape.
func isLiteral(n *ir.Node, k int) bool {
	if x := n.In[k]; !x.Is(op.ConstDef) || x.Type.DType != dtype.F32 {
		return false
	}
	return slices.ContainsFunc(
		n.In, func(x *ir.Node) bool { return !x.Is(op.ConstDef) && x.Type.Shape.Equal(n.Type.Shape) })
}
