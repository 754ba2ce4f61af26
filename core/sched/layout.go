package sched

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
)

// layout is the plan of memory for one order of the steps.
type layout struct {
	g      *ir.Graph
	order  []*ir.Node // the nodes of the steps, in order
	first  []int      // by node: the step that computes its value
	last   []int      // by node: the last step that reads this node itself
	over   []*ir.Node // by node: the operand that it overwrites, or nil
	output []bool     // by node: whether it is an output
	// by node: its index in plan.Values, or -1 if it is not in the arena; for a loop, the index of its region
	value  []int
	plan   plan.Plan
	nested map[*ir.Graph]*program.Program // the programs of loops
}

func newLayout(g *ir.Graph, order []*ir.Node, nested map[*ir.Graph]*program.Program) *layout {
	n := len(g.Nodes)
	l := &layout{g: g, nested: nested, order: order, first: make([]int, n), last: make([]int, n),
		over:   make([]*ir.Node, n),
		output: make([]bool, n), value: make([]int, n)}
	l.live()
	l.chooseInPlace()
	l.place()
	return l
}

// live computes the live range of each node. The range of a view begins with that of its source.
func (l *layout) live() {
	for i, n := range l.order {
		for _, v := range n.Values() {
			l.first[v.ID] = i
		}
	}
	for _, n := range l.g.Nodes {
		l.first[n.ID] = l.first[n.Source().ID]
		l.last[n.ID] = l.first[n.ID]
	}
	for i, n := range l.order {
		for _, x := range n.Operands() {
			l.last[x.ID] = max(l.last[x.ID], i)
		}
	}
	for _, o := range l.g.Outputs {
		l.output[o.Node.ID] = true
		l.last[o.Node.ID] = len(l.order)
	}
}

// root returns the node that owns the storage of n. It follows views to their source, and in-place results to the value
// that they overwrite.
func (l *layout) root(n *ir.Node) *ir.Node {
	for {
		n = n.Source()
		if l.over[n.ID] == nil {
			return n
		}
		n = l.over[n.ID]
	}
}

// chooseInPlace decides which steps overwrite an operand. An update of a state overwrites the state. Another step may
// overwrite an operand if the op and the shapes allow it (program.MayOverwrite), if the operand is computed and is all
// of its source, and if neither the source nor any view of it is read later, is an output, or is another operand of the
// step. The results of one step overwrite different operands.
func (l *layout) chooseInPlace() {
	shown := make([][]*ir.Node, len(l.g.Nodes)) // by source: the source and its views
	for _, n := range l.g.Nodes {
		s := n.Source()
		shown[s.ID] = append(shown[s.ID], n)
	}
	for _, n := range l.g.Nodes {
		l.over[n.ID] = n.Updated()
	}
	for i, n := range l.order {
		if n.Op.Updates {
			continue
		}
		var taken []*ir.Node
		for _, result := range n.Values() {
			for _, k := range result.Overwrites() {
				if !program.MayOverwrite(result, k) || slices.Contains(taken, n.In[k]) {
					continue
				}
				x := n.In[k]
				src := x.Source()
				free := program.IsComputed(l.root(src)) && x.IsWhole() &&
					!slices.ContainsFunc(shown[src.ID], func(v *ir.Node) bool {
						return l.output[v.ID] || l.last[v.ID] > i || v != x && slices.Contains(n.In, v)
					})
				if free {
					l.over[result.ID] = x
					taken = append(taken, x)
					break
				}
			}
		}
	}
}

// place plans the arena. Outputs, and values that share storage with one, are in the IO space instead.
func (l *layout) place() {
	inIO := map[*ir.Node]bool{}
	for _, o := range l.g.Outputs {
		inIO[l.root(o.Node)] = true
	}
	var values []plan.Value
	for i, n := range l.g.Nodes {
		l.value[i] = -1
		if n.Op.Nested {
			loop := program.NewLoop(n, 0, func(b *ir.Graph) *program.Program { return l.nested[b] })
			l.value[i] = len(values)
			values = append(values, plan.Value{ID: i, Name: "the region of " + n.Label(), Size: loop.Size(),
				First: l.first[i+1], Last: l.first[i+1], Parent: plan.None})
			continue
		}
		if root := l.root(n); !program.IsComputed(root) || inIO[root] {
			continue
		}
		v := plan.Value{ID: i, Name: n.Label(), Size: l.g.Syms.MaxBytes(n.Type), First: l.first[i], Last: l.last[i],
			Parent: plan.None}
		if off, view := n.View(); view {
			v.Parent, v.Offset = l.value[n.In[0].ID], off
		} else if l.over[i] != nil {
			v.Parent, v.InPlace = l.value[l.over[i].ID], true
		}
		l.value[i] = len(values)
		values = append(values, v)
	}
	l.plan = plan.Make(values)
}
