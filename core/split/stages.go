package split

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Stages divides the methods of a model into n segments each, for n devices of one backend that compute different runs
// at the same time. The segments of a method take about the same work, and few bytes pass between them. A state is read
// and updated in one stage only, the same in all methods, so that it can stay on one device; and methods read a weight
// in the same stage where that is possible.
//
// The result has a plan for each graph. It is nil for a method that keeps no state and has too little work for n
// segments. A method with states that cannot be divided, and methods none of which can, are errors.
func Stages(graphs []*ir.Graph, n int) ([]*Plan, error) {
	var all []*staged
	for i, g := range graphs {
		x, err := openMethod(g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name, err)
		}
		x.number, all = i, append(all, x)
	}
	slices.SortStableFunc(all, func(a, b *staged) int {
		if a.stateful() != b.stateful() {
			return map[bool]int{true: -1, false: 1}[a.stateful()]
		}
		return cmp.Or(cmp.Compare(b.products, a.products), cmp.Compare(b.total, a.total))
	})
	var first error
	for lead := range all { // it decides about states and weights that several methods read
		order := slices.Concat(all[lead:lead+1], all[:lead], all[lead+1:])
		s := &stager{n: n, states: map[string]int{}, weights: map[string]int{}}
		plans, err := s.all(order)
		if err == nil {
			return plans, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// all divides methods in an order in which an earlier one decides for the later ones.
func (s *stager) all(order []*staged) ([]*Plan, error) {
	plans, some := make([]*Plan, len(order)), false
	for _, x := range order {
		p, err := s.divide(x)
		if err == nil && p == nil && x.stateful() {
			err = fmt.Errorf("keeps states, and has too little work for %d stages", s.n)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.d.g.Name, err)
		}
		plans[x.number], some = p, some || p != nil
	}
	if !some {
		return nil, fmt.Errorf("no method has %d steps with work that follow one another", s.n)
	}
	return plans, nil
}

// stager divides the methods of one model.
type stager struct {
	n               int
	states, weights map[string]int // stages of those that a method before has read
}

// staged is a method that is being divided.
type staged struct {
	number   int
	d        *divider
	products int        // number of heavy units
	heavy    []bool     // by unit: whether its stage matters for the work
	cost     []int64    // by unit: operations at the smallest sizes, which for a language model are those for one token
	total    int64      // sum of cost
	reads    [][]string // by unit: weights
	keeps    [][]string // by unit: states
}

func (x *staged) stateful() bool { return len(x.d.g.States()) > 0 }

func openMethod(g *ir.Graph) (*staged, error) {
	g, err := op.CopyOutputs(g, own)
	if err != nil {
		return nil, err
	}
	x := &staged{d: &divider{g: g, unit: make([]int, len(g.Nodes))}}
	if err := x.d.collect(Options{Targets: 1, Takes: func(int, *ir.Node) bool { return true }}); err != nil {
		return nil, err
	}
	least := g.Syms.Min()
	at := func(list []ir.Type) (out []ir.Type) {
		for _, t := range list {
			out = append(out, t.At(least))
		}
		return out
	}
	for _, n := range x.d.nodes {
		var reads, keeps []string
		for _, o := range n.Operands() {
			switch st := o.StateOf(); {
			case st != nil && !slices.Contains(keeps, st.Name):
				keeps = append(keeps, st.Name)
			case st == nil && o.Source().Op.Name == "param":
				reads = append(reads, o.Source().Name)
			}
		}
		c := n.Op.FLOPs(n.Attrs, at(n.InTypes()), at(n.ResultTypes())...)
		x.cost, x.total = append(x.cost, c), x.total+c
		x.reads, x.keeps = append(x.reads, reads), append(x.keeps, keeps)
		h := heavy(n, c)
		x.heavy = append(x.heavy, h)
		if h {
			x.products++
		}
	}
	return x, nil
}

// heavy reports whether a node of a cost multiplies by the elements of a matrix, or of a larger tensor, of weights.
func heavy(n *ir.Node, cost int64) bool {
	for _, o := range n.Operands() {
		axes := 0
		for _, d := range o.Type.Shape {
			if !d.Is(1) {
				axes++
			}
		}
		if axes > 1 && o.StateOf() == nil && o.Source().Op.Name == "param" && cost >= 2*n.Graph.Syms.MaxElems(o.Type) {
			return true
		}
	}
	return false
}

// divide returns the plan of a method: in the stages of the states and weights that it reads, or, if it is the first to
// read them, in stages of about the same work. It is nil if there is too little work.
func (s *stager) divide(x *staged) (*Plan, error) {
	fixed, err := s.known(x)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(fixed, func(k int) bool { return k >= 0 }) {
		fixed = x.cut(s.n)
	}
	if fixed == nil {
		return nil, nil
	}
	return s.plan(x, fixed)
}

// known returns the stages of units that read states or weights whose stage is known, and -1 for other units.
func (s *stager) known(x *staged) ([]int, error) {
	fixed := make([]int, len(x.d.units))
	low := make([]int, len(fixed)) // the stage of what a unit waits for
	for i := range fixed {
		fixed[i] = -1
		u := x.d.units[i]
		for _, k := range slices.Concat(u.in, u.after) {
			if k < i {
				low[i] = max(low[i], low[k])
			}
		}
		for _, name := range x.keeps[i] {
			k, ok := s.states[name]
			if !ok {
				continue
			}
			if k < low[i] || fixed[i] >= 0 && fixed[i] != k {
				return nil, fmt.Errorf("%s: state %s belongs to stage %d, but the op needs values of stage %d",
					x.d.nodes[i].Label(), name, k+1, max(low[i], fixed[i])+1)
			}
			fixed[i] = k
		}
		for _, name := range x.reads[i] {
			if k, ok := s.weights[name]; ok && x.heavy[i] && len(x.keeps[i]) == 0 {
				fixed[i] = max(fixed[i], k, low[i])
			}
		}
		low[i] = max(low[i], fixed[i])
	}
	return fixed, nil
}

// cut returns the stages of the heavy units and of those that read states, and -1 for the others. It is nil if there
// are too few heavy units.
func (x *staged) cut(n int) []int {
	alive := x.alive()
	var heavy []int
	for i, h := range x.heavy {
		if h {
			heavy = append(heavy, i)
		}
	}
	type place struct {
		after       int // the last unit before the cut
		done, bytes int64
	}
	var places []place
	for k := range heavy[:max(0, len(heavy)-1)] {
		p := place{heavy[k], 0, math.MaxInt64}
		for at := heavy[k]; at < heavy[k+1]; at++ {
			if alive[at] < p.bytes {
				p.after, p.bytes = at, alive[at]
			}
		}
		for _, c := range x.cost[:p.after+1] {
			p.done += c
		}
		if p.bytes < math.MaxInt64 {
			places = append(places, p)
		}
	}
	var cuts []int
	slack := x.total / int64(8*n)
	for j := 1; j < n; j++ {
		free := places[:max(0, len(places)-(n-1-j))] // leave one for each later cut
		want := x.total / int64(n) * int64(j)
		off := func(p place) int64 { return max(p.done-want, want-p.done) }
		best := -1
		for k, p := range free {
			if best < 0 {
				best = k
				continue
			}
			b := free[best]
			switch near, was := off(p) <= slack, off(b) <= slack; {
			case near != was:
				if near {
					best = k
				}
			case near && p.bytes != b.bytes:
				if p.bytes < b.bytes {
					best = k
				}
			case off(p) < off(b):
				best = k
			}
		}
		if best < 0 {
			return nil
		}
		cuts, places = append(cuts, places[best].after), places[best+1:]
	}
	fixed := make([]int, len(x.d.units))
	for i := range fixed {
		fixed[i] = -1
		if x.heavy[i] || len(x.keeps[i]) > 0 {
			for fixed[i] = 0; fixed[i] < len(cuts) && cuts[fixed[i]] < i; {
				fixed[i]++
			}
		}
	}
	return fixed
}

// alive returns, for each unit, the bytes that pass it: those of its value and of earlier ones that later units read. A
// cut between two units that use the same state is impossible.
func (x *staged) alive() []int64 {
	out := make([]int64, len(x.d.units))
	last := make([]int, len(out))
	users := map[string][2]int{}
	for i, u := range x.d.units {
		last[i] = i
		for _, k := range u.in {
			last[k] = i
		}
		for _, name := range x.keeps[i] {
			r, ok := users[name]
			if !ok {
				r[0] = i
			}
			users[name] = [2]int{r[0], i}
		}
	}
	for i, u := range x.d.units {
		for k := i; k < last[i]; k++ {
			out[k] += u.bytes
		}
	}
	for _, r := range users {
		for k := r[0]; k < r[1]; k++ {
			out[k] = math.MaxInt64
		}
	}
	return out
}

// plan makes the segments, and notes the stages of states and weights. The stages of units that are not fixed are
// chosen so that few bytes pass.
func (s *stager) plan(x *staged, fixed []int) (*Plan, error) {
	seq := make([]int, s.n)
	for i := range x.d.units {
		x.d.units[i].on = 1<<s.n - 1
		if fixed[i] >= 0 {
			x.d.units[i].on = 1 << fixed[i]
		}
	}
	var sizes []int64
	for _, n := range x.d.g.Inputs() {
		sizes = append(sizes, x.d.g.Syms.MaxBytes(n.Type))
	}
	for k := range seq {
		seq[k] = k
	}
	x.d.at, x.d.segments = newOrder(x.d.units, sizes).place(seq), nil
	p, err := x.d.plan(seq)
	if err != nil {
		return nil, err
	}
	for k := range p.Segments {
		p.Segments[k].Target, p.Segments[k].Lacked, p.Segments[k].Moved = 0, nil, nil
	}
	for i, k := range x.d.at {
		for _, name := range x.keeps[i] {
			if old, ok := s.states[name]; ok && old != k {
				return nil, fmt.Errorf("state %s is read in stage %d and in stage %d", name, old+1, k+1)
			}
			s.states[name] = k
		}
		for _, name := range x.reads[i] {
			if _, ok := s.weights[name]; !ok && x.heavy[i] {
				s.weights[name] = k
			}
		}
	}
	return p, nil
}
