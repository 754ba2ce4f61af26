package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// SoftmaxCrossEntropyDef defines the cross entropy of a softmax.
var SoftmaxCrossEntropyDef = ir.Define(ir.Def[NoAttrs]{
	Name: "softmax_cross_entropy",
	Doc: "Takes logits [N,C], f32 or f64, and labels [N] (i32, i64 or u32). The result [N] is, for each row x with label t, minus the logarithm of the softmax of " +
		"x at t: m + log(sum of exp(x - m)) - x[t], m the maximum of x. PyTorch's F.cross_entropy without reduction. A label outside 0 to C-1 is a run error, -100 too: give rows that " +
		"must not count a weight of 0 afterwards. The softmax need not be stored.",
	Operands: "logits, labels",
	Checked:  []ir.Checked{{Operand: 1, Safe: 0}},
	Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
		x, err := inferCrossEntropy(s.In)
		return ir.Type{DType: x.DType, Shape: x.Shape[:min(1, x.Rank())]}, err
	},
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		return eachLabel(in, func(r, label int, x, p []float64, lse float64) { out.Floats[r] = lse - x[label] })
	},
	Memory: func(s ir.Sig[NoAttrs], _ ir.Type) int64 { return logitRow(s) },
	FLOPs:  func(_ NoAttrs, in []ir.Type, _ ir.Type) int64 { return 5 * numel(in[0]) },
	Tol:    rounded[NoAttrs],
	Cases:  func() []ir.Case[NoAttrs] { return crossEntropyCases(false) },
})

// SoftmaxCrossEntropyBackwardDef defines the gradient of softmax_cross_entropy.
var SoftmaxCrossEntropyBackwardDef = ir.Define(ir.Def[NoAttrs]{
	Name: "softmax_cross_entropy_backward",
	Doc: "The gradient of softmax_cross_entropy (see there) with respect to logits [N,C], given labels [N] and the gradient " +
		"dloss [N] of its result: (softmax(x) - onehot(t)) * dloss for each row x with label t.",
	Operands: "logits, labels, dloss",
	Checked:  []ir.Checked{{Operand: 1, Safe: 0}},
	Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
		x, err := inferCrossEntropy(s.In)
		if err == nil {
			err = vectorOf("dloss", s.In[2], x.DType, x.Shape[0])
		}
		return x, err
	},
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		return eachLabel(in, func(r, label int, x, p []float64, _ float64) {
			for i, v := range p {
				if i == label {
					v = -(sum(p[:label]) + sum(p[label+1:])) // p - 1 would cancel
				}
				out.Floats[r*len(x)+i] = v * in[2].Floats[r]
			}
		})
	},
	Memory: func(s ir.Sig[NoAttrs], _ ir.Type) int64 { return logitRow(s) },
	FLOPs:  func(_ NoAttrs, in []ir.Type, _ ir.Type) int64 { return 7 * numel(in[0]) },
	Tol:    rounded[NoAttrs],
	Cases:  func() []ir.Case[NoAttrs] { return crossEntropyCases(true) },
})

func inferCrossEntropy(in []ir.Type) (ir.Type, error) {
	x, labels := in[0], in[1]
	if err := singleOrDouble("logits", x); err != nil {
		return x, err
	}
	if err := isIndex("label", labels); err != nil {
		return x, err
	}
	if x.Rank() != 2 || labels.Rank() != 1 {
		return x, fmt.Errorf("logits are %v and labels %v; want [N,C] and [N]", x, labels)
	}
	if labels.Shape[0] != x.Shape[0] {
		return x, ir.Differ(labels.Shape[0], x.Shape[0], "logits are %v and labels %v; want a label for each row", x,
			labels)
	}
	return x, nil
}

// logitRow returns the bytes of a row of float64.
func logitRow(s ir.Sig[NoAttrs]) int64 {
	_, most := s.Syms.Bounds(s.In[0].Shape[1])
	return 8 * most
}

// eachLabel calls f for each row of logits, with its softmax p and the logarithm of its sum of exponentials.
func eachLabel(in []*tensor.Array, f func(r, label int, x, p []float64, lse float64)) error {
	c := in[0].Shape[1]
	p := make([]float64, c)
	for r, label := range in[1].Ints {
		if label < 0 || label >= int64(c) {
			return fmt.Errorf("label %d of row %d is out of range 0 to %d", label, r, c-1)
		}
		x := in[0].Floats[r*c : (r+1)*c]
		m, total := math.Inf(-1), 0.0
		for _, v := range x {
			m = max(m, v)
		}
		for i, v := range x {
			p[i] = math.Exp(v - m)
			total += p[i]
		}
		for i := range p {
			p[i] /= total
		}
		f(r, int(label), x, p, m+math.Log(total))
	}
	return nil
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

func crossEntropyCases(backward bool) (cases []ir.Case[NoAttrs]) {
	for _, c := range []struct{ logits, labels ir.Type }{
		{f32(1, 1), i32(1)}, {f32(3, 5), i32(3)}, {f32(2, 7), i64(2)}, {f32(5, 33), u32(5)}, {f32(0, 4), i32(0)},
		{f32(40, 1000), i32(40)}, {f32(2, 9000), i32(2)}, {f32(300, 17), i32(300)}, {f64(3, 5), i32(3)},
	} {
		x := ir.Case[NoAttrs]{In: []ir.Type{c.logits, c.labels},
			Fill: []ir.Range{{Lo: -8, Hi: 8}, {Lo: 0, Hi: float64(c.logits.Shape[1].Const - 1)}}}
		if backward {
			x.In = append(x.In, ir.Type{DType: c.logits.DType, Shape: c.logits.Shape[:1]})
			x.Fill = append(x.Fill, ir.Range{Lo: -2, Hi: 2})
		}
		cases = append(cases, x)
	}
	return cases
}

// SoftmaxCrossEntropy adds the cross entropy of the softmax of each row of logits [N,C] and labels [N].
func SoftmaxCrossEntropy(logits, labels *ir.Node) *ir.Node {
	return logits.Graph.Add(SoftmaxCrossEntropyDef, NoAttrs{}, logits, labels)
}

// SoftmaxCrossEntropyBackward adds the gradient of the logits of SoftmaxCrossEntropy.
func SoftmaxCrossEntropyBackward(logits, labels, dloss *ir.Node) *ir.Node {
	return logits.Graph.Add(SoftmaxCrossEntropyBackwardDef, NoAttrs{}, logits, labels, dloss)
}

// atLabel returns a bool for each logit: whether it belongs to the label. Gather fails if a label is out of range.
func atLabel(g *ir.Graph, logits, labels *ir.Node) *ir.Node {
	c, one := logits.Type.Shape[1], ir.Static(1)
	classes := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{c}})
	label := Gather(classes, labels, 0)
	return Eq(classes, Reshape(label, ir.Shape{labels.Type.Shape[0], one}))
}

var _ = ir.Lower(SoftmaxCrossEntropyDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	x := LogSoftmax(in[0], 1)
	return Neg(ReduceSum(Where(atLabel(g, in[0], in[1]), x, number(0, x)), false, 1))
})

var _ = ir.Lower(SoftmaxCrossEntropyBackwardDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	p, at := Softmax(in[0], 1), atLabel(g, in[0], in[1])
	others := ReduceSum(Where(at, number(0, p), p), true, 1) // 1 - p would cancel
	return Mul(Where(at, Neg(others), p), Reshape(in[2], ir.Shape{in[0].Type.Shape[0], ir.Static(1)}))
})

var _ = ir.Gradient(SoftmaxCrossEntropyDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	return []*ir.Node{SoftmaxCrossEntropyBackward(n.In[0], n.In[1], dy[0])}, nil
})
