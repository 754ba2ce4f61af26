package op_test

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op"
)

// TestDefinitions checks that every op is complete and that each of its cases infers, evaluates and survives text.
func TestDefinitions(t *testing.T) {
	for _, def := range ir.Defs() {
		t.Run(def.Name, func(t *testing.T) {
			cases := def.Cases()
			if len(cases) == 0 {
				t.Error("no cases")
			}
			if def.Eval == nil && !def.Effects && !def.CanLower() {
				t.Error("neither Eval nor Lower")
			}
			for i, c := range cases {
				g := caseGraph(t, def, c)
				if def.Level == ir.Block {
					continue
				}
				n := g.Outputs[0].Node
				if tol := def.Tol(c.Attrs, c.In, n.Type); tol.Abs < 0 || tol.Rel < 0 || math.IsNaN(tol.Abs+tol.Rel) {
					t.Errorf("case %d: tolerance %v", i, tol)
				}
				if f := def.FLOPs(c.Attrs, c.In, n.Type); f < 0 {
					t.Errorf("case %d: %d FLOPs", i, f)
				}
				text := g.String()
				back, err := ir.Parse(text)
				if err != nil {
					t.Fatalf("case %d: %v\n%s", i, err, text)
				}
				if got := back.String(); got != text {
					t.Errorf("case %d: text is\n%swant\n%s", i, got, text)
				}
			}
		})
	}
}

// caseGraph is a graph of one op on inputs.
func caseGraph(t *testing.T, def *ir.OpDef, c ir.Case[any]) *ir.Graph {
	t.Helper()
	g := ir.NewGraph("case")
	input, _ := ir.Find("input")
	var in []*ir.Node
	for i, typ := range c.In {
		in = append(in, g.AddDeclared(input, input.NewAttrs(), typ).Named("i"+string(rune('a'+i))))
	}
	n := g.AddDeclared(def, c.Attrs, c.Out, in...).Named("out")
	g.Return("out", n)
	if err := g.Verify(); err != nil {
		t.Fatalf("%v %v: %v", c.In, n.AttrText(), err)
	}
	return g
}
