// Package interp runs graphs and programs with the ops' own reference evaluation: slow, in float64, and what everything
// else is compared with. Run takes a graph of any level; RunProgram takes a planned program and uses its memory plan, so
// that a wrong plan shows as a wrong result.
//
// It imports core/program, core/ir and below, no op and no pass. The caller links core/op (and core/hir).
package interp

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Params gives the weight of a name. It is asked for each weight once, when it is needed.
type Params func(name string) (*tensor.Array, error)

// Observer is told the value of every node just after it was computed, inputs and params included. It must neither
// change nor keep the value; an error ends the run.
type Observer func(n *ir.Node, value *tensor.Array) error

// Run computes the outputs of a graph under values of its symbols. Blocks are lowered on the way. Values are freed after
// their last use. params may be nil where there are no weights.
func Run(g *ir.Graph, syms map[string]int64, inputs map[string]*tensor.Array, params Params, observe ...Observer) (map[string]*tensor.Array, error) {
	if err := checkSyms(g, syms); err != nil {
		return nil, err
	}
	if err := checkNames(g, inputs); err != nil {
		return nil, err
	}
	values, uses := make([]*tensor.Array, len(g.Nodes)), g.UseCounts()
	for i, n := range g.Nodes {
		in := make([]*tensor.Array, len(n.In))
		for k, x := range n.In {
			in[k] = values[x.ID]
		}
		v, err := value(n, in, syms, inputs, params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Label(), err)
		}
		if err := tell(observe, n, v); err != nil {
			return nil, err
		}
		if values[i] = v; uses[i] == 0 {
			values[i] = nil
		}
		for _, x := range n.In {
			if uses[x.ID]--; uses[x.ID] == 0 {
				values[x.ID] = nil
			}
		}
	}
	out := make(map[string]*tensor.Array, len(g.Outputs))
	for _, o := range g.Outputs {
		out[o.Name] = values[o.Node.ID]
	}
	return out, nil
}

func tell(observe []Observer, n *ir.Node, v *tensor.Array) error {
	for _, f := range observe {
		if err := f(n, v); err != nil {
			return err
		}
	}
	return nil
}

// value computes one node from its operands' values.
func value(n *ir.Node, in []*tensor.Array, syms map[string]int64, inputs map[string]*tensor.Array, params Params) (*tensor.Array, error) {
	shape := n.Type.Shape.Eval(syms)
	switch {
	case n.Op.Name == "input":
		return checkValue(inputs[n.Name], n, shape)
	case n.Op.Name == "param":
		if params == nil {
			return nil, fmt.Errorf("the graph has weights, but none are given")
		}
		v, err := params(n.Name)
		if err != nil {
			return nil, err
		}
		return checkValue(v, n, shape)
	case n.Op.Eval != nil:
		out := tensor.NewArray(n.Type.DType, shape...)
		return out, n.Op.Eval(n.Attrs, in, out)
	case n.Op.CanLower():
		return runLowered(n, in)
	}
	return nil, fmt.Errorf("op %s has neither a reference evaluation nor a lowering", n.Op.Name)
}

// runLowered runs the expansion of one op on the given operands.
func runLowered(n *ir.Node, in []*tensor.Array) (*tensor.Array, error) {
	types := make([]ir.Type, len(in))
	for i, x := range in {
		types[i] = TypeOf(x)
	}
	g, err := LowerOne(n.Op, n.Attrs, types, n.Type)
	if err != nil {
		return nil, err
	}
	inputs := make(map[string]*tensor.Array, len(in))
	for i, x := range g.Inputs() {
		inputs[x.Name] = in[i]
	}
	out, err := Run(g, nil, inputs, nil)
	return out[g.Outputs[0].Name], err
}

// LowerOne makes a graph of the expansion of one op on inputs of static types. Declared is the type of declared ops.
func LowerOne(def *ir.OpDef, attrs any, types []ir.Type, declared ir.Type) (*ir.Graph, error) {
	input, ok := ir.Find("input")
	if !ok || !def.CanLower() {
		return nil, fmt.Errorf("op %s cannot be lowered", def.Name)
	}
	g := ir.NewGraph(def.Name)
	in := make([]*ir.Node, len(types))
	for i, t := range types {
		in[i] = g.AddDeclared(input, input.NewAttrs(), t).Named(fmt.Sprintf("x%d", i))
	}
	typ, err := def.Infer(attrs, types, declared, nil)
	if err != nil {
		return nil, err
	}
	var out *ir.Node
	if err := g.Build(func() {
		out = def.LowerTo(g, &ir.Node{ID: len(in), Op: def, Attrs: attrs, In: in, Type: typ, Graph: g}, in)
	}); err != nil {
		return nil, err
	}
	if !out.Type.Equal(typ) {
		return nil, fmt.Errorf("BUG: lowering of %s gives %v, the op %v", def.Name, out.Type, typ)
	}
	g.Return("out", out)
	return g, nil
}

// TypeOf is the static type of a value.
func TypeOf(a *tensor.Array) ir.Type {
	t := ir.Type{DType: a.DType, Shape: make(ir.Shape, len(a.Shape))}
	for i, d := range a.Shape {
		t.Shape[i] = ir.Static(int64(d))
	}
	return t
}

// checkValue compares a given value with the node that stands for it.
func checkValue(v *tensor.Array, n *ir.Node, shape []int) (*tensor.Array, error) {
	if v == nil {
		return nil, fmt.Errorf("%s of type %v is not given", n.Op.Name, n.Type)
	}
	want := TypeOf(&tensor.Array{DType: n.Type.DType, Shape: shape})
	if got := TypeOf(v); !got.Equal(want) {
		return nil, fmt.Errorf("%s is %v; want %v", n.Op.Name, got, want)
	}
	if v.Len() != tensor.Numel(shape) {
		return nil, fmt.Errorf("%s has %d elements for type %v", n.Op.Name, v.Len(), want)
	}
	return v, nil
}

func checkSyms(g *ir.Graph, syms map[string]int64) error {
	for _, s := range g.Syms {
		if v, ok := syms[s.Name]; !ok || v < s.Min || v > s.Max {
			return fmt.Errorf("size %s is %d; want a value from %d to %d", s.Name, v, s.Min, s.Max)
		}
	}
	return nil
}

// checkNames reports values that the graph has no input for: they are likely misspelled.
func checkNames(g *ir.Graph, inputs map[string]*tensor.Array) error {
	for name := range inputs {
		if n, ok := g.Find(name); !ok || n.Op.Name != "input" {
			return fmt.Errorf("graph %s has no input %q", g.Name, name)
		}
	}
	return nil
}
