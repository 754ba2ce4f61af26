package format

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// sweep runs checks 33, 35 and the last part of 37. It simulates the steps on a map from each byte to the value stored
// there. When a step reads an operand, all bytes of the operand must hold it. A step must not overwrite its operands
// unless it is in place. Afterwards the bytes of its result hold the result. This covers overlap, lifetimes, reuse and
// uninitialised reads.
//
// It shares no code with the planner's own proof (core/plan.CheckProgram), so that each checks the other.
func sweep(p *program.Program, r *rawSched) error {
	s := sweeper{p: p, r: r, content: make([]int32, len(p.Graph.Nodes))}
	arena, io, state := make([]int64, 0, 2*len(p.Graph.Nodes)), make([]int64, 0, 2*len(p.Graph.Nodes)), []int64(nil)
	last, of := map[*ir.Node]*ir.Node{}, map[*ir.Node]*ir.Node{} // last: newest value of a state; of: state of a value
	for _, n := range p.Graph.Nodes {
		s.content[n.ID] = int32(n.ID)
		if _, view := n.View(); view {
			s.content[n.ID] = s.content[n.In[0].ID]
		}
		switch at := p.Places[n.ID]; at.Space {
		case program.Arena:
			arena = append(arena, at.Offset, at.Offset+at.Size)
		case program.IO:
			io = append(io, at.Offset, at.Offset+at.Size)
		case program.State:
			state = append(state, at.Offset, at.Offset+at.Size)
		}
		if n.Op == ir.StateDef {
			of[n], last[n] = n, n
		} else if old := n.Updated(); old != nil {
			of[n] = of[old]
			last[of[n]] = n
		}
	}
	for i := range p.Loops {
		l := &p.Loops[i]
		arena = append(arena, l.Offset, l.Offset+l.Size())
	}
	s.arena, s.io, s.state = newOwners(arena), newOwners(io), newOwners(state)
	for _, n := range append(p.Graph.Inputs(), p.Graph.States()...) {
		at := p.Places[n.ID]
		s.owners(at.Space).assign(at.Offset, at.Offset+at.Size, int32(n.ID))
	}
	for i := range p.Steps {
		if err := s.step(i); err != nil {
			return err
		}
	}
	keep := p.Graph.Inputs()
	for _, o := range p.Graph.Outputs {
		keep = append(keep, o.Node)
	}
	for _, n := range p.Graph.States() {
		keep = append(keep, last[n])
	}
	for _, n := range keep {
		if by, at, ok := s.holds(n); !ok {
			return fail(37, KindSched.String(), r.at, "after the last step, byte %d of %.80q in the %v space holds %s",
				at, n.Label(), p.Places[n.ID].Space, s.describe(by))
		}
	}
	return nil
}

type sweeper struct {
	p         *program.Program
	r         *rawSched
	content   []int32 // by node: the node whose bytes it shares, itself unless it is a view
	arena, io *owners
	state     *owners
}

func (s *sweeper) describe(owner int32) string {
	if owner < 0 {
		return "nothing"
	}
	return "node " + s.p.Graph.Nodes[owner].Label()
}

func (s *sweeper) owners(space program.Space) *owners {
	switch space {
	case program.IO:
		return s.io
	case program.State:
		return s.state
	}
	return s.arena
}

// holds reports whether all bytes of n hold its content. If not, it returns the first byte that does not, and the node
// that it holds.
func (s *sweeper) holds(n *ir.Node) (by int32, at int64, ok bool) {
	x := s.p.Places[n.ID]
	if x.Space == program.Weights {
		return 0, 0, true
	}
	return s.owners(x.Space).all(x.Offset, x.Offset+x.Size, s.content[n.ID])
}

func (s *sweeper) step(i int) error {
	st, raw := s.p.Steps[i], &s.r.steps[i]
	n := s.p.Graph.Nodes[st.Node]
	outs := n.Values()
	bad := func(check int, format string, args ...any) error {
		return fail(check, KindSched.String(), raw.at, "step %d (node %d, %.80q): "+format,
			append([]any{i, n.ID, n.Label()}, args...)...)
	}
	for _, x := range n.Operands() {
		if by, at, ok := s.holds(x); !ok {
			return bad(33, "reads %.80q, but byte %d of the %v space holds %s", x.Label(), at, s.p.Places[x.ID].Space,
				s.describe(by))
		}
		for _, v := range outs {
			if out := s.p.Places[v.ID]; x.ID != out.Parent && overlap(out, s.p.Places[x.ID]) {
				return bad(35, "writes over its operand %.80q", x.Label())
			}
		}
	}
	if l := s.p.Loop(n.ID); l != nil {
		region := program.Place{Space: program.Arena, Offset: l.Offset, Size: l.Size()}
		for _, x := range slices.Concat(n.In, outs) {
			if x != nil && overlap(region, s.p.Places[x.ID]) {
				return bad(35, "its region at %d of the arena overlaps %.80q", l.Offset, x.Label())
			}
		}
		s.arena.assign(l.Offset, l.Offset+l.Size(), int32(n.ID)) // the loop's own node has no value
	}
	for k, v := range outs {
		out := s.p.Places[v.ID]
		for _, w := range outs[:k] {
			if overlap(out, s.p.Places[w.ID]) {
				return bad(35, "writes its result %.80q over its result %.80q", v.Label(), w.Label())
			}
		}
		s.owners(out.Space).assign(out.Offset, out.Offset+out.Size, int32(v.ID))
	}
	return nil
}

func overlap(a, b program.Place) bool {
	return a.Space == b.Space && a.Size > 0 && b.Size > 0 && a.Offset < b.Offset+b.Size && b.Offset < a.Offset+a.Size
}

// owners maps each byte of a space to the value stored there, its owner. All ranges are known in advance, so their ends
// divide the bytes into intervals. A segment tree over these assigns and compares a range in O(log n).
type owners struct {
	cuts  []int64 // ends of the intervals, ascending
	color []int32 // by tree node: the owner of all its intervals, or mixed
}

const (
	nobody = -1
	mixed  = -2
)

// newOwners returns the map for ranges with the given starts and ends.
func newOwners(ends []int64) *owners {
	slices.Sort(ends)
	o := &owners{cuts: slices.Compact(ends)}
	o.color = make([]int32, 4*max(len(o.cuts), 1))
	for i := range o.color {
		o.color[i] = nobody
	}
	return o
}

// span returns the intervals that make up bytes [from, to).
func (o *owners) span(from, to int64) (l, r int) {
	l, _ = slices.BinarySearch(o.cuts, from)
	r, _ = slices.BinarySearch(o.cuts, to)
	return l, r
}

func (o *owners) assign(from, to int64, owner int32) {
	if l, r := o.span(from, to); l < r {
		o.set(1, 0, len(o.cuts)-1, l, r, owner)
	}
}

// set assigns owner to the intervals [l, r) within the tree node that covers [lo, hi).
func (o *owners) set(node, lo, hi, l, r int, owner int32) {
	if r <= lo || hi <= l {
		return
	}
	if l <= lo && hi <= r {
		o.color[node] = owner
		return
	}
	mid, left, right := (lo+hi)/2, 2*node, 2*node+1
	if c := o.color[node]; c != mixed {
		o.color[left], o.color[right] = c, c
	}
	o.set(left, lo, mid, l, r, owner)
	o.set(right, mid, hi, l, r, owner)
	o.color[node] = mixed
	if o.color[left] == o.color[right] {
		o.color[node] = o.color[left]
	}
}

// all reports whether owner has all bytes [from, to). If not, it returns the first byte that it does not have, and that
// byte's owner.
func (o *owners) all(from, to int64, owner int32) (by int32, at int64, ok bool) {
	l, r := o.span(from, to)
	if l >= r {
		return 0, 0, true
	}
	i, by := o.find(1, 0, len(o.cuts)-1, l, r, owner)
	if i < 0 {
		return 0, 0, true
	}
	return by, o.cuts[i], false
}

// find returns the first of the intervals [l, r) that has another owner, or -1, and that owner.
func (o *owners) find(node, lo, hi, l, r int, owner int32) (int, int32) {
	if r <= lo || hi <= l || o.color[node] == owner {
		return -1, 0
	}
	if o.color[node] != mixed {
		return max(lo, l), o.color[node]
	}
	mid := (lo + hi) / 2
	if i, by := o.find(2*node, lo, mid, l, r, owner); i >= 0 {
		return i, by
	}
	return o.find(2*node+1, mid, hi, l, r, owner)
}
