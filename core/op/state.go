package op

import "github.com/rlx-go/rlx/core/ir"

// State adds a state of the given name and type. init is the initial value of each element.
func State(g *ir.Graph, name string, t ir.Type, init float64) *ir.Node {
	return g.AddDeclared(ir.StateDef, ir.StateAttrs{Init: init}, t).Named(name)
}
