package onnx

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has the optimizers of ai.onnx.preview.training.

const training = "ai.onnx.preview.training"

// The ranks of inputs.
var (
	_ = ranks("one one", "ai.onnx.preview.training.Adagrad", "ai.onnx.preview.training.Adam",
		"ai.onnx.preview.training.Momentum")
)

var (
	_ = registerIn(training, "Adagrad", conversion{since: 1, convert: optimizer(1, adagrad)})
	_ = registerIn(training, "Momentum", conversion{since: 1, convert: optimizer(1, momentum)})
	_ = registerIn(training, "Adam", conversion{since: 1, convert: optimizer(2, adam)})
)

// optimizer converts an optimizer. Its inputs are the rate, the step, then all tensors, all gradients and all of each
// state. step returns a tensor and its states after a step.
func optimizer(states int, step func(n *node, r, t, x, g *ir.Node, s []*ir.Node) []*ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		count := (len(n.in) - 2) / (2 + states)
		if len(n.in) != 2+count*(2+states) || count < 1 {
			n.fail("has %d inputs; want 2 and %d for each tensor", len(n.in), 2+states)
		}
		out := make([]*ir.Node, count*(1+states))
		t := n.x(1)
		for i := range count {
			x := n.x(2 + i)
			var s []*ir.Node
			for k := range states {
				s = append(s, n.x(2+count*(2+k)+i))
			}
			g := n.x(2 + count + i)
			g = op.Add(g, op.Mul(x, number(n.float("norm_coefficient", 0), x)))
			rate := op.Reshape(cast(n.x(0), x.Type.DType), ir.Shape{})
			for k, v := range step(n, rate, op.Reshape(t, ir.Shape{}), x, g, s) {
				out[k*count+i] = v
			}
		}
		return many(out...)
	}
}

func adagrad(n *node, r, t, x, g *ir.Node, s []*ir.Node) []*ir.Node {
	num := func(v float64) *ir.Node { return number(v, x) }
	r = op.Div(r, op.Add(num(1), op.Mul(cast(t, x.Type.DType), num(n.float("decay_factor", 0)))))
	h := op.Add(s[0], op.Square(g))
	return []*ir.Node{op.Sub(x, op.Div(op.Mul(r, g), op.Add(op.Sqrt(h), num(n.float("epsilon", 0))))), h}
}

func momentum(n *node, r, t, x, g *ir.Node, s []*ir.Node) []*ir.Node {
	num := func(v float64) *ir.Node { return number(v, x) }
	alpha := num(n.float("alpha", 0))
	beta := op.Where(op.Gt(t, number(0, t)), num(n.float("beta", 0)), num(1))
	v := op.Add(op.Mul(alpha, s[0]), op.Mul(beta, g))
	by := v
	switch mode := n.str("mode", "standard"); mode {
	case "standard":
	case "nesterov":
		by = op.Add(g, op.Mul(alpha, v))
	default:
		n.fail("mode is %q; allowed are standard and nesterov", mode)
	}
	return []*ir.Node{op.Sub(x, op.Mul(r, by)), v}
}

func adam(n *node, r, t, x, g *ir.Node, s []*ir.Node) []*ir.Node {
	num := func(v float64) *ir.Node { return number(v, x) }
	alpha, beta := n.float("alpha", float64(float32(0.9))), n.float("beta", float64(float32(0.999)))
	v := op.Add(op.Mul(num(alpha), s[0]), op.Mul(num(1-alpha), g))
	h := op.Add(op.Mul(num(beta), s[1]), op.Mul(num(1-beta), op.Square(g)))
	steps := cast(t, x.Type.DType)
	fix := op.Div(op.Sqrt(op.Sub(num(1), op.Pow(num(beta), steps))), op.Sub(num(1), op.Pow(num(alpha), steps)))
	r = op.Where(op.Gt(t, number(0, t)), op.Mul(r, fix), r)
	y := op.Sub(x, op.Mul(r, op.Div(v, op.Add(op.Sqrt(h), num(n.float("epsilon", 0))))))
	return []*ir.Node{op.Mul(num(1-n.float("norm_coefficient_post", 0)), y), v, h}
}
