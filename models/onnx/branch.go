package onnx

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file converts If. A known condition chooses a branch during the import. Otherwise the program has both, and
// their results must have the same type, or differ in the number of rows on one axis.

var (
	_ = ranks("one", "If")
	_ = register("If", conversion{since: 1, keep: true, convert: ifOp,
		note: "branches of different ranks: the sizes must decide the condition"})
)

// ifOp converts If. If the condition is known, it converts only the branch that is taken.
func ifOp(n *node) []*value {
	if n.in[0].isKnown() {
		name := "else_branch"
		if n.array(0).At(0) != 0 {
			name = "then_branch"
		}
		return n.inline(n.graph(name), nil)
	}
	pred := op.Reshape(n.x(0), ir.Shape{})
	then, thenIn := n.body(n.graph("then_branch"), nil)
	other, otherIn := n.body(n.graph("else_branch"), nil)
	if len(then.Outputs) != len(other.Outputs) {
		n.fail("its branches have %d and %d outputs; want the same number", len(then.Outputs), len(other.Outputs))
	}
	var out []*value
	captures := append(slices.Clone(thenIn), otherIn...)
	for i := range then.Outputs {
		axis, size := n.joined(i, then.Outputs[i].Node.Type, other.Outputs[i].Node.Type)
		t, e := n.branch(then, captures, 0, i, axis, size), n.branch(other, captures, len(thenIn), i, axis, size)
		xs := []*ir.Node{pred}
		for _, v := range captures {
			xs = append(xs, n.b.at(v))
		}
		if len(captures) == 0 { // a block needs an operand
			xs = append(xs, pred)
		}
		x := n.b.g.Add(hir.IfDef, hir.IfAttrs{Then: t, Else: e}, xs...)
		out = append(out, &value{typ: x.Type, node: x})
		if axis >= 0 {
			rows := func(g *ir.Graph) *ir.Node { return n.sizeNode(g.Outputs[i].Node.Type.Shape[axis], dtype.I64) }
			n.bind(i, axis, op.Where(pred, rows(then), rows(other)))
		}
	}
	return out
}

// joined returns the axis on which the types of output i of the branches differ, and a size that is enough for both
// there. The axis is -1 if the types are equal. If no axis does, the import ends.
func (n *node) joined(i int, then, other ir.Type) (axis int, size ir.Dim) {
	if then.Equal(other) {
		return -1, size
	}
	axis = -1
	differ := 0
	for a := range min(len(then.Shape), len(other.Shape)) {
		if then.Shape[a] != other.Shape[a] {
			axis = a
			differ++
		}
	}
	one := then.DType == other.DType && len(then.Shape) == len(other.Shape) && differ == 1
	if one {
		for _, pair := range [][2]ir.Dim{{then.Shape[axis], other.Shape[axis]}, {other.Shape[axis], then.Shape[axis]}} {
			if d, ok := pair[0].Sub(pair[1]); ok {
				if lo, _ := n.b.g.Syms.Bounds(d); lo >= 0 {
					return axis, pair[0]
				}
			}
		}
	}
	err := fmt.Errorf("output %d is %v from then_branch and %v from else_branch; want the same type, or a condition that is "+
		"known before the model runs", i, then, other)
	for _, d := range n.in[0].decided {
		if e := n.needed(d, err); e != nil {
			n.b.g.Fail(e)
		}
	}
	if one {
		if both, ok := then.Shape[axis].Add(other.Shape[axis]); ok {
			return axis, both
		}
	}
	d := diag.New(code.GraphText, n.b.file.path, "%s: %w", n.describe(), err)
	if c := n.in[0]; c.node != nil && c.node.Is(op.InputDef) {
		d = d.WithHint("the condition is input %s; --value %[1]s=1 takes then_branch, and --value %[1]s=0 else_branch", c.name)
	}
	n.b.g.Fail(d)
	return -1, size
}

// branch returns the graph of one output of a branch. Its inputs are the captures of both branches. If axis is not -1,
// zeros extend the output to that size.
func (n *node) branch(body *ir.Graph, captures []*value, first, output, axis int, size ir.Dim) *ir.Graph {
	g := ir.NewGraph(unique(n.b.graphs, body.Name), body.Syms...)
	err := g.Build(func() {
		var in []*ir.Node
		for i, v := range captures {
			in = append(in, op.Input(g, "x"+string(rune('a'+i/26%26))+string(rune('a'+i%26)), v.typ))
		}
		if len(captures) == 0 {
			op.Input(g, "unused", ir.TypeOf(dtype.Bool))
		}
		mine := in[first:]
		out := g.Inline(body, mine[:len(body.Inputs())], "")
		y := out[output]
		if axis >= 0 && y.Type.Shape[axis] != size {
			t := ir.Type{DType: y.Type.DType, Shape: slices.Clone(y.Type.Shape)}
			t.Shape[axis], _ = size.Sub(t.Shape[axis])
			y = op.Concat(axis, y, op.Const(g, 0, t))
		}
		g.Return("y", y)
	})
	if err != nil {
		n.b.g.Fail(err)
	}
	return g
}
