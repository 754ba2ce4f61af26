package onnx

import (
	"slices"

	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// A decoder with a cache is called without a past first, so the length of its past is 0 then. This file finds such
// lengths by what the program does with them, because exporters give them different names.

// withoutPast imports the model again with ranges that begin at 0 for the lengths of a past. It returns m if there are
// none, or if the model does not allow an empty past.
func withoutPast(f *File, o Options, ranges map[string]Range, m *Model) *Model {
	var past []string
	for _, s := range m.Sizes {
		if s.Min == DefaultRange.Min && !s.Given && isPast(m.Graph, s.Symbol) {
			past = append(past, s.Name)
			ranges[s.Name] = Range{0, s.Max}
		}
	}
	if len(past) == 0 {
		return m
	}
	empty, _, err := imported(f, o, ranges)
	if err != nil {
		return m
	}
	for i, s := range empty.Sizes {
		empty.Sizes[i].Past = slices.Contains(past, s.Name)
	}
	return empty
}

// isPast reports whether a size is the length of a past: each input with an axis of that size is only moved, and then
// followed by something new on that axis.
func isPast(g *ir.Graph, symbol string) bool {
	size, found := ir.Named(symbol), false
	for _, x := range g.Inputs() {
		if slices.Contains(x.Type.Shape, size) {
			p := pastSearch{size: size, seen: map[*ir.Node]bool{}}
			if !p.extended(x) {
				return false
			}
			found = found || p.found
		}
	}
	return found
}

// pastSearch follows an input to where it is extended.
type pastSearch struct {
	size  ir.Dim
	seen  map[*ir.Node]bool
	found bool
}

// extended reports whether all that x becomes on the axis of the size is the first part of a concatenation.
func (p *pastSearch) extended(x *ir.Node) bool {
	if p.seen[x] {
		return true
	}
	p.seen[x] = true
	for _, u := range x.Graph.Nodes[x.ID:] {
		if i := slices.Index(u.In, x); i >= 0 && !p.extends(u, i) {
			return false
		}
	}
	return true
}

// extends is extended for operand i of u.
func (p *pastSearch) extends(u *ir.Node, i int) bool {
	if a, ok := u.Attrs.(op.ConcatAttrs); ok && u.In[i].Type.Shape[a.Axis] == p.size {
		p.found = p.found || i == 0
		return i == 0
	}
	if a, ok := u.Attrs.(hir.IfAttrs); ok {
		return i > 0 && p.extended(a.Then.Inputs()[i-1]) && p.extended(a.Else.Inputs()[i-1])
	}
	keeps := slices.Contains(u.Type.Shape, p.size)
	for _, t := range u.Results {
		keeps = keeps || slices.Contains(t.Shape, p.size)
	}
	return keeps && p.extended(u)
}
