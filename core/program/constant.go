package program

// Constant reports for each output whether it is the same in all runs, because it depends on no input, state or symbol.
func (p *Program) Constant() []bool {
	g := p.Graph
	varies := make([]bool, len(g.Nodes))
	for _, n := range g.Inputs() {
		varies[n.ID] = true
	}
	for _, n := range g.States() {
		varies[n.ID] = true
	}
	for i, n := range g.Nodes {
		for _, t := range n.ResultTypes() {
			varies[i] = varies[i] || !t.Shape.IsStatic()
		}
		for _, x := range n.Operands() {
			varies[i] = varies[i] || varies[x.ID]
		}
	}
	out := make([]bool, len(g.Outputs))
	for i, o := range g.Outputs {
		out[i] = !varies[o.Node.ID]
	}
	return out
}
