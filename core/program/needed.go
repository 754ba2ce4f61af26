package program

// Needed finds which steps a run needs that wants some of the outputs (nil: all) and the values of some nodes: those, and every
// update of a state, and what they are computed from. Nil: all steps.
func (p *Program) Needed(outputs []bool, nodes []int) []bool {
	if outputs == nil {
		return nil
	}
	g := p.Graph
	wanted := make([]bool, len(g.Nodes))
	for i, o := range g.Outputs {
		wanted[o.Node.ID] = outputs[i]
	}
	for _, n := range nodes {
		wanted[n] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if !wanted[i] && !n.Op.Updates {
			continue
		}
		wanted[i] = true
		for _, x := range n.In {
			wanted[x.ID] = true
		}
	}
	steps, all := make([]bool, len(p.Steps)), true
	for i, s := range p.Steps {
		steps[i] = wanted[s.Node]
		all = all && steps[i]
	}
	if all {
		return nil
	}
	return steps
}
