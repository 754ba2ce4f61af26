package program

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Skips lists the steps that a run may skip once it knows a condition: a value of type bool with one element. The
// run does not use the results of these steps. Examples are the branch of an if that is not taken, and iterations after
// the end of a loop:
//
//	c = gt x, limit : bool[]
//	a = matmul u, v            skipped if c is false
//	b = tanh w                 skipped if c is true
//	y = where c, a, b
//
// A skipped step leaves the bytes of its place as they are. Only two kinds of steps read them: skipped steps, and steps
// for whose result they do not matter (ir.Def.Unread).
type Skips struct {
	Inputs []Condition   // conditions that are inputs
	Steps  [][]Condition // by step: conditions that it computes
	Count  int           // number of steps that some condition skips
}

// Condition is a node of type bool and one element, and the steps that need not run if it is false or true.
type Condition struct {
	Node  int
	Steps [2][]int // the first list for false, the second for true
}

// literal says that a condition, a node, has a value.
type literal struct {
	node  int
	value bool
}

func (l literal) compare(m literal) int {
	switch {
	case l.node != m.node:
		return l.node - m.node
	case l.value == m.value:
		return 0
	case m.value:
		return -1
	}
	return 1
}

// maxLiterals bounds how many conditions a step may have. Those of the outermost branches are kept.
const maxLiterals = 8

// Skips finds the conditions of a program, or returns nil if the program has none. A step may be skipped if every use
// of its results, through any number of steps, does not matter for some value of a condition.
func (p *Program) Skips() *Skips {
	g := p.Graph
	needs, used, found := allNeeds(g)
	if !found {
		return nil
	}
	s := &Skips{Steps: make([][]Condition, len(p.Steps))}
	known, position := map[int]*Condition{}, map[int]int{}
	for _, n := range g.Inputs() {
		position[n.ID] = -1
	}
	for i, st := range p.Steps {
		n := g.Nodes[st.Node]
		skipped := false
		for _, l := range p.stepNeeds(n, needs, used) {
			at, ok := position[l.node] // conditions that are computed later do not help
			if !ok {
				continue
			}
			if known[l.node] == nil {
				known[l.node] = &Condition{Node: l.node}
			}
			list := &known[l.node].Steps[0]
			if !l.value {
				list = &known[l.node].Steps[1]
			}
			*list = append(*list, i)
			skipped = skipped || at < i
		}
		if skipped {
			s.Count++
		}
		for _, v := range n.Values() {
			position[v.ID] = i
		}
	}
	for node, c := range known {
		if at := position[node]; at < 0 {
			s.Inputs = append(s.Inputs, *c)
		} else {
			s.Steps[at] = append(s.Steps[at], *c)
		}
	}
	if s.Count == 0 {
		return nil
	}
	return s
}

// allNeeds returns, by node, the literals that all must be true for its value to be needed, ascending. They are valid
// if used is set. found is false if no value depends on a condition.
func allNeeds(g *ir.Graph) (needs [][]literal, used []bool, found bool) {
	needs, used = make([][]literal, len(g.Nodes)), make([]bool, len(g.Nodes))
	use := func(x *ir.Node, at []literal) {
		if !used[x.ID] {
			needs[x.ID], used[x.ID] = at, true
		} else if len(needs[x.ID]) > 0 {
			needs[x.ID] = intersection(needs[x.ID], at)
		}
	}
	for _, o := range g.Outputs {
		use(o.Node, nil)
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if n.Op == ir.ResultDef && !used[i] { // the other results may be used
			continue
		}
		if n.Op.Updates || !used[i] { // a state changes in every run; a step whose result nothing uses also runs
			needs[i], used[i] = nil, true
		}
		own := needs[i]
		unread := n.Op.Unread(n.Attrs)
		for k, x := range n.Operands() {
			at := own
			for _, u := range unread {
				if u.Operand == k && u.By != k {
					if by := condition(n.In[u.By]); by != nil {
						at, found = with(at, literal{by.ID, !u.Value}), true
					}
				}
			}
			use(x, at)
		}
	}
	return needs, used, found
}

// stepNeeds returns the literals that must be true for a step to be needed.
func (p *Program) stepNeeds(n *ir.Node, needs [][]literal, used []bool) (all []literal) {
	first := true
	for _, v := range n.Values() {
		if !used[v.ID] {
			continue
		}
		if first {
			all, first = needs[v.ID], false
		} else {
			all = intersection(all, needs[v.ID])
		}
	}
	return all
}

// condition returns the node whose first byte is the value of x, if x is a bool with one element that an input or a
// step has, and nil otherwise.
func condition(x *ir.Node) *ir.Node {
	for {
		if n, ok := x.Type.Shape.Numel(); x.Type.DType != dtype.Bool || !ok || !n.Is(1) {
			return nil
		}
		off, view := x.View()
		switch {
		case !view && (IsComputed(x) || x.Op.Name == "input"):
			return x
		case !view || off != 0:
			return nil
		}
		x = x.In[0]
	}
}

func intersection(a, b []literal) []literal {
	return slices.DeleteFunc(slices.Clone(a), func(l literal) bool {
		_, ok := slices.BinarySearchFunc(b, l, literal.compare)
		return !ok
	})
}

// with returns a with l added. It does not change a.
func with(a []literal, l literal) []literal {
	i, ok := slices.BinarySearchFunc(a, l, literal.compare)
	if ok || len(a) == maxLiterals {
		return a
	}
	return slices.Insert(slices.Clone(a), i, l)
}
