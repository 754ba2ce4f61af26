package program

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// Loop describes the step of a node whose graphs are programs of their own (ir.TupleDef.Nested): the op loop.
//
// These programs have no state. Each weight that they read is also a param of the program that contains the loop, at
// the same place. The step has a region of that program's arena. The region holds the IO space of both programs, which
// they share, and after it the arena of both, which they share, too:
//
//	arena:  | values | region: IO of Cond and Body | arena of Cond and Body | values |
//
// Inputs of the same number have the same place in both. A run of the step copies operands to the inputs. After each
// iteration it copies results of Body back to the inputs of Body.
type Loop struct {
	Node   int      // in Program.Graph
	Offset int64    // of the region, in the arena
	Cond   *Program // nil if the loop has no condition
	Body   *Program
}

// NewLoop returns the loop of a node whose region is at offset. of returns the program of a graph.
func NewLoop(n *ir.Node, offset int64, of func(b *ir.Graph) *Program) Loop {
	l := Loop{Node: n.ID, Offset: offset, Body: of(n.Body("body"))}
	if cond := n.Body("cond"); cond != nil {
		l.Cond = of(cond)
	}
	return l
}

// Programs returns the programs of the loop: Cond, if the loop has a condition, and Body.
func (l *Loop) Programs() []*Program {
	if l.Cond == nil {
		return []*Program{l.Body}
	}
	return []*Program{l.Cond, l.Body}
}

// IOSize returns the size of the IO space that the programs of the loop share, in bytes.
func (l *Loop) IOSize() (n int64) {
	for _, p := range l.Programs() {
		n = max(n, p.IOSize)
	}
	return n
}

// Size returns the size of the region, in bytes.
func (l *Loop) Size() (n int64) {
	for _, p := range l.Programs() {
		n = max(n, p.ArenaSize)
	}
	return n + l.IOSize()
}

// Check returns an error unless the programs of the loop, which belongs to node n of a program, have the graphs of the
// node, share places of inputs, and read only weights of params, the ParamPlaces of that program.
func (l *Loop) Check(params map[string]Place, n *ir.Node) error {
	graphs := map[*ir.Graph]bool{}
	for _, b := range n.Programs() {
		graphs[b] = true
	}
	for _, p := range l.Programs() {
		switch {
		case p == nil || !graphs[p.Graph]:
			return fmt.Errorf("%s: a program is not one of a graph of the loop", n.Label())
		case p.StateSize != 0:
			return fmt.Errorf("%s: program %s has a state", n.Label(), p.Method)
		}
		delete(graphs, p.Graph)
	}
	if len(graphs) > 0 && !(l.Cond != nil && l.Cond.Graph == l.Body.Graph) {
		return fmt.Errorf("%s: a graph of the loop has no program", n.Label())
	}
	for _, p := range l.Programs() {
		for _, x := range p.Graph.Params() {
			if at, ok := params[x.Name]; !ok || at != p.Places[x.ID] {
				return fmt.Errorf("%s: graph %s reads the weight %s; want a param of the same place in the graph that has the loop",
					n.Label(), p.Graph.Name, x.Name)
			}
		}
	}
	if l.Cond == nil {
		return nil
	}
	inputs := l.Body.Graph.Inputs()
	for k, x := range l.Cond.Graph.Inputs() {
		if a, b := l.Cond.Places[x.ID], l.Body.Places[inputs[k].ID]; a != b {
			return fmt.Errorf("%s: input %s of graph %s is at %d, input %s of graph %s at %d; want the same place",
				n.Label(), x.Label(), l.Cond.Graph.Name, a.Offset, inputs[k].Label(), l.Body.Graph.Name, b.Offset)
		}
	}
	return nil
}

// ParamPlaces returns the places of the program's params by name.
func (p *Program) ParamPlaces() map[string]Place {
	m := map[string]Place{}
	for _, n := range p.Graph.Params() {
		m[n.Name] = p.Places[n.ID]
	}
	return m
}

// Loop returns the loop of a node, or nil if the node is not a loop.
func (p *Program) Loop(node int) *Loop {
	i, ok := slices.BinarySearchFunc(p.Loops, node, func(l Loop, node int) int { return l.Node - node })
	if !ok {
		return nil
	}
	return &p.Loops[i]
}

// Nested returns the programs of the program's loops and of loops in them, each once and after those of its own loops.
func (p *Program) Nested() (list []*Program) {
	seen := map[*Program]bool{}
	var visit func(p *Program)
	visit = func(p *Program) {
		for i := range p.Loops {
			for _, x := range p.Loops[i].Programs() {
				if !seen[x] {
					seen[x] = true
					visit(x)
					list = append(list, x)
				}
			}
		}
	}
	visit(p)
	return list
}
