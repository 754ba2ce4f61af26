// Package split divides the graph of a method among backends if the backend that it is compiled for lacks ops. The
// result is the smallest number of segments that run in turn, each a graph for one backend. A value that one segment
// computes and another reads becomes an output of the first and an input of the second.
//
// It imports core/op, core/program and below: no pass, no planner.
package split

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// Options say which backend can run what.
type Options struct {
	// Targets is the number of backends, at most 64. Backend 0 is the one that the graph is for. It runs all nodes that
	// it can, except light ops between two ops that it lacks.
	Targets int
	// Takes reports whether a backend runs a node in some form.
	Takes func(target int, n *ir.Node) bool
}

// Segment is a part of a method for one backend.
type Segment struct {
	Target int
	Graph  *ir.Graph
	Inputs map[string]program.Source // by the names of Graph's inputs
	// Lacked and Moved are those of program.Segment.
	Lacked, Moved []program.OpCount
}

// Plan is a divided graph.
type Plan struct {
	Segments []Segment
	Outputs  []program.Source // of the graph's outputs
}

// Make divides a graph. States stay with backend 0, which keeps them between runs: it is an error if it lacks an op
// that reads one, or if one is read as it was before an update that another backend's result is needed for.
func Make(g *ir.Graph, o Options) (*Plan, error) {
	d := &divider{g: g, unit: make([]int, len(g.Nodes))}
	if err := d.collect(o); err != nil {
		return nil, err
	}
	var sizes []int64
	for _, n := range g.Inputs() {
		sizes = append(sizes, g.Syms.MaxBytes(n.Type))
	}
	ord := newOrder(d.units, sizes)
	seq := ord.fewest(o.Targets)
	if seq == nil {
		return nil, fmt.Errorf("a state is read as it was before an update that is computed from it; such a method runs on one backend only")
	}
	d.at = ord.place(seq)
	return d.plan(seq)
}

// divider divides one graph.
type divider struct {
	g     *ir.Graph
	unit  []int // by node: its unit; -1 for what each segment has for itself (see own)
	nodes []*ir.Node
	lacks []bool // by unit: backend 0 does not run it
	units []unit
	at    []int // by unit: its segment

	segments []*segment
	taken    map[string]bool // names
}

// own reports a node that every segment has for itself where it needs it: a weight, a number, a state, a view of one of
// these, and the inputs of the method.
func own(n *ir.Node) bool {
	if n.StateOf() != nil {
		return !n.Op.Updates
	}
	n = n.Source()
	return len(n.In) == 0
}

// lightFLOPs is the arithmetic for each element, read or written, up to which an op is light: elementwise ops, sums
// along an axis and what only moves data are, products and convolutions are not.
const lightFLOPs = 8

// light reports an op that may run on another backend where that saves a crossing.
func light(n *ir.Node) bool {
	syms := n.Graph.Syms
	var types [2][]ir.Type
	elems := int64(0)
	for i, list := range [][]ir.Type{n.InTypes(), n.ResultTypes()} {
		for _, t := range list {
			types[i] = append(types[i], syms.AtMost(t))
			elems += syms.MaxElems(t)
		}
	}
	return n.Op.FLOPs(n.Attrs, types[0], types[1]...) <= lightFLOPs*elems
}

// collect makes the units, with the backends that may compute each.
func (d *divider) collect(o Options) error {
	g := d.g
	inputs := g.Inputs()
	var takes []uint64 // by unit: who could run it
	for i, n := range g.Nodes {
		d.unit[i] = -1
		if n.Op == ir.ResultDef {
			d.unit[i] = d.unit[n.In[0].ID]
			continue
		}
		if own(n) {
			continue
		}
		u := unit{}
		for _, v := range n.Values() {
			u.bytes += g.Syms.MaxBytes(v.Type)
		}
		stateful := n.Op.Updates
		for _, x := range n.In {
			stateful = stateful || x.StateOf() != nil
			if y := base(x); d.unit[y.ID] >= 0 && !slices.Contains(u.in, d.unit[y.ID]) {
				u.in = append(u.in, d.unit[y.ID])
			}
			if k := slices.Index(inputs, x.Source()); k >= 0 && !slices.Contains(u.extra, k) {
				u.extra = append(u.extra, k)
			}
		}
		who := uint64(0)
		for k := range o.Targets {
			if o.Takes(k, n) {
				who |= 1 << k
			}
		}
		if stateful {
			if who &= 1; who == 0 {
				return fmt.Errorf("%s: op %s reads or updates a state, which stays on the backend that the method is compiled for; that lacks the op, so it cannot run elsewhere",
					n.Label(), n.Op.Name)
			}
		}
		if who == 0 {
			return fmt.Errorf("%s: no backend runs op %s", n.Label(), n.Op.Name)
		}
		d.unit[i] = len(d.units)
		d.units, d.nodes, takes, d.lacks = append(d.units, u), append(d.nodes, n), append(takes, who), append(d.lacks, who&1 == 0)
	}
	d.orderUpdates()
	d.choose(takes)
	return nil
}

// base is the node whose unit must run before a reader of n: n itself, or of a view of a state's value the last update.
func base(n *ir.Node) *ir.Node {
	for n.StateOf() != nil && !n.Op.Updates && n.Op != ir.StateDef {
		n = n.In[0]
	}
	return n
}

// orderUpdates makes each update wait for what reads the value that it overwrites, so that no such reader is in a later
// segment. Inside of a segment the scheduler orders them, or copies.
func (d *divider) orderUpdates() {
	for i, n := range d.nodes {
		if !n.Op.Updates {
			continue
		}
		for k, m := range d.nodes {
			if k != i && slices.ContainsFunc(m.In, func(x *ir.Node) bool { return x.StateOf() != nil && base(x) == n.In[0] }) {
				d.units[i].after = append(d.units[i].after, k)
			}
		}
	}
}

// choose sets which backends may compute each unit. A unit that backend 0 takes stays there, except views, and light
// ops between two ops that it lacks or between weights and such an op.
func (d *divider) choose(takes []uint64) {
	above, below := slices.Clone(d.lacks), slices.Clone(d.lacks) // one that it lacks is there
	known := make([]bool, len(d.units))                          // computed only from weights
	for i, u := range d.units {
		known[i] = len(u.extra) == 0
		for _, x := range u.in {
			above[i] = above[i] || above[x]
			known[i] = known[i] && known[x]
		}
	}
	for i := len(d.units) - 1; i >= 0; i-- {
		for _, x := range d.units[i].in {
			below[x] = below[x] || below[i]
		}
	}
	for i, n := range d.nodes {
		_, view := n.View()
		switch {
		case d.lacks[i], view, below[i] && (above[i] || known[i]) && light(n):
			d.units[i].on = takes[i]
		default:
			d.units[i].on = 1
		}
	}
}
