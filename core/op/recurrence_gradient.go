package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// selective_scan is differentiated through a loop over the tokens. Like the gradient of any loop, it keeps only the
// states of some tokens. It costs about as many operations as two forward passes, or three if states are computed
// again.

// recurrence computes next, a function of a state and of the slices of a token, for all tokens in order. steps have the
// tokens on axis 1; the slices that next gets have no such axis. fixed are the same for all tokens. next returns the
// next state and the result of a token. The results are [B,T,...] and the last state.
func recurrence(name string, state *ir.Node, fixed, steps []*ir.Node, result ir.Type,
	next func(state *ir.Node, fixed, slices []*ir.Node) (after, y *ir.Node)) ([]*ir.Node, error) {
	g, tokens := state.Graph, steps[0].Type.Shape[1]
	if !tokens.IsStatic() || tokens.Const > MaxIterations {
		return nil, fmt.Errorf("has %v tokens; the gradient needs a number that is known when the graph is compiled",
			tokens)
	}
	row := ir.Type{DType: result.DType, Shape: append(result.Shape[:1:1], result.Shape[2:]...)}
	if tokens.Const == 0 {
		return []*ir.Node{Const(g, 0, result), state}, nil
	}
	body := ir.NewGraph("", g.Syms...)
	in := []*ir.Node{state, Const(g, 0, row)}
	if err := body.Build(func() {
		input := func(what string, k int, t ir.Type) *ir.Node { return Input(body, fmt.Sprint(what, k), t) }
		var same, slices []*ir.Node
		s := input("state", 0, state.Type)
		input("y", 0, row)
		for k, x := range fixed {
			same, in = append(same, input("same", k, x.Type)), append(in, x)
		}
		for k, x := range steps {
			shape := x.Type.Shape
			t := ir.Type{DType: x.Type.DType, Shape: append(shape[:1:1], shape[2:]...)}
			slices, in = append(slices, input("x", k, t)), append(in, swapAxes(x))
		}
		after, y := next(s, same, slices)
		body.Return("state", after)
		body.Return("y", y)
	}); err != nil {
		return nil, err
	}
	body.NameByText(name)
	out := Loop(LoopAttrs{Body: body, Carried: 2, Steps: len(steps), Length: int(tokens.Const), Results: []int{0, 3}},
		in...)
	return []*ir.Node{swapAxes(out[1]), out[0]}, nil
}

// swapAxes exchanges the first two axes.
func swapAxes(x *ir.Node) *ir.Node {
	perm := make([]int, x.Type.Rank())
	for i := range perm {
		perm[i] = i
	}
	perm[0], perm[1] = 1, 0
	return Transpose(x, perm...)
}

// withAxis adds an axis of size 1.
func withAxis(x *ir.Node, axis int) *ir.Node {
	s := x.Type.Shape
	return Reshape(x, append(append(s[:axis:axis], ir.Static(1)), s[axis:]...))
}

// initialState returns the state that a recurrence begins with, in the given type.
func initialState(state *ir.Node, g *ir.Graph, t ir.Type) *ir.Node {
	if state == nil {
		return Const(g, 0, t)
	}
	return state
}

var _ = ir.GradientThrough(SelectiveScanDef, func(n *ir.Node, operands []*ir.Node) ([]*ir.Node, error) {
	in := allWidened(operands...)
	x, a := in[0], in[2]
	out, err := recurrence("selective_scan", initialState(in[SelectiveScanState], n.Graph, n.Results[1]), []*ir.Node{a},
		[]*ir.Node{x, in[1], in[3], in[4]}, x.Type,
		func(state *ir.Node, fixed, slices []*ir.Node) (after, y *ir.Node) {
			v, delta, b, c := slices[0], slices[1], slices[2], slices[3]
			decay := Exp(Mul(withAxis(delta, 2), fixed[0]))
			after = Add(Mul(decay, state), Mul(withAxis(Mul(delta, v), 2), withAxis(b, 1)))
			return after, ReduceSum(Mul(after, withAxis(c, 1)), false, 2)
		})
	return narrowedResults(out, n, err)
})

// narrowedResults returns the results in the types of n's.
func narrowedResults(out []*ir.Node, n *ir.Node, err error) ([]*ir.Node, error) {
	for k, y := range out {
		out[k] = castTo(y, n.Results[k].DType)
	}
	return out, err
}
