package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// IfAttrs are the attributes of if.
type IfAttrs struct {
	Then *ir.Graph `attr:"then"` // computes the result where pred is true
	Else *ir.Graph `attr:"else"` // computes the result where pred is false
}

// IfDef selects the result of one of two graphs by a condition.
var IfDef = ir.Define(ir.Def[IfAttrs]{
	Name: "if", Operands: "pred, captures...", Block: true,
	Doc: "The output of the graph then if pred is true, and of else otherwise. The inputs of both graphs are the captures, in order; each has one output, " +
		"of the same type. pred is bool[]. It may also be several bools that broadcast to the output: then elements are selected, and a branch is taken if any " +
		"element selects it. What a branch that is not taken would compute does not matter: NaN and infinities in it do not show, and an index out of range in it is " +
		"no error. Lowering computes both branches and selects with where.",
	Infer: func(s ir.Sig[IfAttrs]) (ir.Type, error) {
		pred := s.In[0]
		if pred.DType != dtype.Bool {
			return ir.Type{}, fmt.Errorf("pred is %v; want bool[]", pred)
		}
		then, err := branch("then", s.Attrs.Then, s)
		if err != nil {
			return ir.Type{}, err
		}
		other, err := branch("else", s.Attrs.Else, s)
		if err != nil {
			return ir.Type{}, err
		}
		if !then.Equal(other) {
			return ir.Type{}, fmt.Errorf("then returns %v and else %v; want the same type", then, other)
		}
		out, err := op.WhereDef.Infer(op.NoAttrs{}, []ir.Type{pred, then, then}, ir.Type{}, s.Syms)
		if err != nil || !out.Equal(then) {
			return ir.Type{}, fmt.Errorf("pred is %v; want bool[], or bools that broadcast to %v", pred, then)
		}
		return out, nil
	},
	EvalBodies: func(a IfAttrs, run ir.RunBody, in []*tensor.Array, out *tensor.Array) error {
		all, some := truth(in[0])
		var y [2]*tensor.Array // of else and then
		for k, b := range []*ir.Graph{a.Else, a.Then} {
			if k == 1 && some || k == 0 && !all {
				r, err := run(b, in[1:])
				if err != nil {
					return err
				}
				y[k] = r[0]
			}
		}
		switch {
		case y[0] == nil:
			store(out, y[1])
		case y[1] == nil:
			store(out, y[0])
		default:
			return op.WhereDef.Eval(op.NoAttrs{}, []*tensor.Array{in[0], y[1], y[0]}, out)
		}
		return nil
	},
})

// branch returns the type of a branch's output.
func branch(attr string, b *ir.Graph, s ir.Sig[IfAttrs]) (ir.Type, error) {
	out, err := ir.CheckBody(attr, b, s.In[1:], s.Syms)
	if err == nil && len(out) != 1 {
		err = fmt.Errorf("%s: graph %s has %d outputs; want 1", attr, b.Name, len(out))
	}
	if err != nil {
		return ir.Type{}, err
	}
	return out[0], nil
}

var _ = ir.Lower(IfDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, pred := n.Attrs.(IfAttrs), in[0]
	branch := func(name string, b *ir.Graph, active *ir.Node) *ir.Node {
		return op.InlineGuarded(g, flat(g, b), in[1:], prefixOf(n, name), active)[0]
	}
	then := branch("then", a.Then, reduced(op.Any, pred))
	return op.Where(pred, then, branch("else", a.Else, reduced(op.Any, op.Not(pred))))
})

// If adds the output of then or of other, as pred says.
func If(pred *ir.Node, then, other *ir.Graph, captures ...*ir.Node) *ir.Node {
	return pred.Graph.Add(IfDef, IfAttrs{then, other}, append([]*ir.Node{pred}, captures...)...)
}
