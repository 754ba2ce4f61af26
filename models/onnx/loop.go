package onnx

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// This file converts Loop. A loop whose number of iterations is known is unrolled, so each iteration can compute shapes
// from its number. If that number is a size of the model, or a condition ends it, it becomes a loop of the program.

// maxUnrolled is the number of iterations up to which a Loop is unrolled if its condition may end it before.
const maxUnrolled = 64

// loopOp converts Loop.
func loopOp(n *node) []*value {
	g := n.graph("body")
	state := slices.Clone(n.in[min(2, len(n.in)):])
	if len(g.GetOutput()) < 1+len(state) || len(g.GetInput()) != 2+len(state) {
		n.fail("its graph has %d inputs and %d outputs; want the iteration, the condition and %d values, and the "+
			"condition and as many values", len(g.GetInput()), len(g.GetOutput()), len(state))
	}
	trip := -1
	if n.has(0) {
		list, ok := n.in[0].list()
		if ok && len(list) == 1 && list[0].den == 1 && (!list[0].num.IsStatic() || list[0].rows != nil) {
			return n.openLoop(g, list[0], n.in0(1), state)
		}
		if trip = n.oneInt(0); trip > maxNodes { // as exporters write loops that only a condition ends
			trip = -1
		}
	}
	cond := n.in0(1)
	if cond != nil && cond.isKnown() && n.array(1).At(0) == 0 {
		trip, cond = 0, nil
	}
	var running *ir.Node
	if cond != nil && !cond.isKnown() {
		running = op.Reshape(n.b.at(cond), ir.Shape{})
	}
	return n.unrolled(g, trip, running, state)
}

// unrolled converts a Loop of at most trip iterations (-1 for any number) by converting its graph once for each. Once
// running has become false, iterations do not change the state.
func (n *node) unrolled(g *onnxpb.GraphProto, trip int, running *ir.Node, state []*value) []*value {
	scanned := make([][]*ir.Node, len(g.GetOutput())-1-len(state))
	ran := op.Const(n.b.g, 0, ir.TypeOf(dtype.I64)) // iterations that ran
	conditional := running != nil
	for i := 0; trip < 0 || i < trip; i++ {
		if trip < 0 && i >= maxNodes {
			n.fail("has not ended after %d iterations, the limit", maxNodes)
		}
		before := slices.Clone(state)
		it := tensor.NewArray(dtype.I64)
		it.Ints[0] = int64(i)
		yes := tensor.NewArray(dtype.Bool)
		yes.Ints[0] = 1
		out := n.inline(g, append([]*value{made(it), made(yes)}, state...))
		for k, v := range out {
			if v.bound != nil && (running != nil || k > len(state)) {
				n.fail("output %q of its graph has a number of rows that depends on the data; that is not supported here",
					v.name)
			}
		}
		now := number(1, ran)
		if running != nil {
			now = op.Cast(running, dtype.I64)
		}
		ran = op.Add(ran, now)
		for k := range state {
			next := out[k+1]
			if running != nil {
				old := n.b.at(state[k])
				x := op.Where(running, n.b.at(next), old)
				next = &value{typ: x.Type, node: x}
			}
			state[k] = next
		}
		for k := range scanned {
			scanned[k] = append(scanned[k], n.b.at(out[1+len(state)+k]))
		}
		if c := out[0]; c.isKnown() {
			t, err := c.init.read()
			if err != nil {
				n.b.g.Fail(err)
			}
			if t.Array().At(0) == 0 {
				break
			}
		} else {
			if len(scanned) == 0 && (trip < 0 || trip-i > maxUnrolled) {
				return n.whileLoop(g, i, trip, running, before)
			}
			if trip < 0 {
				n.fail("has no largest number of iterations, and its condition is not known before it runs; then it can " +
					"have values that it carries, but none that it stacks")
			}
			c := op.Reshape(n.b.at(out[0]), ir.Shape{})
			if running != nil {
				c = op.And(running, c)
			}
			running, conditional = c, conditional || i < trip-1
		}
	}
	out := slices.Clone(state)
	for k, rows := range scanned {
		if len(rows) == 0 {
			t := n.outputType(g, 1+len(state)+k)
			out = append(out, one(op.Const(n.b.g, 0, ir.Type{DType: t.DType,
				Shape: append(ir.ShapeOf(0), t.Shape...)}))...)
			continue
		}
		if conditional {
			n.bind(len(out), 0, ran)
		}
		out = append(out, one(op.Stack(0, rows...))...)
	}
	return out
}

// openLoop converts a Loop whose number of iterations is a size, or a number of rows that depends on the data. The
// program has a loop of the largest number. Iterations after the end repeat the last one that ran, with the same
// values. So they cannot fail where it did not, for example by an index out of range.
//
//	trip = B = 1..8     loop of 8, which carries t, run, the last iteration, and the state before and after it
//	x = f(t, x)   ->    runs   = run and t < B
//	                    last   = runs ? t : last
//	                    before = runs ? after : before
//	                    after  = f(last, before)
func (n *node) openLoop(g *onnxpb.GraphProto, trip elem, cond *value, state []*value) []*value {
	_, most := n.b.g.Syms.Bounds(trip.num)
	if most > op.MaxIterations {
		n.fail("has up to %d iterations; allowed are %d", most, op.MaxIterations)
	}
	states := len(state)
	body, captures := n.loopBody(g, state)
	// The operands: t, run, last, the number of iterations that ran, the states twice, the values that are stacked;
	// then trip and the captures.
	num := func(v float64) *ir.Node { return op.Const(n.b.g, v, ir.TypeOf(dtype.I64)) }
	run := op.Const(n.b.g, 1, ir.TypeOf(dtype.Bool))
	if cond != nil {
		run = op.Reshape(n.b.at(cond), ir.Shape{})
	}
	operands := []*ir.Node{num(0), run, num(0), num(0)}
	for range 2 {
		for _, v := range state {
			operands = append(operands, n.b.at(v))
		}
	}
	for _, o := range body.Outputs[1+states:] {
		operands = append(operands, op.Const(n.b.g, 0, o.Node.Type))
	}
	carried := len(operands)
	count := n.sizeNode(trip.num, dtype.I64)
	if trip.rows != nil {
		count = op.Reshape(cast(trip.rows, dtype.I64), ir.Shape{})
	}
	operands = append(operands, count)
	for _, v := range captures {
		operands = append(operands, n.b.at(v))
	}
	attrs := hir.ScanAttrs{Body: n.step(body, operands, states, carried), Carried: carried, Length: int(max(most, 1))}
	result := func(k int, all bool) *ir.Node {
		a := attrs
		a.Result, a.Trajectory = k, all
		return n.b.g.Add(hir.ScanDef, a, operands...)
	}
	ran := result(3, false)
	var out []*value
	for k, v := range state { // if nothing ran, the state is what it was
		out = append(out, one(op.Where(op.Gt(ran, num(0)), result(4+states+k, false), n.b.at(v)))...)
	}
	ends := cond != nil && !cond.isKnown() || !isTrue(body.Outputs[0].Node)
	for k := 4 + 2*states; k < carried; k++ {
		rows := result(k, true)
		if trip.rows == nil {
			rows = op.Gather(rows, n.positionsUpTo(trip.num), 0)
		}
		if ends || trip.rows != nil {
			n.bind(len(out), 0, ran)
		}
		out = append(out, one(rows)...)
	}
	return out
}

// loopBody converts the graph of a Loop, which must keep the types of the state. Its inputs are the iteration, the
// state and the captures.
func (n *node) loopBody(g *onnxpb.GraphProto, state []*value) (body *ir.Graph, captures []*value) {
	for i, v := range state {
		if v == nil || v.bound != nil || v.tensors != nil {
			n.fail("value %d is missing, a sequence, or has a number of rows that depends on the data; that is not supported "+
				"in a Loop whose number of iterations is not known", i)
		}
	}
	body, captures = n.body(g, func(inner *ir.Graph) []*value {
		it := op.Input(inner, "iteration", ir.TypeOf(dtype.I64))
		yes := tensor.NewArray(dtype.Bool)
		yes.Ints[0] = 1
		in := []*value{{typ: it.Type, node: it}, made(yes)}
		for k, v := range state {
			x := op.Input(inner, fmt.Sprint("state", k), v.typ)
			in = append(in, &value{typ: v.typ, node: x, narrow: v.narrow})
		}
		return in
	})
	for k, v := range state {
		if t := body.Outputs[1+k].Node.Type; !t.Equal(v.typ) {
			n.fail("value %d is %v before an iteration and %v after it; want the same type, because the number of "+
				"iterations is not known", k, v.typ, t)
		}
	}
	return body, captures
}

// whileLoop converts a Loop that its condition ends, from an iteration on that begins with that state. running says
// whether that iteration runs; nil is true.
func (n *node) whileLoop(g *onnxpb.GraphProto, first, trip int, running *ir.Node, state []*value) []*value {
	body, captures := n.loopBody(g, state)
	if running == nil {
		running = op.Const(n.b.g, 1, ir.TypeOf(dtype.Bool))
	}
	operands := []*ir.Node{op.Const(n.b.g, float64(first), ir.TypeOf(dtype.I64)), running}
	for _, v := range state {
		operands = append(operands, n.b.at(v))
	}
	for _, v := range captures {
		operands = append(operands, n.b.at(v))
	}
	cond := n.graphOf(body.Name+"_runs", operands, func(in []*ir.Node, g *ir.Graph) { g.Return("y", op.Copy(in[1])) })
	next := n.graphOf(body.Name+"_next", operands, func(in []*ir.Node, g *ir.Graph) {
		out := g.Inline(body, slices.Delete(slices.Clone(in), 1, 2), "")
		results := []*ir.Node{op.Add(in[0], number(1, in[0])), op.Reshape(out[0], ir.Shape{})}
		results = append(append(results, out[1:]...), in[2+len(state):]...)
		for k, x := range results {
			g.Return(fmt.Sprint("y", k), x)
		}
	})
	if trip < 0 {
		trip = op.MaxIterations
	}
	var out []*value
	for k, v := range state {
		a := hir.WhileAttrs{Cond: cond, Body: next, MaxIterations: max(trip-first, 1), Result: 2 + k}
		x := hir.While(a, operands...)
		out = append(out, &value{typ: x.Type, node: x, narrow: v.narrow})
	}
	return out
}

// graphOf returns a graph that f makes, with an input for each operand.
func (n *node) graphOf(name string, operands []*ir.Node, f func(in []*ir.Node, g *ir.Graph)) *ir.Graph {
	g := ir.NewGraph(unique(n.b.graphs, name), n.b.g.Syms...)
	err := g.Build(func() {
		in := make([]*ir.Node, len(operands))
		for k, x := range operands {
			in[k] = op.Input(g, fmt.Sprint("x", k), x.Type)
		}
		f(in, g)
	})
	if err != nil {
		n.b.g.Fail(err)
	}
	return g
}

// isTrue reports whether a node is the constant true.
func isTrue(x *ir.Node) bool {
	a, ok := x.Attrs.(op.ConstAttrs)
	return ok && a.Value != 0
}

// step returns the graph of an iteration of openLoop around the body of Loop.
func (n *node) step(body *ir.Graph, operands []*ir.Node, states, carried int) *ir.Graph {
	g := ir.NewGraph(unique(n.b.graphs, body.Name+"_step"), body.Syms...)
	err := g.Build(func() {
		in := make([]*ir.Node, len(operands))
		for k, x := range operands {
			in[k] = op.Input(g, fmt.Sprint("x", k), x.Type)
		}
		t, trip := in[0], in[carried]
		runs := op.And(in[1], op.Lt(t, trip))
		last := op.Where(runs, t, in[2])
		args := []*ir.Node{last}
		for k := range states {
			args = append(args, op.Where(runs, in[4+states+k], in[4+k]))
		}
		out := g.Inline(body, append(slices.Clone(args), in[carried+1:]...), "")
		next := []*ir.Node{op.Add(t, number(1, t)), op.And(runs, op.Reshape(out[0], ir.Shape{})), last,
			op.Add(in[3], op.Cast(runs, dtype.I64))}
		for k, x := range slices.Concat(next, args[1:], out[1:]) {
			g.Return(fmt.Sprint("y", k), x)
		}
	})
	if err != nil {
		n.b.g.Fail(err)
	}
	return g
}

// in0 returns input i, or nil.
func (n *node) in0(i int) *value {
	if !n.has(i) {
		return nil
	}
	return n.in[i]
}
