package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has the support vector machines of ai.onnx.ml, as skl2onnx writes them for SVC, NuSVC, SVR, NuSVR and
// OneClassSVM. A kernel compares each row with the support vectors. Where ONNX leaves a detail open, it is as in ONNX
// Runtime.

// The ranks of inputs.
var _ = ranks("1-2", "ai.onnx.ml.SVMRegressor", "ai.onnx.ml.SVMClassifier")

var (
	_ = registerIn(ml, "SVMRegressor", conversion{since: 1, convert: svmRegressor})
	_ = registerIn(ml, "SVMClassifier", conversion{since: 1, convert: svmClassifier,
		note: "up to 256 classes; labels that are text are refused"})
)

// maxSVMClasses bounds the pairs of classes.
const maxSVMClasses = 1 << 8

// svmRows returns input 0 as a matrix of f32.
func (n *node) svmRows() *ir.Node { return cast(n.rowsOfFeatures(), dtype.F32) }

// vectors returns an attribute of floats as a matrix with a row of the features of x for each of count vectors.
func (n *node) vectors(name string, count int, x *ir.Node) *ir.Node {
	return n.numbers(name, count, n.features(x))
}

// svmKernel compares the rows of x with vectors: [rows, vectors].
func (n *node) svmKernel(x, vectors *ir.Node) *ir.Node {
	kind := n.str("kernel_type", "LINEAR")
	var params [3]float64 // gamma, coef0, degree
	if list := n.attr("kernel_params").GetFloats(); len(list) == 3 {
		for i, v := range list {
			params[i] = float64(v)
		}
	} else if len(list) > 0 || kind != "LINEAR" {
		n.fail("kernel_params has %d numbers; want gamma, coef0 and degree", len(list))
	}
	if kind == "RBF" {
		s, w := x.Type.Shape, vectors.Type.Shape
		d := op.Sub(op.Reshape(x, ir.Shape{s[0], ir.Static(1), s[1]}), vectors)
		d = op.Reshape(op.ReduceSum(op.Square(d), false, 2), ir.Shape{s[0], w[0]})
		return op.Exp(op.Mul(d, number(-params[0], d)))
	}
	y := op.MatMul(x, vectors, op.MatMulAttrs{TransB: true})
	if kind == "LINEAR" {
		return y
	}
	y = op.Add(op.Mul(y, number(params[0], y)), number(params[1], y))
	switch {
	case kind == "SIGMOID":
		return op.Tanh(y)
	case kind != "POLY":
		n.fail("kernel_type is %s; allowed are LINEAR, POLY, RBF and SIGMOID", kind)
	case params[2] == 2:
		return op.Square(y)
	case params[2] == 3:
		return op.Mul(op.Square(y), y)
	}
	return op.Pow(y, number(params[2], y))
}

func svmRegressor(n *node) []*value {
	x, count := n.svmRows(), n.int("n_supports", 0)
	var y *ir.Node
	if count > 0 {
		k := n.svmKernel(x, n.vectors("support_vectors", count, x))
		y = op.MatMul(k, n.numbers("coefficients", 1, count), op.MatMulAttrs{TransB: true})
	} else { // a linear model
		y = op.MatMul(x, n.vectors("coefficients", 1, x), op.MatMulAttrs{TransB: true})
	}
	y = op.Add(y, n.numbers("rho", 1))
	if n.int("one_class", 0) != 0 {
		y = op.Where(op.Gt(y, number(0, y)), number(1, y), number(-1, y))
	}
	return one(y)
}

// svmClassifier returns the label and the scores of each row. With support vectors, each pair of classes has a score
// and a vote. The label is that with the most votes, and the scores are those of the pairs, or probabilities of the
// classes if the node has prob_a and prob_b. Without support vectors it is a linear model.
func svmClassifier(n *node) []*value {
	labels := n.intLabels("classlabels_ints")
	classes := len(labels)
	if classes < 2 || classes > maxSVMClasses {
		n.fail("has %d classes; allowed are 2 to %d", classes, maxSVMClasses)
	}
	x, how := n.svmRows(), n.str("post_transform", "NONE")
	per := n.attr("vectors_per_class").GetInts()
	total := int64(0)
	for _, v := range per {
		if v < 0 || v > maxTreeNodes {
			n.fail("vectors_per_class has the number %d; allowed are 0 to %d", v, maxTreeNodes)
		}
		total += v
	}
	if total == 0 {
		y := op.MatMul(x, n.vectors("coefficients", classes, x), op.MatMulAttrs{TransB: true})
		if rho := n.attr("rho").GetFloats(); len(rho) > 0 {
			y = op.Add(y, number(float64(rho[0]), y))
		}
		return many(n.labelled(labels, n.svmLinearBest(y, classes)), n.transformed(y, how))
	}
	if len(per) != classes || total > maxTreeNodes {
		n.fail("vectors_per_class has %d numbers, in all %d; want %d, in all up to %d", len(per), total, classes,
			maxTreeNodes)
	}
	s := n.svmPairs(x, per, int(total))
	best := cast(op.ArgMax(svmVotes(n, s, classes), 1, false), dtype.I32)
	scores := s
	switch {
	case len(n.attr("prob_a").GetFloats()) > 0:
		scores = n.transformed(n.svmProbabilities(s, classes), how)
	case classes > 2:
		scores = n.transformed(s, how)
	case how == "NONE":
		scores = op.Concat(1, op.Neg(s), s)
	case how == "LOGISTIC":
		scores = op.Sigmoid(op.Concat(1, op.Neg(s), s))
	case how == "SOFTMAX" || how == "SOFTMAX_ZERO":
		scores = op.Concat(1, op.Sub(number(1, s), s), s)
	default:
		n.transformed(s, how) // refuses it
	}
	return many(n.labelled(labels, best), scores)
}

// svmLinearBest returns the number of the class of each row of scores. The second of two is chosen where the largest
// score is positive, or 1/2 if no coefficient is negative.
func (n *node) svmLinearBest(y *ir.Node, classes int) *ir.Node {
	best := cast(op.ArgMax(y, 1, false), dtype.I32)
	if classes > 2 {
		return best
	}
	largest := op.ReduceMax(y, false, 1)
	limit := op.Ge(largest, number(0.5, largest))
	for _, c := range n.attr("coefficients").GetFloats() {
		if c < 0 {
			limit = op.Gt(largest, number(0, largest))
			break
		}
	}
	return op.Where(limit, number(1, best), best)
}

// svmPairs returns the scores of the pairs of classes, [rows, pairs], in the order 01, 02, ..., 12, ... Each is a sum
// over the vectors of both classes.
func (n *node) svmPairs(x *ir.Node, per []int64, total int) *ir.Node {
	classes := len(per)
	start := make([]int, classes+1)
	for i, v := range per {
		start[i+1] = start[i] + int(v)
	}
	given := n.attr("coefficients").GetFloats()
	if len(given) != (classes-1)*total {
		n.fail("coefficients has %d numbers; want %d", len(given), (classes-1)*total)
	}
	pairs := classes * (classes - 1) / 2
	if pairs*total > 8*maxTreeNodes {
		n.fail("has %d vectors and %d classes, which is too many", total, classes)
	}
	weights := arrayOf(dtype.F32, nil, pairs, total)
	row := 0
	for i := range classes {
		for j := i + 1; j < classes; j++ {
			for v := start[i]; v < start[i+1]; v++ {
				weights.Floats[row*total+v] = float64(given[(j-1)*total+v])
			}
			for v := start[j]; v < start[j+1]; v++ {
				weights.Floats[row*total+v] = float64(given[i*total+v])
			}
			row++
		}
	}
	k := n.svmKernel(x, n.vectors("support_vectors", total, x))
	y := op.MatMul(k, n.b.at(made(weights)), op.MatMulAttrs{TransB: true})
	return op.Add(y, n.numbers("rho", pairs))
}

// svmVotes counts the pairs that each class wins, [rows, classes].
func svmVotes(n *node, s *ir.Node, classes int) *ir.Node {
	pairs := classes * (classes - 1) / 2
	change, least := arrayOf(dtype.F32, nil, classes, pairs), arrayOf(dtype.F32, nil, classes)
	pair := 0
	for i := range classes {
		for j := i + 1; j < classes; j++ {
			change.Floats[i*pairs+pair], change.Floats[j*pairs+pair] = 1, -1
			least.Floats[j]++
			pair++
		}
	}
	first := cast(op.Gt(s, number(0, s)), dtype.F32)
	return op.Add(op.MatMul(first, n.b.at(made(change)), op.MatMulAttrs{TransB: true}), n.b.at(made(least)))
}

// svmProbabilities returns the probabilities of classes, for scores of their pairs. prob_a and prob_b make each score
// the probability r[i,j] of i, if the class is i or j. Those of all classes are found by the method of Wu, Lin and
// Weng (2004), which improves one after the other until an error is small:
//
//	Q[i,i] = sum over j of r[j,i]^2    Q[i,j] = -r[j,i] r[i,j]    minimise p'Qp with sum(p) = 1
func (n *node) svmProbabilities(s *ir.Node, classes int) *ir.Node {
	pairs := classes * (classes - 1) / 2
	r := op.Add(op.Mul(s, n.numbers("prob_a", pairs)), n.numbers("prob_b", pairs))
	r = op.Clamp(op.Sigmoid(op.Neg(r)), 1e-7, 1-1e-7)
	other := op.Sub(number(1, r), r)
	rows := s.Type.Shape[0]
	// column i of q has Q[i,j] for all j, [rows, classes, classes].
	column := func(of *ir.Node, i, j int) *ir.Node { // of[i,j] where i < j
		return op.Narrow(of, 1, i*classes-i*(i+1)/2+j-i-1, 1)
	}
	parts := make([]*ir.Node, classes*classes)
	for i := range classes {
		var sum *ir.Node
		for j := range classes {
			if i == j {
				continue
			}
			a, b := column(r, min(i, j), max(i, j)), column(other, min(i, j), max(i, j))
			parts[i*classes+j] = op.Neg(op.Mul(a, b))
			if i < j {
				a = b // r[j,i]
			}
			if sq := op.Square(a); sum == nil {
				sum = sq
			} else {
				sum = op.Add(sum, sq)
			}
		}
		parts[i*classes+i] = sum
	}
	q := op.Reshape(op.Concat(1, parts...), ir.Shape{rows, ir.Static(int64(classes)), ir.Static(int64(classes))})
	all := ir.Type{DType: dtype.F32, Shape: ir.Shape{rows, ir.Static(int64(classes))}}
	p := op.Const(n.b.g, 1/float64(classes), all)
	return n.improved(p, q)
}

// improved repeats svmStep up to 100 times, until no row changes.
func (n *node) improved(p, q *ir.Node) *ir.Node {
	changes := op.Const(n.b.g, 1, ir.Type{DType: dtype.Bool, Shape: p.Type.Shape[:1]})
	in := []*ir.Node{p, changes, q}
	cond := n.graphOf("svm_changes", in, func(in []*ir.Node, g *ir.Graph) { g.Return("y", op.Any(in[1], false, 0)) })
	body := n.graphOf("svm_step", in, func(in []*ir.Node, g *ir.Graph) {
		next, changes := svmStep(in[0], in[2])
		changes = op.And(changes, in[1])
		g.Return("p", op.Where(op.Reshape(changes, ir.Shape{p.Type.Shape[0], ir.Static(1)}), next, in[0]))
		g.Return("changes", changes)
		g.Return("q", in[2])
	})
	return hir.While(hir.WhileAttrs{Cond: cond, Body: body, MaxIterations: 100}, in...)
}

// svmStep improves each probability, and says which rows were not yet good enough.
func svmStep(p, q *ir.Node) (next, changes *ir.Node) {
	classes := int(p.Type.Shape[1].Const)
	rows := p.Type.Shape[0]
	column := ir.Shape{rows, ir.Static(1)}
	qp := op.ReduceSum(op.Mul(q, op.Reshape(p, ir.Shape{rows, ir.Static(1), p.Type.Shape[1]})), false, 2)
	pqp := op.ReduceSum(op.Mul(p, qp), true, 1)
	worst := op.ReduceMax(op.Abs(op.Sub(qp, pqp)), false, 1)
	changes = op.Ge(worst, number(0.005/float64(classes), worst))
	for t := range classes {
		line := op.Reshape(op.Narrow(q, 1, t, 1), ir.Shape{rows, p.Type.Shape[1]})
		own, at := op.Reshape(op.Narrow(line, 1, t, 1), column), op.Narrow(qp, 1, t, 1)
		diff := op.Div(op.Sub(pqp, at), own)
		grown := op.Add(diff, number(1, diff))
		change := op.Mul(diff, op.Add(op.Mul(diff, own), op.Mul(number(2, at), at)))
		pqp = op.Div(op.Div(op.Add(pqp, change), grown), grown)
		qp = op.Div(op.Add(qp, op.Mul(diff, line)), grown)
		lane := op.Iota(p.Graph, 0, ir.Type{DType: dtype.I32, Shape: ir.ShapeOf(int64(classes))})
		p = op.Div(op.Where(op.Eq(lane, number(float64(t), lane)), op.Add(p, diff), p), grown)
	}
	return p, changes
}
