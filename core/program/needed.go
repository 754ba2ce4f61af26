package program

// Needed returns which steps a run needs for the given outputs (nil means all) and the values of the given nodes: the
// steps that compute them, all updates of states, and what these depend on. A nil result means all steps.
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
		for _, x := range n.Operands() {
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
