package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// This file has the ops of ai.onnx.ml that encode categories, where these are numbers.

// The ranks of inputs.
var (
	_ = ranks("*", "ai.onnx.ml.LabelEncoder", "ai.onnx.ml.OneHotEncoder")
	_ = ranks("1-2", "ai.onnx.ml.FeatureVectorizer")
)

var (
	_ = registerIn(ml, "LabelEncoder", conversion{since: 2, convert: labelEncoder,
		note: "keys or values that are text are refused"})
	_ = registerIn(ml, "OneHotEncoder", conversion{since: 1, convert: oneHotEncoder,
		note: "categories that are text are refused"})
	_ = registerIn(ml, "FeatureVectorizer", conversion{since: 1, convert: featureVectorizer})
)

// maxKeys bounds the keys and categories, each of which is compared with each element.
const maxKeys = 1 << 14

// intLabels returns the labels of a classifier.
func (n *node) intLabels(name string) []int64 {
	labels := n.attr(name).GetInts()
	if len(labels) == 0 {
		n.fail("has no labels that are integers (%s); labels that are text are not supported; "+
			"train with the numbers of the classes", name)
	}
	return labels
}

// labelled returns the labels of classes that are given by number.
func (n *node) labelled(labels []int64, best *ir.Node) *ir.Node {
	known := tensor.NewArray(dtype.I64, len(labels))
	copy(known.Ints, labels)
	return op.Gather(n.b.at(made(known)), best, 0)
}

// mapping returns a list of numbers that is one of the attributes name_int64s, name_floats and name_tensor.
func (n *node) mapping(name string) *tensor.Array {
	for _, a := range n.p.GetAttribute() {
		switch a.GetName() {
		case name + "_int64s":
			out := tensor.NewArray(dtype.I64, len(a.GetInts()))
			copy(out.Ints, a.GetInts())
			return out
		case name + "_floats":
			out := tensor.NewArray(dtype.F32, len(a.GetFloats()))
			for i, v := range a.GetFloats() {
				out.Floats[i] = float64(v)
			}
			return out
		case name + "_tensor":
			out := n.tensorAttr(name + "_tensor")
			return &tensor.Array{DType: out.DType, Shape: []int{out.Len()}, Ints: out.Ints, Floats: out.Floats}
		case name + "_strings":
			n.fail("%s is text, which is not supported", a.GetName())
		}
	}
	n.fail("has no %s that are numbers", name)
	return nil
}

// otherwise returns the value of LabelEncoder for elements that are no key.
func (n *node) otherwise(d dtype.DType) float64 {
	if n.attr("default_tensor") != nil {
		if a := n.tensorAttr("default_tensor"); a.Len() == 1 {
			return a.At(0)
		}
		n.fail("default_tensor has several elements; want 1")
	}
	if d.IsFloat() {
		return n.float("default_float", 0)
	}
	if a := n.attr("default_int64"); a != nil {
		return float64(a.GetI())
	}
	return -1
}

// labelEncoder is LabelEncoder: it replaces keys by values. NaN is a key like others from version 4 on, as in ONNX
// Runtime.
func labelEncoder(n *node) []*value {
	keys, values := n.mapping("keys"), n.mapping("values")
	if keys.Len() != values.Len() || keys.Len() == 0 || keys.Len() > maxKeys {
		n.fail("has %d keys and %d values; want as many, 1 to %d", keys.Len(), values.Len(), maxKeys)
	}
	x := n.x(0)
	if keys.DType != x.Type.DType {
		n.fail("input is of %v and the keys of %v; want the same type", x.Type.DType, keys.DType)
	}
	at, found := n.keyOf(x, keys)
	y := op.Gather(n.b.at(made(values)), at, 0)
	return one(op.Where(found, y, number(n.otherwise(values.DType), y)))
}

// keyOf returns the number of the key that each element is equal to, the first one, and whether there is one.
func (n *node) keyOf(x *ir.Node, keys *tensor.Array) (at, found *ir.Node) {
	k := n.b.at(made(keys))
	rank := x.Type.Rank()
	each := op.Reshape(x, append(append(ir.Shape{}, x.Type.Shape...), ir.Static(1)))
	same := op.Eq(each, k)
	if n.version >= 4 && hasNaN(keys) {
		same = op.Or(same, op.And(op.Ne(each, each), op.Ne(k, k)))
	}
	return cast(op.ArgMax(cast(same, dtype.I32), rank, false), dtype.I32), op.Any(same, false, rank)
}

func hasNaN(a *tensor.Array) bool {
	for _, v := range a.Floats {
		if math.IsNaN(v) {
			return true
		}
	}
	return false
}

// oneHotEncoder is OneHotEncoder. Without zeros, a run fails for an element that is no category.
func oneHotEncoder(n *node) []*value {
	cats := n.attr("cats_int64s").GetInts()
	if len(cats) == 0 || len(cats) > maxKeys {
		n.fail("has %d categories that are integers (cats_int64s); allowed are 1 to %d; text is not supported", len(cats),
			maxKeys)
	}
	x := cast(n.x(0), dtype.I64)
	keys := tensor.NewArray(dtype.I64, len(cats))
	copy(keys.Ints, cats)
	at, found := n.keyOf(x, keys)
	if n.int("zeros", 1) == 0 { // no gather takes -1
		at = op.Where(found, at, number(-1, at))
		row := op.Iota(n.b.g, 0, ir.TypeOf(dtype.I32, int64(len(cats))))
		at = op.Gather(row, at, 0)
	}
	each := op.Reshape(at, append(append(ir.Shape{}, at.Type.Shape...), ir.Static(1)))
	y := op.Eq(each, op.Iota(n.b.g, 0, ir.TypeOf(dtype.I32, int64(len(cats)))))
	there := op.Reshape(found, each.Type.Shape)
	return one(cast(op.And(y, there), dtype.F32))
}

// featureVectorizer is FeatureVectorizer: the columns of all inputs, each cut or filled with zeros to its number.
func featureVectorizer(n *node) []*value {
	sizes, ok := n.list("inputdimensions")
	if ok && len(sizes) != len(n.in) {
		n.fail("inputdimensions has %d numbers; want one for each of %d inputs", len(sizes), len(n.in))
	}
	var parts []*ir.Node
	for i := range n.in {
		x := cast(n.x(i), dtype.F32)
		if x.Type.Rank() == 1 {
			x = op.Reshape(x, ir.Shape{ir.Static(1), x.Type.Shape[0]})
		}
		if ok {
			switch have := n.features(x); {
			case sizes[i] < 0 || sizes[i] > maxTreeNodes:
				n.fail("inputdimensions has the number %d; allowed are 0 to %d", sizes[i], maxTreeNodes)
			case sizes[i] < have:
				x = op.Narrow(x, 1, 0, sizes[i])
			case sizes[i] > have:
				x = op.Pad(x, []int{0, 0}, []int{0, sizes[i] - have}, 0)
			}
		}
		parts = append(parts, x)
	}
	return one(op.Concat(1, parts...))
}
