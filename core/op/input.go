package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// InputDef defines values that are given at each run.
var InputDef = leaf("input", "A value that the caller provides for each run, under the node's name.")

// Input adds an input of the given name and type.
func Input(g *ir.Graph, name string, t ir.Type) *ir.Node {
	return g.AddDeclared(InputDef, NoAttrs{}, t).Named(name)
}

// leaf defines an op without operands whose value an executor supplies.
func leaf(name, doc string) *ir.OpDef {
	return ir.Define(ir.Def[NoAttrs]{
		Name: name, Doc: doc, Declared: true, Effects: true, Packed: true,
		Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
			if s.Declared.DType == dtype.Invalid {
				return ir.Type{}, fmt.Errorf("has no declared type")
			}
			return s.Declared, nil
		},
		Tol: exact[NoAttrs],
		Cases: func() []ir.Case[NoAttrs] {
			return []ir.Case[NoAttrs]{{Out: f32(2, 3)}, {Out: i64()}, {Out: bf16(0, 4)},
				{Out: ir.TypeOf(dtype.Q4_0, 3, 5)}, {Out: ir.TypeOf(dtype.Q6_K, 2)}}
		},
	})
}
