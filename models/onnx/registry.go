package onnx

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// conversion converts one op from an opset version on.
type conversion struct {
	since int64
	note  string // the limits, for the documentation
	// convert returns the results of a node, in order.
	convert func(n *node) []*value
	// symbolic returns the results if they follow from sizes, else nil. It may be nil.
	symbolic func(n *node) []*value
	keep     bool // convert is called also if all inputs are known
}

var conversions = map[string][]conversion{}

// register adds the conversion of an op of the default domain. note describes its limits.
func register(name string, c conversion) struct{} { return registerIn("", name, c) }

func registerIn(domain, name string, c conversion) struct{} {
	key := functionKey(domain, name)
	conversions[key] = append(conversions[key], c)
	slices.SortFunc(conversions[key], func(a, b conversion) int { return int(a.since - b.since) })
	return struct{}{}
}

// on registers a conversion that needs no other fields.
func on(name string, since int64, convert func(n *node) []*value) struct{} {
	return register(name, conversion{since: since, convert: convert})
}

// find returns the conversion of an op in a version of its domain.
func find(domain, name string, version int64) *conversion {
	list := conversions[functionKey(domain, name)]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].since <= version {
			return &list[i]
		}
	}
	return nil
}

func versions(domain, name string) (since []int64) {
	for _, c := range conversions[functionKey(domain, name)] {
		since = append(since, c.since)
	}
	return since
}

// attr returns an attribute, or nil.
func (n *node) attr(name string) *onnxpb.AttributeProto {
	for _, a := range n.p.GetAttribute() {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

func (n *node) int(name string, otherwise int64) int {
	if a := n.attr(name); a != nil {
		return int(a.GetI())
	}
	return int(otherwise)
}

func (n *node) float(name string, otherwise float64) float64 {
	if a := n.attr(name); a != nil {
		return float64(a.GetF())
	}
	return otherwise
}

func (n *node) str(name, otherwise string) string {
	if a := n.attr(name); a != nil {
		return string(a.GetS())
	}
	return otherwise
}

// list returns an attribute of integers. ok is false if the node has none.
func (n *node) list(name string) (out []int, ok bool) {
	a := n.attr(name)
	if a == nil {
		return nil, false
	}
	out = []int{}
	for _, v := range a.GetInts() {
		out = append(out, int(v))
	}
	return out, true
}

// spatial returns an attribute with a number for each of k axes. The default is the same for all.
func (n *node) spatial(name string, k, otherwise int) []int {
	if l, ok := n.list(name); ok && len(l) > 0 {
		if len(l) != k {
			n.fail("%s has %d numbers; want %d", name, len(l), k)
		}
		return l
	}
	out := make([]int, k)
	for i := range out {
		out[i] = otherwise
	}
	return out
}

// axis returns an axis counted from the beginning, for one that may count from the end.
func (n *node) axis(a, rank int) int {
	if a < -rank || a >= rank {
		n.fail("axis is %d; the tensor has rank %d", a, rank)
	}
	if a < 0 {
		a += rank
	}
	return a
}

// axes is like axis for several.
func (n *node) axes(list []int, rank int) []int {
	out := make([]int, len(list))
	for i, a := range list {
		out[i] = n.axis(a, rank)
	}
	return out
}

// tensorAttr returns an attribute that is a tensor.
func (n *node) tensorAttr(name string) *tensor.Array {
	a := n.attr(name)
	if a == nil || a.GetT() == nil {
		n.fail("attribute %s is missing", name)
	}
	x, err := n.b.file.newInitializer(a.GetT())
	if err == nil {
		var t tensor.Tensor
		if t, err = x.read(); err == nil {
			return t.Array()
		}
	}
	n.b.g.Fail(err)
	return nil
}

// dtype returns the element type that an attribute names.
func (n *node) dtype(t int) dtype.DType {
	d, ok := elementTypes[int32(t)]
	if !ok {
		n.fail("element type %s is not supported", typeName(int32(t)))
	}
	return d
}

// shape returns dims as a shape.
func (n *node) shape(dims []ir.Dim) ir.Shape { return append(ir.Shape{}, dims...) }

// refused has ops that are known and not supported, and why.
var refused = map[string]string{}

func refuse(why string, names ...string) struct{} {
	for _, name := range names {
		refused[name] = why
	}
	return struct{}{}
}

var _ = refuse("it works on sequences", "SequenceMap")
var _ = refuse("it works on optional values", "Optional", "OptionalGetElement", "OptionalHasElement")
var _ = refuse("it works on text", "StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch",
	"TfIdfVectorizer")
