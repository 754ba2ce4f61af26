package op

import "github.com/rlx-go/rlx/core/ir"

// ParamDef defines weights.
var ParamDef = leaf("param", "A weight, found by the node's name. It is set once and shared by all methods of a model.")

// Param adds a weight of the given name and type.
func Param(g *ir.Graph, name string, t ir.Type) *ir.Node {
	return g.AddDeclared(ParamDef, NoAttrs{}, t).Named(name)
}
