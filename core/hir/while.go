package hir

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// WhileAttrs are the attributes of while.
type WhileAttrs struct {
	Cond          *ir.Graph `attr:"cond"`           // whether to go on
	Body          *ir.Graph `attr:"body"`           // the next carried values
	MaxIterations int       `attr:"max_iterations"` // the loop ends after this many; required
	Result        int       `attr:"result"`         // index of the carried value that is the result
}

// WhileDef is a loop that a condition ends.
var WhileDef = ir.Define(ir.Def[WhileAttrs]{
	Name: "while", Operands: "carried...", Block: true,
	Doc: "Replaces the carried values by the outputs of the graph body while the graph cond returns true, at " +
		"most max_iterations times. The inputs of both graphs are the carried values, in order; body returns " +
		"values of the same number and types. cond returns bool[], or several bools, which must all be true " +
		"for the loop to go on. The result is one of the carried values at the end. A value that the loop " +
		"only reads is a carried value that body returns as it is. Lowering makes it a loop, which is one " +
		"step or is unrolled. In an unrolled loop every iteration is computed, and those after the end do not " +
		"change the values. They cannot fail.",
	Infer: func(s ir.Sig[WhileAttrs]) (ir.Type, error) {
		a := s.Attrs
		cond, err := ir.CheckBody("cond", a.Cond, s.In, s.Syms)
		if err == nil {
			err = flag("cond", a.Cond, cond)
		}
		if err != nil {
			return ir.Type{}, err
		}
		body, err := ir.CheckBody("body", a.Body, s.In, s.Syms)
		if err == nil {
			err = carried(a.Body, body, s.In)
		}
		switch {
		case err != nil:
			return ir.Type{}, err
		case a.MaxIterations < 1 || a.MaxIterations > op.MaxIterations:
			return ir.Type{}, fmt.Errorf("max_iterations is %d; want 1 to %d, the number of iterations that suffices",
				a.MaxIterations, op.MaxIterations)
		case a.Result < 0 || a.Result >= len(s.In):
			return ir.Type{}, fmt.Errorf("result is %d; want 0 to %d, the index of a carried value", a.Result,
				len(s.In)-1)
		}
		return s.In[a.Result], nil
	},
	EvalBodies: func(a WhileAttrs, run ir.RunBody, in []*tensor.Array, out *tensor.Array) error {
		for i := range a.MaxIterations {
			c, err := run(a.Cond, in)
			if err != nil {
				return fmt.Errorf("iteration %d: %w", i, err)
			}
			if all, _ := truth(c[0]); !all {
				break
			}
			if in, err = run(a.Body, in); err != nil {
				return fmt.Errorf("iteration %d: %w", i, err)
			}
		}
		store(out, in[a.Result])
		return nil
	},
})

var _ = ir.Lower(WhileDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(WhileAttrs)
	return op.Loop(op.LoopAttrs{Body: flat(g, a.Body), Cond: single(g, flat(g, a.Cond)), Carried: len(in),
		Length: a.MaxIterations, Results: []int{a.Result}}, in...)[0]
})

// While adds a loop. It returns the carried value that a.Result says.
func While(a WhileAttrs, carried ...*ir.Node) *ir.Node {
	return carried[0].Graph.Add(WhileDef, a, slices.Clone(carried)...)
}
