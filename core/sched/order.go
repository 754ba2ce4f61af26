package sched

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// graphOrder returns the steps in the order of the graph, except that copies for outputs, the last nodes of the graph,
// run as soon as possible. This shortens the life of their operands.
func graphOrder(g *ir.Graph) []*ir.Node {
	copies := map[*ir.Node][]*ir.Node{}
	isCopy := map[*ir.Node]bool{}
	uses := g.UseCounts()
	for _, o := range g.Outputs {
		if n := o.Node; n.Op.Name == "copy" && uses[n.ID] == 1 {
			isCopy[n] = true
			copies[n.In[0].Source()] = append(copies[n.In[0].Source()], n)
		}
	}
	var order []*ir.Node
	for _, n := range g.Nodes {
		if program.IsStep(n) && !isCopy[n] {
			order = append(order, n)
		}
		order = append(order, copies[n]...)
	}
	return order
}

// frugalOrder always runs the ready step that increases memory least: the size of its result less that of the values
// that it reads last. On a tie it runs the earlier node. The result is not always better than graphOrder, so Build
// compares the two.
func frugalOrder(g *ir.Graph) []*ir.Node {
	size := make([]int64, len(g.Nodes))
	left := make([]int, len(g.Nodes))        // by source: how many reads remain
	waits := make([]int, len(g.Nodes))       // by step: how many operands are not computed yet
	readers := make([][]*ir.Node, len(left)) // by source: the steps that read it
	// by step: the updates that must run after it, because they overwrite values that it reads
	before := map[*ir.Node][]*ir.Node{}
	var ready []*ir.Node
	for _, n := range g.Nodes {
		if !program.IsStep(n) {
			continue
		}
		for _, v := range n.Values() {
			size[v.ID] = program.AlignUp(g.Syms.MaxBytes(v.Type))
		}
		for _, s := range sources(n) {
			left[s.ID]++
			readers[s.ID] = append(readers[s.ID], n)
			if program.IsComputed(s) {
				waits[n.ID]++
			}
		}
		for _, old := range n.Updates() { // after the other readers, which precede n in g
			for _, r := range readers[old.ID] {
				if r != n {
					waits[n.ID]++
					before[r] = append(before[r], n)
				}
			}
		}
		if waits[n.ID] == 0 {
			ready = append(ready, n)
		}
	}
	for _, o := range g.Outputs {
		left[o.Node.Source().ID]++ // never freed
	}
	growth := func(n *ir.Node) int64 {
		var sum int64
		for _, v := range n.Values() {
			sum += size[v.ID]
		}
		for _, s := range sources(n) {
			if left[s.ID] == 1 {
				sum -= size[s.ID] // size is 0 for inputs and params
			}
		}
		return sum
	}
	var order []*ir.Node
	for len(ready) > 0 {
		best := 0
		for i, n := range ready {
			a, b := growth(n), growth(ready[best])
			if a < b || a == b && n.ID < ready[best].ID {
				best = i
			}
		}
		n := ready[best]
		ready = slices.Delete(ready, best, best+1)
		order = append(order, n)
		for _, s := range sources(n) {
			left[s.ID]--
		}
		next := slices.Clone(before[n])
		for _, v := range n.Values() {
			next = append(next, readers[v.ID]...)
		}
		for _, r := range next {
			if waits[r.ID]--; waits[r.ID] == 0 {
				ready = append(ready, r)
			}
		}
	}
	return order
}

// sources returns the nodes whose values n reads, without duplicates.
func sources(n *ir.Node) []*ir.Node {
	var out []*ir.Node
	for _, x := range n.Operands() {
		if s := x.Source(); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
