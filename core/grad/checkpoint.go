package grad

import (
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// checkCuts returns an error unless the cuts are values of the loss's graph.
func checkCuts(loss *ir.Node, cuts []*ir.Node) error {
	g := loss.Graph
	for _, x := range cuts {
		if x.Graph != g || x.ID >= len(g.Nodes) || g.Nodes[x.ID] != x {
			return diag.New(code.Gradient, "grad", "%s, a value to keep, is not a value of the loss's graph", x.Label())
		}
	}
	return nil
}

// cutsOf returns the cuts before the loss in the order of the graph.
func cutsOf(loss *ir.Node, cuts []*ir.Node) []*ir.Node {
	cuts = slices.DeleteFunc(slices.Clone(cuts), func(x *ir.Node) bool { return x.ID >= loss.ID })
	slices.SortFunc(cuts, func(a, b *ir.Node) int { return a.ID - b.ID })
	return slices.Compact(cuts)
}

// segments is back for the nodes before last, a segment between cuts at a time. Those after the first cut and up to the
// last one are computed again first.
func (d *differentiator) segments(last int) {
	for i := len(d.cuts) - 1; i >= 0; i-- {
		from := d.cuts[i].ID + 1
		if i < len(d.cuts)-1 {
			d.repeat(from, last)
		}
		d.back(from, last)
		last = from
		clear(d.again)
	}
	d.back(0, last)
}

// repeat copies the nodes [from, to) that depend on an earlier cut. The cut itself is read through a node copy, so that
// the compiler does not take the two for one.
func (d *differentiator) repeat(from, to int) {
	for _, n := range d.g.Nodes[from:to] {
		if n.Op == ir.ResultDef || n.Op.Effects || n.Op.Updates { // result nodes are copied with their tuple node
			continue
		}
		repeated := false
		for _, x := range n.Operands() {
			if d.again[x] == nil && x.ID < from && slices.Contains(d.cuts, x) {
				d.copied(x, op.Copy(x))
			}
			repeated = repeated || d.again[x] != nil
		}
		if !repeated {
			continue
		}
		in := n.MapIn(func(x *ir.Node) *ir.Node {
			if y := d.again[x]; y != nil {
				return y
			}
			return x
		})
		if !n.Op.Tuple {
			d.copied(n, d.g.AddDeclared(n.Op, n.Attrs, n.Type, in...))
			continue
		}
		values := d.g.AddResults(len(n.Results), n.Op, n.Attrs, in...)
		d.copied(n, values[0].In[0])
		for k, v := range n.Values() {
			d.copied(v, values[k])
		}
	}
}

// copied records that y computes the value of x again.
func (d *differentiator) copied(x, y *ir.Node) {
	d.again[x], d.original[y] = y, x
	if d.depends[x] {
		d.depends[y] = true
	}
}

// copyOf returns the node that computes n's value again, or n itself.
func (d *differentiator) copyOf(n *ir.Node) *ir.Node {
	if y := d.again[n]; y != nil {
		return y
	}
	return n
}
