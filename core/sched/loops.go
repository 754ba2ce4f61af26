package sched

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// withPrograms schedules the graphs that nodes run as programs of their own. It returns g with the graphs of these
// programs, which may have more nodes (see Build), and the programs by their graphs.
func withPrograms(g *ir.Graph, o Options) (*ir.Graph, map[*ir.Graph]*program.Program, error) {
	made := map[*ir.Graph]*program.Program{} // by graph of g
	programs := map[*ir.Graph]*program.Program{}
	o.State = nil
	for _, n := range g.Nodes {
		for _, b := range n.Programs() {
			if made[b] != nil {
				continue
			}
			o.Method = b.Name
			p, _, err := Build(b, o)
			if err != nil {
				return nil, nil, fmt.Errorf("graph %s: %w", b.Name, err)
			}
			made[b], programs[p.Graph] = p, p
		}
	}
	if len(made) == 0 {
		return g, nil, nil
	}
	added := map[*ir.Node][]*ir.Node{} // by node of g: the results of the new one
	out, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		by, result := n.Maker()
		if !by.Op.Nested {
			return nil
		}
		if added[by] == nil {
			attrs := by.AttrsWith(func(b *ir.Graph) *ir.Graph { return made[b].Graph })
			added[by] = out.AddResults(len(by.Results), by.Op, attrs, by.MapIn(lookup)...)
		}
		return added[by][result]
	})
	return out, programs, err
}

// addParams adds to g the params that only the graphs of its loops read, so that a program has a place for every weight
// that it reads.
func addParams(g *ir.Graph) {
	own := map[string]bool{}
	for _, n := range g.Params() {
		own[n.Name] = true
	}
	for _, n := range g.AllParams() {
		if !own[n.Name] {
			g.AddDeclared(n.Op, n.Attrs, n.Type).Named(n.Name)
		}
	}
}
