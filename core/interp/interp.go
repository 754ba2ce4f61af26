// Package interp runs graphs and programs with the reference evaluation of the ops. It computes in float64 and is slow.
// All other implementations are compared with it. Run takes a graph of any level. RunProgram takes a planned program
// and obeys its memory plan, so a wrong plan causes a wrong result.
//
// It imports core/program, core/ir and what these import, but no op and no pass. The caller links core/op (and
// core/hir).
package interp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// Params returns the weight of that name. It is called for each param of the graph when the param is evaluated.
type Params func(name string) (*tensor.Array, error)

// Observer is called with the value of each node after it was computed, including inputs and params. For an op with
// several results it is called for each result. It must neither change nor keep the value. An error ends the run.
type Observer func(n *ir.Node, value *tensor.Array) error

// Run computes the outputs of a graph for the given values of its symbols. It lowers blocks as needed and frees values
// after their last use. params may be nil if the graph has no weights.
func Run(g *ir.Graph, syms map[string]int64, inputs map[string]*tensor.Array, params Params, observe ...Observer) (
	map[string]*tensor.Array, error) {
	return RunFrom(nil, g, syms, inputs, params, observe...)
}

// RunFrom is like Run but starts from the given states, by name. A missing state has its initial value. If the run
// succeeds, RunFrom stores the new values in states. If states is nil, it drops them.
func RunFrom(states map[string]*tensor.Array, g *ir.Graph, syms map[string]int64, inputs map[string]*tensor.Array,
	params Params, observe ...Observer) (map[string]*tensor.Array, error) {
	if err := g.CheckSyms(syms); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Op.Late }) { // they have no meaning by themselves
		var err error
		if g, err = g.LowerBlocks(nil); err != nil {
			return nil, err
		}
	}
	if err := checkNames(g, inputs); err != nil {
		return nil, err
	}
	updated := map[string]*tensor.Array{}
	values, uses := make([]*tensor.Array, len(g.Nodes)), g.UseCounts()
	for _, n := range g.Nodes {
		if n.Op == ir.ResultDef { // its tuple node computes the value
			continue
		}
		in := make([]*tensor.Array, len(n.In))
		for k, x := range n.Operands() {
			in[k] = values[x.ID]
		}
		results, err := compute(n, in, syms, inputs, params, states)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Label(), err)
		}
		for k, v := range n.Values() {
			if v.Updated() != nil {
				updated[v.StateOf().Name] = results[k]
			}
			if err := tell(observe, v, results[k]); err != nil {
				return nil, err
			}
			if uses[v.ID] > 0 {
				values[v.ID] = results[k]
			}
		}
		for _, x := range n.Operands() {
			if uses[x.ID]--; uses[x.ID] == 0 {
				values[x.ID] = nil
			}
		}
	}
	out := make(map[string]*tensor.Array, len(g.Outputs))
	for _, o := range g.Outputs {
		out[o.Name] = values[o.Node.ID]
	}
	if states != nil {
		maps.Copy(states, updated)
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

// compute returns the results of one node for the values of its operands.
func compute(n *ir.Node, in []*tensor.Array, syms map[string]int64, inputs map[string]*tensor.Array, params Params,
	states map[string]*tensor.Array) ([]*tensor.Array, error) {
	switch {
	case n.Op.Name == "input":
		v, err := checkValue(inputs[n.Name], n, n.Type.Shape.Eval(syms))
		return []*tensor.Array{v}, err
	case n.Op.Name == "param":
		if params == nil {
			return nil, fmt.Errorf("the graph has weights, but none are given")
		}
		v, err := params(n.Name)
		if err == nil {
			v, err = checkValue(v, n, n.Type.Shape.Eval(syms))
		}
		return []*tensor.Array{v}, err
	case n.Op == ir.StateDef:
		v := states[n.Name]
		if v == nil {
			v = initial(n)
		}
		v, err := checkValue(v, n, n.Type.Shape.Eval(nil))
		return []*tensor.Array{v}, err
	case n.Op.EvalBodies != nil:
		return evalBodies(n, in, syms, params)
	case n.Op.Eval != nil:
		return Eval(n, syms, in)
	case n.Op.CanLower():
		return runLowered(n, in)
	}
	return nil, fmt.Errorf("op %s has neither a reference evaluation nor a lowering", n.OpName())
}

// initial returns the initial value of a state.
func initial(n *ir.Node) *tensor.Array {
	t := program.StateTensor{Type: n.Type, Init: n.Attrs.(ir.StateAttrs).Init}
	b := make([]byte, t.Bytes())
	t.Fill(b)
	return tensor.Tensor{DType: n.Type.DType, Shape: n.Type.Shape.Eval(nil), Data: b}.Array()
}

// Eval evaluates a node for the given values of its symbols and operands. The node's op must have a reference
// evaluation.
func Eval(n *ir.Node, syms map[string]int64, in []*tensor.Array) ([]*tensor.Array, error) {
	return EvalWith(n, syms, in, nil)
}

// EvalWith is like Eval, for a node whose graphs may read weights.
func EvalWith(n *ir.Node, syms map[string]int64, in []*tensor.Array, params Params) ([]*tensor.Array, error) {
	if n.Op.EvalBodies != nil {
		return evalBodies(n, in, syms, params)
	}
	out := results(n, syms)
	return out, n.Op.Eval(n.Attrs, in, out...)
}

// evalBodies evaluates a node whose op runs graphs.
func evalBodies(n *ir.Node, in []*tensor.Array, syms map[string]int64, params Params) ([]*tensor.Array, error) {
	run := func(g *ir.Graph, in []*tensor.Array) ([]*tensor.Array, error) {
		inputs := make(map[string]*tensor.Array, len(in))
		for k, x := range g.Inputs() {
			inputs[x.Name] = in[k]
		}
		own := make(map[string]int64, len(g.Syms))
		for _, s := range g.Syms {
			own[s.Name] = syms[s.Name]
		}
		named, err := Run(g, own, inputs, params)
		if err != nil {
			return nil, fmt.Errorf("graph %s: %w", g.Name, err)
		}
		out := make([]*tensor.Array, len(g.Outputs))
		for k, o := range g.Outputs {
			out[k] = named[o.Name]
		}
		return out, nil
	}
	out := results(n, syms)
	return out, n.Op.EvalBodies(n.Attrs, run, in, out...)
}

// results returns arrays for the results of a node.
func results(n *ir.Node, syms map[string]int64) []*tensor.Array {
	types := n.ResultTypes()
	out := make([]*tensor.Array, len(types))
	for k, t := range types {
		out[k] = tensor.NewArray(t.DType, t.Shape.Eval(syms)...)
	}
	return out
}

// runLowered evaluates a node by running its lowering.
func runLowered(n *ir.Node, in []*tensor.Array) ([]*tensor.Array, error) {
	types := make([]ir.Type, len(in))
	for k, x := range in {
		types[k] = TypeOf(x)
	}
	g, err := LowerOne(n.Op, n.Attrs, types, n.Type)
	if err != nil {
		return nil, err
	}
	inputs := make(map[string]*tensor.Array, len(in))
	for k, x := range in {
		if x != nil {
			inputs[fmt.Sprintf("x%d", k)] = x
		}
	}
	named, err := Run(g, nil, inputs, nil)
	out := make([]*tensor.Array, len(g.Outputs))
	for k, o := range g.Outputs {
		out[k] = named[o.Name]
	}
	return out, err
}

// LowerOne returns a graph with the lowering of one op. Its inputs x0, x1, ... have the given static types. declared is
// the type of ops whose type is not inferred. The outputs are the op's results, called out, or out0, out1, ... if there
// are several.
func LowerOne(def *ir.OpDef, attrs any, types []ir.Type, declared ir.Type) (*ir.Graph, error) {
	input, ok := ir.Find("input")
	if !ok || !def.CanLower() {
		return nil, fmt.Errorf("op %s cannot be lowered", def.Name)
	}
	g := ir.NewGraph(def.Name)
	in := make([]*ir.Node, max(len(types), len(def.Operands)))
	for k, t := range types {
		if t.Present() {
			in[k] = g.AddDeclared(input, input.NewAttrs(), t).Named(fmt.Sprintf("x%d", k))
		}
	}
	n := &ir.Node{ID: len(g.Nodes), Op: def, Attrs: attrs, In: in, Graph: g}
	var err error
	if n.Type, n.Results, err = n.Infer(declared, nil); err != nil {
		return nil, err
	}
	var out []*ir.Node
	if err := g.Build(func() { out = def.LowerTo(g, n, in) }); err != nil {
		return nil, err
	}
	want := n.ResultTypes()
	if len(out) != len(want) {
		return nil, fmt.Errorf("BUG: lowering of %s gives %d results, the op %d", def.Name, len(out), len(want))
	}
	for k, t := range want {
		if !out[k].Type.Equal(t) {
			return nil, fmt.Errorf("BUG: lowering of %s gives %v as result %d, the op %v", def.Name, out[k].Type, k, t)
		}
		name := "out"
		if def.Tuple {
			name = fmt.Sprint("out", k)
		}
		g.Return(name, out[k])
	}
	return g, nil
}

// TypeOf returns the type of a value. Its shape is static.
func TypeOf(a *tensor.Array) ir.Type {
	if a == nil {
		return ir.Type{}
	}
	t := ir.Type{DType: a.DType, Shape: make(ir.Shape, len(a.Shape))}
	for i, d := range a.Shape {
		t.Shape[i] = ir.Static(int64(d))
	}
	return t
}

// checkValue returns v, or an error unless v has the element type of n and the given shape.
func checkValue(v *tensor.Array, n *ir.Node, shape []int) (*tensor.Array, error) {
	if v == nil {
		return nil, fmt.Errorf("%s of type %v is not given", n.OpName(), n.Type)
	}
	want := TypeOf(&tensor.Array{DType: n.Type.DType, Shape: shape})
	if got := TypeOf(v); !got.Equal(want) {
		return nil, fmt.Errorf("%s is %v; want %v", n.OpName(), got, want)
	}
	if v.Len() != tensor.Numel(shape) {
		return nil, fmt.Errorf("%s has %d elements for type %v", n.OpName(), v.Len(), want)
	}
	return v, nil
}

// checkNames returns an error for a value that has no input in the graph. The name is probably misspelled.
func checkNames(g *ir.Graph, inputs map[string]*tensor.Array) error {
	for name := range inputs {
		if n, ok := g.Find(name); !ok || n.Op.Name != "input" {
			return fmt.Errorf("graph %s has no input %q", g.Name, name)
		}
	}
	return nil
}
