package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops of ai.onnx.ml, as skl2onnx writes them for linear models and scalers. They compute in f32. Trees
// are in trees.go.

const ml = "ai.onnx.ml"

// The ranks of inputs.
var (
	_ = ranks("1+", "ai.onnx.ml.ArrayFeatureExtractor")
	_ = ranks("1-2", "ai.onnx.ml.LinearRegressor", "ai.onnx.ml.LinearClassifier", "ai.onnx.ml.Normalizer")
	_ = ranks("1+", "ai.onnx.ml.Scaler", "ai.onnx.ml.Imputer")
)

var (
	_ = registerIn(ml, "ArrayFeatureExtractor", conversion{since: 1, convert: func(n *node) []*value {
		x, idx := n.x(0), n.flat(n.x(1))
		if x.Type.Rank() == 1 {
			x = op.Reshape(x, ir.Shape{ir.Static(1), x.Type.Shape[0]})
		}
		return one(op.Gather(x, idx, x.Type.Rank()-1))
	}})
	_ = registerIn(ml, "Binarizer", conversion{since: 1, convert: func(n *node) []*value {
		x := n.x(0)
		return one(cast(op.Gt(x, number(n.float("threshold", 0), x)), x.Type.DType))
	}})
	_ = registerIn(ml, "LinearRegressor", conversion{since: 1, convert: func(n *node) []*value {
		return one(n.transformed(n.linear(n.int("targets", 1)), n.str("post_transform", "NONE")))
	}})
	_ = registerIn(ml, "LinearClassifier", conversion{since: 1, convert: linearClassifier,
		note: "labels that are text are refused"})
	_ = registerIn(ml, "Scaler", conversion{since: 1, convert: func(n *node) []*value {
		x := cast(n.x(0), dtype.F32)
		x = op.Sub(x, n.perFeature("offset", x))
		return one(op.Mul(x, n.perFeature("scale", x)))
	}})
	_ = registerIn(ml, "Normalizer", conversion{since: 1, convert: normalizer})
	_ = registerIn(ml, "Imputer", conversion{since: 1, convert: imputer})
	_ = registerIn(ml, "ZipMap", conversion{since: 1, convert: func(n *node) []*value { return one(op.Copy(n.x(0))) },
		note: "the result is its input, a column for each class, and no list of maps"})
)

var _ = refuse("it works on text or maps", "ai.onnx.ml.CastMap", "ai.onnx.ml.CategoryMapper", "ai.onnx.ml.DictVectorizer")

// numberList returns an attribute of numbers.
func (n *node) numberList(name string) []float64 {
	var out []float64
	for _, v := range n.attr(name).GetFloats() {
		out = append(out, float64(v))
	}
	for _, v := range n.attr(name).GetInts() {
		out = append(out, float64(v))
	}
	return out
}

// numbers returns an attribute of numbers as a constant of that shape.
func (n *node) numbers(name string, shape ...int) *ir.Node {
	list := n.numberList(name)
	rest := len(list)
	for _, d := range shape {
		if d < 1 || rest%d != 0 {
			n.fail("%s has %d numbers; want %d", name, len(list), shape)
		}
		rest /= d
	}
	if rest != 1 {
		n.fail("%s has %d numbers; want %d", name, len(list), shape)
	}
	a := arrayOf(dtype.F32, nil, shape...)
	copy(a.Floats, list)
	return n.b.at(made(a))
}

// perFeature returns an attribute with a number for each element of the last axis of x, or one for all.
func (n *node) perFeature(name string, x *ir.Node) *ir.Node {
	if list := n.numberList(name); len(list) == 1 {
		return number(list[0], x)
	}
	return n.numbers(name, n.features(x))
}

// features returns the size of the last axis.
func (n *node) features(x *ir.Node) int {
	last := x.Type.Shape[x.Type.Rank()-1]
	if !last.IsStatic() {
		n.fail("input is %v; want a number of features that is known", x.Type)
	}
	return int(last.Const)
}

// linear returns x*coefficients + intercepts, [rows, outputs].
func (n *node) linear(outputs int) *ir.Node {
	x := cast(n.x(0), dtype.F32)
	if x.Type.Rank() == 1 {
		x = op.Reshape(x, ir.Shape{ir.Static(1), x.Type.Shape[0]})
	}
	y := op.MatMul(x, n.numbers("coefficients", outputs, n.features(x)), op.MatMulAttrs{TransB: true})
	if len(n.attr("intercepts").GetFloats()) > 0 {
		y = op.Add(y, n.numbers("intercepts", outputs))
	}
	return y
}

// transformed applies a post_transform to scores [rows, classes].
func (n *node) transformed(y *ir.Node, how string) *ir.Node {
	switch how {
	case "NONE":
		return y
	case "LOGISTIC":
		return op.Sigmoid(y)
	case "SOFTMAX":
		return op.Softmax(y, 1)
	case "SOFTMAX_ZERO": // a score that is almost 0 is not a power
		most := op.ReduceMax(y, true, 1)
		zero := op.Le(op.Abs(y), number(1e-7, y))
		e := op.Where(zero, op.Mul(y, op.Exp(op.Neg(most))), op.Exp(op.Sub(y, most)))
		return op.Div(e, op.ReduceSum(e, true, 1))
	}
	n.fail("post_transform is %s; allowed are NONE, LOGISTIC, SOFTMAX and SOFTMAX_ZERO", how)
	return nil
}

// linearClassifier returns the label and the scores of each row. A model of one score s has two classes. The second is
// chosen where s is positive, and the first has the score 1-s, as in ONNX Runtime.
func linearClassifier(n *node) []*value {
	labels := n.intLabels("classlabels_ints")
	how := n.str("post_transform", "NONE")
	outputs := max(len(n.attr("intercepts").GetFloats()), 1)
	y := n.linear(outputs)
	scores := y
	switch {
	case outputs == len(labels):
	case outputs != 1 || len(labels) != 2:
		n.fail("has %d labels and %d scores; want the same number, or 2 labels and 1 score", len(labels), outputs)
	case how == "NONE":
		scores = op.Concat(1, op.Sub(number(1, y), y), y)
	case how != "LOGISTIC":
		n.fail("post_transform is %s with one score; allowed are NONE and LOGISTIC", how)
	}
	if outputs == 1 && len(labels) == 2 {
		y = op.Concat(1, op.Neg(y), y)
		if how == "LOGISTIC" {
			scores = y
		}
	}
	best := cast(op.ArgMax(y, 1, false), dtype.I32)
	return many(n.labelled(labels, best), n.transformed(scores, how))
}

// normalizer divides each row by its largest element, or by its norm. A row of zeros stays.
func normalizer(n *node) []*value {
	x := cast(n.x(0), dtype.F32)
	last := x.Type.Rank() - 1
	var by *ir.Node
	switch norm := n.str("norm", "MAX"); norm {
	case "MAX":
		by = op.ReduceMax(x, true, last)
	case "L1":
		by = op.ReduceSum(op.Abs(x), true, last)
	case "L2":
		by = op.Sqrt(op.ReduceSum(op.Square(x), true, last))
	default:
		n.fail("norm is %s; allowed are MAX, L1 and L2", norm)
	}
	return one(op.Div(x, op.Where(op.Eq(by, number(0, by)), number(1, by), by)))
}

// imputer replaces one value, or what is not a number, by numbers of the features.
func imputer(n *node) []*value {
	x := n.x(0)
	if x.Type.DType == dtype.I64 {
		missing := op.Eq(x, number(float64(n.int("replaced_value_int64", 0)), x))
		return one(op.Where(missing, cast(n.perFeature("imputed_value_int64s", x), dtype.I64), x))
	}
	if x.Type.DType != dtype.F32 {
		n.fail("input is of %v; allowed are f32 and i64", x.Type.DType)
	}
	replaced := n.float("replaced_value_float", 0)
	missing := op.Eq(x, number(replaced, x))
	if math.IsNaN(replaced) {
		missing = op.Ne(x, x)
	}
	return one(op.Where(missing, n.perFeature("imputed_value_floats", x), x))
}
