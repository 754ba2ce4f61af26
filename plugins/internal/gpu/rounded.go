package gpu

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// rounded are copies of values in 16 bits. Where a product would first round its left operand, or attention its
// queries, keys and values, the step that computes the operand writes it in 16 bits, too. This saves the reader a
// shader, and a shader for each further product of the same value.
type rounded struct {
	types   map[int]dtype.DType    // of the copies, by the value's node
	readers map[operandOf]*ir.Node // by the operand that is read as a copy: the node that writes it
	only    map[int]bool           // nothing reads the value itself, so only the copy is written
	inside  map[int]bool           // those of only whose copies lie in the memory of the value itself
	begin   map[int]int64          // where any other copy begins
	size    map[int]int64
	bytes   int64
	space   *space
}

// operandOf is an operand of a node.
type operandOf struct{ node, operand int }

// roundedAt returns where the copy of a node's result is.
func (x *executable) roundedAt(n *ir.Node) (s *space, offset, bytes int64) {
	r := &x.rounded
	if r.inside[n.ID] {
		s, offset = x.locate(x.program.Places[n.ID])
		return s, offset, r.size[n.ID]
	}
	return r.space, r.begin[n.ID], r.size[n.ID]
}

// planRounded finds values to copy and plans memory for the copies. groups are the groups of steps by their first step.
func (x *executable) planRounded(groups map[int]stepGroup) {
	if len(x.limits.Own) == 0 || x.root != nil {
		return
	}
	r := &x.rounded
	r.types, r.readers = map[int]dtype.DType{}, map[operandOf]*ir.Node{}
	r.begin, r.size = map[int]int64{}, map[int]int64{}
	step, group := map[int]int{}, map[int]int{} // by node; groups are counted from 1
	for i, s := range x.program.Steps {
		step[s.Node] = i
		for k := range len(groups[i].steps) {
			group[x.program.Steps[i+k].Node] = i + 1
		}
	}
	last := map[int]int{} // the last step that reads a copy
	var order []*ir.Node
	for i, s := range x.program.Steps {
		n := x.program.Graph.Nodes[s.Node]
		several := x.limits.RoundedOperands(n) > 1
		for k := range x.limits.RoundedOperands(n) {
			from := x.roundable(n, k)
			if from == nil || several && !x.onlyReads(n, from) {
				continue
			}
			_, isStep := step[from.ID]
			if !isStep || group[from.ID] != 0 && group[from.ID] != group[n.ID] {
				continue
			}
			d := x.limitsOf(n).ReadsRounded(n)
			if d == 0 || r.types[from.ID] != 0 && r.types[from.ID] != d || !x.limitsOf(from).WritesRounded(from, n) {
				continue
			}
			if r.types[from.ID] == 0 {
				order = append(order, from)
				r.size[from.ID] = (x.program.Places[from.ID].Size + 1) / 2
			}
			r.types[from.ID], r.readers[operandOf{n.ID, k}], last[from.ID] = d, from, i
		}
	}
	x.planOnly(order, group)
	x.planInside(order)
	r.place(slices.DeleteFunc(order, func(n *ir.Node) bool { return r.inside[n.ID] }), step, last)
}

// planInside finds the copies that can lie where the value itself would. That memory is in use from the step that
// writes the value to the last one that reads it. But elements of a copy have other places than those of the value, so
// results and operands of these steps must not share the memory, not even element by element.
func (x *executable) planInside(order []*ir.Node) {
	r := &x.rounded
	r.inside = map[int]bool{}
	for _, n := range order {
		r.inside[n.ID] = r.only[n.ID] && x.program.Places[n.ID].Space == program.Arena
	}
	apart := func(n, other *ir.Node) {
		if x.program.Places[n.ID].Overlaps(x.program.Places[other.ID]) {
			r.inside[n.ID] = false
		}
	}
	for _, n := range order {
		for _, in := range n.Operands() {
			apart(n, in)
		}
	}
	for of, n := range r.readers {
		reader := x.program.Graph.Nodes[of.node]
		for k, in := range reader.In {
			if in != nil && r.readers[operandOf{of.node, k}] != n {
				apart(n, in)
			}
		}
		for _, v := range reader.Values() {
			apart(n, v)
		}
	}
}

// planOnly finds the values that are read only through their copies.
func (x *executable) planOnly(order []*ir.Node, group map[int]int) {
	r := &x.rounded
	r.only = map[int]bool{}
	for _, n := range order {
		r.only[n.ID] = group[n.ID] == 0 && x.limits.AlwaysOwn(n)
	}
	for _, n := range x.program.Graph.Nodes {
		for k, in := range n.In {
			if in == nil {
				continue
			}
			from := in.Source()
			if _, view := n.View(); view && k == 0 {
				continue // those that read the view count
			}
			if r.readers[operandOf{n.ID, k}] != from || group[n.ID] != 0 || !x.limits.AlwaysOwn(n) {
				r.only[from.ID] = false
			}
		}
	}
	for _, o := range x.program.Graph.Outputs {
		r.only[o.Node.Source().ID] = false
	}
}

// onlyReads reports whether a node reads a value that no other node reads, and that is no result.
func (x *executable) onlyReads(n, value *ir.Node) bool {
	for _, other := range x.program.Graph.Nodes {
		if _, view := other.View(); view || other == n {
			continue
		}
		for _, in := range other.Operands() {
			if in.Source() == value {
				return false
			}
		}
	}
	return !slices.ContainsFunc(x.program.Graph.Outputs, func(o ir.Output) bool { return o.Node.Source() == value })
}

// roundable returns the node whose whole result is operand k of a node, or nil.
func (x *executable) roundable(n *ir.Node, k int) *ir.Node {
	if len(n.In) <= k || n.In[k] == nil {
		return nil
	}
	in := n.In[k]
	from := in.Source()
	a, b := x.program.Places[from.ID], x.program.Places[in.ID]
	if from.Type.Rank() == 0 || in.Type.Rank() == 0 {
		return nil
	}
	rows := func(t ir.Type) ir.Dim { return t.Shape[t.Rank()-1] } // of the same length, so there are as many
	if from.Op == nil || from.Type.DType != dtype.F32 || rows(from.Type) != rows(in.Type) || a.Space != b.Space ||
		a.Offset != b.Offset || a.Size != b.Size {
		return nil
	}
	return from
}

// place gives each copy the first memory that is free from the step that writes it to the last one that reads it.
func (r *rounded) place(order []*ir.Node, step, last map[int]int) {
	type taken struct {
		from, to  int64
		begin, at int // the first step and the last one
	}
	var all []taken
	for _, n := range order {
		size := program.AlignUp(r.size[n.ID])
		begin, at := step[n.ID], int64(0)
		for _, o := range all { // in the order of memory
			if o.begin <= last[n.ID] && begin <= o.at && o.from < at+size && at < o.to {
				at = o.to
			}
		}
		r.begin[n.ID], r.bytes = at, max(r.bytes, at+size)
		all = append(all, taken{at, at + size, begin, last[n.ID]})
		slices.SortFunc(all, func(a, b taken) int { return int(a.from - b.from) })
	}
}
