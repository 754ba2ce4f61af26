// Package split divides the graph of a method among backends if the main backend lacks some of its ops. The result is a
// list of segments that run in turn, as few as possible. Each segment is a graph for one backend. If one segment
// computes a value that another one reads, the value becomes an output of the first and an input of the second.
//
// It imports core/op, core/program and what these import, but no pass and no planner.
package split

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
)

// Options describe the backends.
type Options struct {
	// Targets is the number of backends, at most 64. Backend 0 is the main one. It runs all ops that it can, except
	// light ops between ops that it lacks.
	Targets int
	// Takes reports whether a backend runs a node, natively or by reference. A constant that becomes a weight counts as
	// run where the backend has its element type.
	Takes func(target int, n *ir.Node) bool
	// Why, if not nil, returns the rules or types that backend 0 lacks to run a node, for errors.
	Why func(n *ir.Node) string
}

func (o Options) why(n *ir.Node) string {
	if o.Why == nil {
		return ""
	}
	return ": " + o.Why(n)
}

// Segment is a part of a method that runs on one backend.
type Segment struct {
	Target int
	Graph  *ir.Graph
	Inputs map[string]program.Source // by name of an input of Graph
	// Lacked and Moved are as in program.Segment.
	Lacked, Moved []program.OpCount
}

// Plan is a divided graph.
type Plan struct {
	Segments []Segment
	Outputs  []program.Source // where each output of the divided graph comes from
}

// Make divides a graph. Backend 0 keeps states between runs. So Make returns an error if backend 0 lacks an op that
// reads or updates a state. Make also returns an error if the old value of a state must be read after an update that
// depends on the reader.
//
// An output that is an input, a weight, a constant or a state becomes a copy. The copy is an op like others, because
// backend 0 may lack its element type or have no kernel that copies it.
func Make(g *ir.Graph, o Options) (*Plan, error) {
	g, err := op.CopyOutputs(g, own)
	if err != nil {
		return nil, err
	}
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
		return nil,
			fmt.Errorf(
				"a state is read as it was before an update that is computed from it; such a method runs on one backend only")
	}
	d.at = ord.place(seq)
	return d.plan(seq)
}

// divider holds what Make knows about one graph.
type divider struct {
	g     *ir.Graph
	unit  []int      // by node: its unit, or -1 if every segment has its own copy; see own
	nodes []*ir.Node // by unit: its op
	lacks []bool     // by unit: whether backend 0 lacks the op
	units []unit
	at    []int // by unit: its segment

	segments []*segment
	taken    map[string]bool // names in use
}

// own reports whether each segment that reads n has its own copy. This is true for inputs of the method, weights,
// constants, states, and views of these.
func own(n *ir.Node) bool {
	if n.StateOf() != nil {
		return n.Updated() == nil
	}
	n = n.Source()
	return len(n.In) == 0
}

// leaves returns the inputs, weights, constants and states among the sources of the operands of n. A segment with n has
// them, too.
func leaves(n *ir.Node) (out []*ir.Node) {
	for _, x := range n.Operands() {
		if x = x.Source(); own(x) {
			out = append(out, x)
		}
	}
	return out
}

// lightFLOPs is the most operations per element, of operands and results together, that a light op has. Elementwise
// ops, reductions and ops that only move data are light. Matrix products and convolutions are not.
const lightFLOPs = 8

// light reports whether the op is cheap enough to run on another backend if that saves copies.
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

// collect makes the units and finds out which backends may compute each.
func (d *divider) collect(o Options) error {
	g := d.g
	inputs := g.Inputs()
	var takes []uint64 // by unit: a bit for each backend that runs the op
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
		for _, x := range n.Operands() {
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
			lacks := func(x *ir.Node) bool { return !o.Takes(k, x) }
			if !lacks(n) && !slices.ContainsFunc(leaves(n), lacks) {
				who |= 1 << k
			}
		}
		if stateful {
			if who &= 1; who == 0 {
				return fmt.Errorf(
					"%s: op %s reads or updates a state, which stays on the backend that the method is compiled for, so the op cannot run elsewhere%s",
					n.Label(), n.OpName(), o.why(n))
			}
		}
		if who == 0 {
			return fmt.Errorf("%s: no backend runs op %s%s", n.Label(), n.OpName(), o.why(n))
		}
		d.unit[i] = len(d.units)
		d.units, d.nodes, takes, d.lacks = append(d.units, u), append(d.nodes, n), append(takes, who),
			append(d.lacks, who&1 == 0)
	}
	d.orderUpdates()
	d.choose(takes)
	return nil
}

// base returns the node that must be computed before n can be read. For a view of a state it is the state or the update
// that n views, for other nodes n itself.
func base(n *ir.Node) *ir.Node {
	for n.StateOf() != nil && n.Updated() == nil && n.Op != ir.StateDef {
		n = n.In[0]
	}
	return n
}

// orderUpdates makes each update of a state wait for the readers of the old value, so that no reader is in a later
// segment. Within a segment the scheduler orders them, or adds a copy.
func (d *divider) orderUpdates() {
	for i, n := range d.nodes {
		old := n.Updates()
		if len(old) == 0 {
			continue
		}
		for k, m := range d.nodes {
			if k != i && slices.ContainsFunc(m.In, func(x *ir.Node) bool {
				return x != nil && x.StateOf() != nil && slices.Contains(old, base(x))
			}) {
				d.units[i].after = append(d.units[i].after, k)
			}
		}
	}
}

// choose decides which backends may compute each unit. A unit that backend 0 runs stays there, with three exceptions:
// views, copies, and light ops whose results lead to an op that backend 0 lacks and that depend on such an op or only
// on weights. A copy is made wherever that costs least.
func (d *divider) choose(takes []uint64) {
	// whether an op that backend 0 lacks comes before or after
	above, below := slices.Clone(d.lacks), slices.Clone(d.lacks)
	known := make([]bool, len(d.units)) // whether the unit depends only on weights
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
		case d.lacks[i], view, n.Is(op.CopyDef), below[i] && (above[i] || known[i]) && light(n):
			d.units[i].on = takes[i]
		default:
			d.units[i].on = 1
		}
	}
}
