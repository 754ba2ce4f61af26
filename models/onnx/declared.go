package onnx

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// A model may have a shape or axes as an input of the method, so that they are not known before it runs. Often the
// declared types of the results leave only one value that such an input can have, or a few. The import then converts
// the node for each of them, and the program chooses.

// maxCandidates bounds the values that are tried for an input.
const maxCandidates = 16

// declare stores the types that a graph declares for its values.
func (b *builder) declare(g *onnxpb.GraphProto) {
	b.declared = map[string]*onnxpb.TypeProto_Tensor{}
	b.readers = map[string][]*onnxpb.NodeProto{}
	for _, list := range [][]*onnxpb.ValueInfoProto{g.GetValueInfo(), g.GetOutput()} {
		for _, v := range list {
			if t := v.GetType().GetTensorType(); t != nil && t.GetShape() != nil {
				b.declared[v.GetName()] = t
			}
		}
	}
	for _, p := range g.GetNode() {
		for _, name := range p.GetInput() {
			b.readers[name] = append(b.readers[name], p)
		}
	}
}

// sameShape has ops whose result has the shape of their first input.
var sameShape = []string{"Abs", "Cast", "CastLike", "Exp", "Identity", "Log", "Neg", "Reciprocal", "Relu", "Sqrt"}

// declaredShape returns the declared shape of result i, or of a result with the same shape. ok is false if no type is
// declared, or if its sizes are not known.
func (n *node) declaredShape(i int) (shape ir.Shape, ok bool) {
	if i >= len(n.p.GetOutput()) || n.b.scope.outer != nil {
		return nil, false
	}
	name := n.p.GetOutput()[i]
	for range maxNesting {
		if t := n.b.declared[name]; t != nil {
			return n.b.declaredDims(t)
		}
		list := n.b.readers[name]
		k := slices.IndexFunc(list, func(p *onnxpb.NodeProto) bool {
			return slices.Contains(sameShape, p.GetOpType()) && p.GetInput()[0] == name && len(p.GetOutput()) == 1
		})
		if k < 0 {
			return nil, false
		}
		name = list[k].GetOutput()[0]
	}
	return nil, false
}

func (b *builder) declaredDims(t *onnxpb.TypeProto_Tensor) (shape ir.Shape, ok bool) {
	shape = ir.Shape{}
	for _, d := range t.GetShape().GetDim() {
		switch x := d.GetValue().(type) {
		case *onnxpb.TensorShapeProto_Dimension_DimValue:
			if x.DimValue < 0 || x.DimValue > ir.MaxDim {
				return nil, false
			}
			shape = append(shape, ir.Static(x.DimValue))
		default:
			name := d.GetDimParam()
			if name == "" || !slices.ContainsFunc(b.model.Sizes, func(s Size) bool { return s.Name == name }) {
				return nil, false
			}
			shape = append(shape, b.size(name))
		}
	}
	return shape, true
}

// candidates has, for ops with an input that decides shapes, the values that it can have if the declared types of the
// results are right.
type candidates struct {
	input int
	// axes says that the elements are axes in any order. Negative ones count from the end.
	axes bool
	// of returns the values, or nil if the types do not decide.
	of func(n *node) [][]ir.Dim
}

var deciding = map[string][]candidates{}

// decide registers candidates for ops.
func decide(c candidates, names ...string) struct{} {
	for _, name := range names {
		deciding[name] = append(deciding[name], c)
	}
	return struct{}{}
}

// isKnown reports whether the elements of input i are known up to sizes. An input that is missing is.
func (n *node) isKnown(i int) bool {
	if !n.has(i) {
		return true
	}
	if n.in[i].isKnown() {
		return true
	}
	_, ok := n.in[i].list()
	return ok
}

// decided converts a node with an input that decides shapes and is not known, for each value that it can have. It
// returns nil if there is no such input, or if the declared types do not decide.
func (n *node) decided(c *conversion) []*value {
	if canonical(n.p.GetDomain()) != "" {
		return nil
	}
	for _, d := range deciding[n.p.GetOpType()] {
		if n.isKnown(d.input) {
			continue
		}
		list := d.of(n)
		given := n.in[d.input]
		for _, elems := range list {
			if given.typ.Rank() == 0 && len(elems) != 1 || given.typ.Rank() > 1 {
				return nil
			}
		}
		if len(list) == 0 || len(list) > maxCandidates {
			return nil
		}
		var out []*value
		for k, elems := range list {
			n.in[d.input] = n.givenElems(given, elems)
			results := n.decided(c) // another input may be unknown, too
			if results == nil {
				results = n.converted(c)
			}
			n.in[d.input] = given
			if k == 0 {
				out = results
				continue
			}
			equal := n.isGiven(given, d, elems)
			for i := range out {
				out[i] = one(op.Where(equal, n.b.at(results[i]), n.b.at(out[i])))[0]
			}
		}
		return out
	}
	return nil
}

// givenElems returns a value like v with known elements.
func (n *node) givenElems(v *value, dims []ir.Dim) *value {
	elems := make([]elem, len(dims))
	for i, d := range dims {
		elems[i] = integer(d)
	}
	shape := v.typ.Shape
	if len(shape) > 0 {
		shape = ir.ShapeOf(int64(len(dims)))
	}
	d := v.typ.DType
	if d.IsFloat() {
		d = dtype.I64
	}
	return sizes(d, shape, elems)
}

// isGiven returns whether a value is that candidate when the program runs.
func (n *node) isGiven(v *value, d candidates, elems []ir.Dim) *ir.Node {
	x := cast(n.b.at(v), dtype.I64)
	want := n.b.at(n.givenElems(&value{typ: ir.Type{DType: dtype.I64, Shape: v.typ.Shape}}, elems))
	if d.axes { // a bit for each axis
		rank := float64(n.typeOf(0).Rank())
		bits := func(a *ir.Node) *ir.Node {
			a = op.ShiftLeft(number(1, a), op.Where(op.Lt(a, number(0, a)), op.Add(a, number(rank, a)), a))
			if a.Type.Rank() == 0 {
				return a
			}
			return op.ReduceSum(a, false, 0)
		}
		return op.Eq(bits(x), bits(want))
	}
	same := op.Eq(x, want)
	if same.Type.Rank() == 0 {
		return same
	}
	return op.All(same, false, 0)
}

// whole returns a declared shape as the only value.
func whole(n *node) [][]ir.Dim {
	shape, ok := n.declaredShape(0)
	if !ok {
		return nil
	}
	return [][]ir.Dim{shape}
}

// declaredAlong returns the declared sizes of result 0 on the axes of an attribute. Without the attribute, it returns
// those of all axes.
func declaredAlong(n *node) [][]ir.Dim {
	shape, ok := n.declaredShape(0)
	if !ok {
		return nil
	}
	axes, has := n.list("axes")
	if !has {
		return [][]ir.Dim{shape}
	}
	var out []ir.Dim
	for _, a := range n.axes(axes, len(shape)) {
		out = append(out, shape[a])
	}
	return [][]ir.Dim{out}
}

// oneAlong returns the declared size of result 0 on the axis of an attribute.
func oneAlong(axis int64) func(n *node) [][]ir.Dim {
	return func(n *node) [][]ir.Dim {
		shape, ok := n.declaredShape(0)
		if !ok || len(shape) == 0 {
			return nil
		}
		return [][]ir.Dim{{shape[n.axis(n.int("axis", axis), len(shape))]}}
	}
}

var (
	_ = decide(candidates{1, false, whole}, "Reshape", "Expand")
	_ = decide(candidates{0, false, whole}, "ConstantOfShape", "BlackmanWindow", "HammingWindow", "HannWindow")
	_ = decide(candidates{2, false, whole}, "MaxUnpool")
	_ = decide(candidates{1, false, declaredAlong}, "CenterCropPad")
	_ = decide(candidates{1, false, oneAlong(-1)}, "TopK", "OneHot")
	_ = decide(candidates{1, true, anyAxis}, "CumSum", "CumProd")
	_ = decide(candidates{1, true, removedAxes}, "Squeeze")
	_ = decide(candidates{1, false, addedAxes}, "Unsqueeze")
	_ = decide(candidates{1, true, reducedAxes}, "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
		"ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
	_ = decide(candidates{1, false, func(n *node) [][]ir.Dim { // [N,C,spatial...]
		shape, ok := n.declaredShape(0)
		if !ok || len(shape) < 3 {
			return nil
		}
		return [][]ir.Dim{shape[2:]}
	}}, "Col2Im")
	_ = decide(candidates{2, false, blocks}, "Col2Im")
	_ = decide(candidates{1, false, func(n *node) [][]ir.Dim { // [N,spatial...,axes] to N, C, spatial...
		shape, ok := n.declaredShape(0)
		if !ok || len(shape) < 3 {
			return nil
		}
		size := []ir.Dim{shape[0], ir.Static(1)}
		return [][]ir.Dim{append(size, shape[1:len(shape)-1]...)}
	}}, "AffineGrid")
	_ = decide(candidates{1, false, func(n *node) [][]ir.Dim {
		shape, ok := n.declaredShape(0)
		x := n.typeOf(0).Shape
		var out []ir.Dim
		for i := range shape {
			if !ok || len(shape) != len(x) || x[i].Is(0) {
				return nil
			}
			q, whole := shape[i].Div(x[i])
			if !whole {
				return nil
			}
			out = append(out, q)
		}
		return [][]ir.Dim{out}
	}}, "Tile")
	_ = decide(candidates{1, false, func(n *node) [][]ir.Dim {
		var out []ir.Dim
		for i := range n.p.GetOutput() {
			shape, ok := n.declaredShape(i)
			if !ok || len(shape) != n.typeOf(0).Rank() {
				return nil
			}
			out = append(out, shape[n.axis(n.int("axis", 0), len(shape))])
		}
		return [][]ir.Dim{out}
	}}, "Split")
)

// anyAxis returns each axis of input 0.
func anyAxis(n *node) (out [][]ir.Dim) {
	for a := range n.typeOf(0).Rank() {
		out = append(out, []ir.Dim{ir.Static(int64(a))})
	}
	return out
}

// subsets calls f with each set of k of the first n axes, in rising order; k is negative for any number.
func subsets(n, k int, f func(axes []int)) {
	if n > ir.MaxRank {
		return
	}
	for bits := range 1 << n {
		var axes []int
		for a := range n {
			if bits>>a&1 != 0 {
				axes = append(axes, a)
			}
		}
		if k < 0 || len(axes) == k {
			f(axes)
		}
	}
}

func dimsOf(axes []int) []ir.Dim {
	out := make([]ir.Dim, len(axes))
	for i, a := range axes {
		out[i] = ir.Static(int64(a))
	}
	return out
}

// without returns a shape without some axes.
func without(shape ir.Shape, axes []int) ir.Shape {
	out := ir.Shape{}
	for i, d := range shape {
		if !slices.Contains(axes, i) {
			out = append(out, d)
		}
	}
	return out
}

// removedAxes returns the axes of size 1 that can be removed. All sets give the same result.
func removedAxes(n *node) (out [][]ir.Dim) {
	shape, ok := n.declaredShape(0)
	x := n.typeOf(0).Shape
	if !ok {
		return nil
	}
	subsets(len(x), len(x)-len(shape), func(axes []int) {
		ones := !slices.ContainsFunc(axes, func(a int) bool { return !x[a].Is(1) })
		if out == nil && ones && without(x, axes).Equal(shape) {
			out = append(out, dimsOf(axes))
		}
	})
	return out
}

// addedAxes returns the axes of size 1 that can be added. All sets give the same result.
func addedAxes(n *node) (out [][]ir.Dim) {
	shape, ok := n.declaredShape(0)
	x := n.typeOf(0).Shape
	if !ok || len(shape) < len(x) {
		return nil
	}
	subsets(len(shape), len(shape)-len(x), func(axes []int) {
		ones := !slices.ContainsFunc(axes, func(a int) bool { return !shape[a].Is(1) })
		if out == nil && ones && without(shape, axes).Equal(x) {
			out = append(out, dimsOf(axes))
		}
	})
	return out
}

// reducedAxes returns the axes that can be reduced. With keepdims these are the axes whose size changes; those of size
// 1 make no difference.
func reducedAxes(n *node) (out [][]ir.Dim) {
	shape, ok := n.declaredShape(0)
	x := n.typeOf(0).Shape
	count := int(n.in[1].numel())
	if !ok || n.int("noop_with_empty_axes", 0) != 0 && count < 0 {
		return nil
	}
	if n.int("keepdims", 1) != 0 {
		if len(shape) != len(x) {
			return nil
		}
		var axes []int
		for i := range x {
			if x[i] != shape[i] || x[i].Is(1) {
				axes = append(axes, i)
			}
		}
		return [][]ir.Dim{dimsOf(axes)}
	}
	subsets(len(x), count, func(axes []int) {
		if without(x, axes).Equal(shape) {
			out = append(out, dimsOf(axes))
		}
	})
	return out
}

// blocks returns the possible blocks of Col2Im: those whose number of elements, and of positions in the image, are
// those of the input.
func blocks(n *node) (out [][]ir.Dim) {
	shape, ok := n.declaredShape(0)
	x := n.typeOf(0).Shape
	if !ok || len(shape) < 3 || len(x) != 3 || !x[1].IsStatic() || !x[2].IsStatic() || x[1].Const > maxKnown ||
		!n.product(shape[1:]).IsStatic() || shape[1].Is(0) {
		return nil
	}
	k := len(shape) - 2
	stride, dilation := n.spatial("strides", k, 1), n.spatial("dilations", k, 1)
	before, after := n.pads(k)
	var extend func(block []ir.Dim, taps, positions int64)
	extend = func(block []ir.Dim, taps, positions int64) {
		i := len(block)
		if i == k {
			if taps == 1 && positions == x[2].Const {
				out = append(out, slices.Clone(block))
			}
			return
		}
		for size := int64(1); size <= taps; size++ {
			room := shape[i+2].Const + int64(before[i]+after[i]-dilation[i]*int(size-1)-1)
			if taps%size == 0 && room >= 0 {
				extend(append(slices.Clone(block), ir.Static(size)), taps/size, positions*(room/int64(stride[i])+1))
			}
		}
	}
	extend(nil, x[1].Const/shape[1].Const, 1)
	return out
}

// emptyKnown makes an input without elements known, because it has only one possible value.
func emptyKnown(v *value) {
	if v.numel() == 0 && v.typ.Rank() == 1 {
		t := tensor.NewArray(v.typ.DType, 0).Tensor()
		v.init = &initializer{typ: v.typ, made: &t}
	}
}
