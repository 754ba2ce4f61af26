package onnx

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// The ranks of inputs.
var (
	_ = ranks("* one 1", "OneHot")
	_ = ranks("2+ one", "Trilu")
	_ = ranks("2", "EyeLike")
	_ = ranks("* 1", "Expand", "Reshape", "Tile")
	_ = ranks("1", "ConstantOfShape")
	_ = ranks("one one one", "Range")
	_ = ranks("1+ 1 1 1 1", "Slice")
	_ = ranks("1+ 1", "Split")
	_ = ranks("* 1 one 1", "Pad")
	_ = ranks("* 0-1", "Squeeze", "Unsqueeze")
	_ = ranks("1+", "Gather")
	_ = ranks("4", "DepthToSpace", "SpaceToDepth")
)

var (
	_ = register("Shape", conversion{since: 1, keep: true, symbolic: func(n *node) []*value {
		shape := n.in[0].typ.Shape
		lo, hi := clampTo(n.int("start", 0), len(shape)), clampTo(n.int("end", int64(len(shape))), len(shape))
		b := n.in[0].bound
		if b == nil || b.axis < lo || b.axis >= hi {
			return sizeList(shape[lo:max(lo, hi)])
		}
		var out []elem
		for _, d := range shape[lo:hi] {
			out = append(out, integer(d))
		}
		out[b.axis-lo].rows = b.count
		return []*value{sizes(dtype.I64, ir.ShapeOf(int64(len(out))), out)}
	}})
	_ = register("Size", conversion{since: 1, keep: true, symbolic: func(n *node) []*value {
		numel, ok := n.in[0].typ.Shape.Numel()
		if !ok {
			n.fail("the number of elements of %v is too large a formula", n.in[0].typ)
		}
		return []*value{sizes(dtype.I64, ir.Shape{}, []elem{integer(numel)})}
	}})
	_ = register("Constant", conversion{since: 1, keep: true, convert: constantOp})
	_ = register("ConstantOfShape", conversion{since: 9, keep: true, convert: func(n *node) []*value {
		fill := tensor.NewArray(dtype.F32, 1)
		if n.attr("value") != nil {
			if fill = n.tensorAttr("value"); fill.Len() != 1 {
				n.fail("value has %d elements; want 1", fill.Len())
			}
		}
		return n.filled(n.dims(0), fill)
	}})
	_ = register(
		"Reshape", conversion{since: 1, symbolic: sameElements((*node).newShape), convert: func(n *node) []*value {
			return one(op.Reshape(n.x(0), n.newShape()))
		}})
	_ = on("Flatten", 1, func(n *node) []*value {
		x := n.x(0)
		at := n.int("axis", 1)
		if at < 0 {
			at += x.Type.Rank()
		}
		if at < 0 || at > x.Type.Rank() {
			n.fail("axis is %d; the tensor has rank %d", n.int("axis", 1), x.Type.Rank())
		}
		return one(op.Reshape(x, ir.Shape{n.product(x.Type.Shape[:at]), n.product(x.Type.Shape[at:])}))
	})
	_ = register("Squeeze", conversion{since: 1, symbolic: sameElements(squeezed), convert: func(n *node) []*value {
		return one(op.Reshape(n.x(0), squeezed(n)))
	}})
	_ = register("Unsqueeze", conversion{since: 1, symbolic: sameElements(unsqueezed), convert: func(n *node) []*value {
		return one(op.Reshape(n.x(0), unsqueezed(n)))
	}})
	_ = on("Transpose", 1, func(n *node) []*value {
		x := n.x(0)
		perm, ok := n.list("perm")
		if !ok {
			for i := range x.Type.Rank() {
				perm = append(perm, x.Type.Rank()-1-i)
			}
		}
		return one(op.Transpose(x, perm...))
	})
	_ = register("Concat", conversion{since: 1, symbolic: symbolicConcat, convert: func(n *node) []*value {
		xs := n.all()
		return one(op.Concat(n.axis(n.int("axis", 1), xs[0].Type.Rank()), xs...))
	}})
	_ = register("Slice", conversion{since: 1, symbolic: symbolicSlice, convert: slice})
	_ = on("Split", 1, split)
	_ = register("Gather", conversion{since: 1, symbolic: symbolicGather, convert: func(n *node) []*value {
		x := n.x(0)
		axis := n.axis(n.int("axis", 0), x.Type.Rank())
		return one(op.Gather(x, n.indices(1, x.Type.Shape[axis]), axis))
	}})
	_ = on("Expand", 8, func(n *node) []*value {
		x := n.x(0)
		return one(op.Expand(x, n.broadcast(x.Type.Shape, n.dims(1))))
	})
	_ = on("Tile", 1, func(n *node) []*value {
		x, times := n.x(0), n.dims(1)
		if n.version < 6 {
			n.fail("is of opset %d; allowed are 6 and later", n.version)
		}
		static := true
		for _, d := range times {
			static = static && d.IsStatic()
		}
		if static {
			return one(op.Tile(x, n.ints(1)...))
		}
		for i, d := range times { // insert an axis, expand, and join
			s := x.Type.Shape
			wide := append(append(append(ir.Shape{}, s[:i]...), ir.Static(1)), s[i:]...)
			big := append(ir.Shape{}, wide...)
			big[i] = d
			x = op.Expand(op.Reshape(x, wide), big)
			joined := append(ir.Shape{}, s...)
			joined[i] = n.product(ir.Shape{d, s[i]})
			x = op.Reshape(x, joined)
		}
		return one(x)
	})
	_ = register("Range", conversion{since: 11, symbolic: symbolicRange, convert: rangeOp})
	_ = on("Pad", 1, pad)
	_ = on("DepthToSpace", 1, func(n *node) []*value {
		return one(
			op.DepthToSpace(
				n.x(0), op.BlockAttrs{Size: n.int("blocksize", 1), Order: strings.ToLower(n.str("mode", "DCR"))}))
	})
	_ = on("SpaceToDepth", 1, func(n *node) []*value {
		return one(
			op.SpaceToDepth(
				n.x(0), op.BlockAttrs{Size: n.int("blocksize", 1), Order: strings.ToLower(n.str("mode", "DCR"))}))
	})
	_ = on("Trilu", 14, func(n *node) []*value {
		k := 0
		if n.has(1) {
			k = n.oneInt(1)
		}
		if n.int("upper", 1) != 0 {
			return one(op.Triu(n.x(0), k))
		}
		return one(op.Tril(n.x(0), k))
	})
	_ = on("EyeLike", 9, func(n *node) []*value {
		t := n.typeOf(0)
		d := t.DType
		if n.attr("dtype") != nil {
			d = n.dtype(n.int("dtype", 1))
		}
		it := ir.Type{DType: dtype.I32, Shape: t.Shape}
		r, c := op.Iota(n.b.g, 0, it), op.Iota(n.b.g, 1, it)
		return one(op.Cast(op.Eq(op.Add(r, number(float64(n.int("k", 0)), r)), c), d))
	})
	_ = on("OneHot", 9, oneHot)
)

func clampTo(i, n int) int {
	if i < 0 {
		i += n
	}
	return min(max(i, 0), n)
}

// sizeList returns dims as a vector.
func sizeList(shape ir.Shape) []*value {
	elems := make([]elem, len(shape))
	for i, d := range shape {
		elems[i] = integer(d)
	}
	return []*value{sizes(dtype.I64, ir.ShapeOf(int64(len(shape))), elems)}
}

// constantOp is a value in an attribute.
func constantOp(n *node) []*value {
	for _, a := range n.p.GetAttribute() {
		switch a.GetName() {
		case "value":
			if a.GetT() == nil {
				n.fail("attribute value is not a tensor")
			}
			x, err := n.b.file.newInitializer(a.GetT())
			if err != nil {
				n.b.g.Fail(err)
			}
			return []*value{{typ: x.typ, init: x}}
		case "value_float", "value_floats":
			list, shape := a.GetFloats(), []int{len(a.GetFloats())}
			if a.GetName() == "value_float" {
				list, shape = []float32{a.GetF()}, nil
			}
			out := tensor.NewArray(dtype.F32, shape...)
			for i, v := range list {
				out.Floats[i] = float64(v)
			}
			return []*value{made(out)}
		case "value_int", "value_ints":
			list, shape := a.GetInts(), []int{len(a.GetInts())}
			if a.GetName() == "value_int" {
				list, shape = []int64{a.GetI()}, nil
			}
			out := tensor.NewArray(dtype.I64, shape...)
			copy(out.Ints, list)
			return []*value{made(out)}
		}
	}
	n.fail("has no value that is supported; text and sparse tensors are not")
	return nil
}

// filled returns a tensor of one value.
func (n *node) filled(shape []ir.Dim, fill *tensor.Array) []*value {
	t := ir.Type{DType: fill.DType, Shape: n.shape(shape)}
	if numel, ok := t.Shape.Numel(); ok && numel.IsStatic() && numel.Const <= maxKnown {
		out := tensor.NewArray(t.DType, t.Shape.Eval(nil)...)
		out.Fill(fill.At(0))
		return []*value{made(out)}
	}
	return one(op.Const(n.b.g, fill.At(0), t))
}

// all returns the nodes of all inputs.
func (n *node) all() []*ir.Node {
	out := make([]*ir.Node, len(n.in))
	for i := range n.in {
		out[i] = n.x(i)
	}
	return out
}

// product returns the product of dims.
func (n *node) product(dims ir.Shape) ir.Dim {
	p, ok := dims.Numel()
	if !ok {
		n.fail("the product of the sizes %v is too large a formula", dims)
	}
	return p
}

// newShape returns the shape for a reshape: 0 stands for the size of the axis, -1 for the size that remains.
func (n *node) newShape() ir.Shape {
	x := n.typeOf(0).Shape
	var want []ir.Dim
	if n.version < 5 {
		l, _ := n.list("shape")
		for _, v := range l {
			want = append(want, ir.Static(int64(v)))
		}
	} else {
		want = n.dims(1)
	}
	out, open := ir.Shape{}, -1
	for i, d := range want {
		switch {
		case d.Is(0) && n.int("allowzero", 0) == 0:
			if i >= len(x) {
				n.fail("shape %v keeps axis %d; the tensor has rank %d", want, i, len(x))
			}
			d = x[i]
		case d.Is(-1):
			if open >= 0 {
				n.fail("shape %v has two -1", want)
			}
			open, d = i, ir.Static(1)
		}
		out = append(out, d)
	}
	if open >= 0 {
		all, rest := n.product(x), n.product(out)
		q, ok := all.Div(rest)
		if !ok && rest.IsStatic() && rest.Const > 0 { // the user's sizes must make it divisible
			q, ok = all.FloorDiv(rest.Const)
		}
		if !ok {
			n.fail("shape %v does not divide the %v elements of %v", want, all, n.typeOf(0))
		}
		out[open] = q
	}
	return out
}

// axesOf returns the axes of an attribute or, in later opsets, of input i. ok is false if the node has neither.
func (n *node) axesOf(i int, rank int) (list []int, ok bool) {
	if n.has(i) {
		return n.axes(n.ints(i), rank), true
	}
	if l, ok := n.list("axes"); ok {
		return n.axes(l, rank), true
	}
	return nil, false
}

func squeezed(n *node) ir.Shape {
	x := n.typeOf(0).Shape
	axes, ok := n.axesOf(1, len(x))
	out := ir.Shape{}
	for i, d := range x {
		drop := !ok && d.Is(1)
		for _, a := range axes {
			drop = drop || a == i
		}
		if !drop {
			out = append(out, d)
		}
	}
	return out
}

func unsqueezed(n *node) ir.Shape {
	x := n.typeOf(0).Shape
	var list []int
	if n.has(1) {
		list = n.ints(1)
	} else {
		list, _ = n.list("axes")
	}
	rank := len(x) + len(list)
	isNew := make([]bool, rank)
	for _, a := range n.axes(list, rank) {
		isNew[a] = true
	}
	out, k := ir.Shape{}, 0
	for _, fresh := range isNew {
		if fresh {
			out = append(out, ir.Static(1))
			continue
		}
		if k >= len(x) {
			n.fail("axes %v name an axis twice", list)
		}
		out = append(out, x[k])
		k++
	}
	return out
}

// sameElements is for ops that change only the shape of sizes.
func sameElements(shape func(n *node) ir.Shape) func(n *node) []*value {
	return func(n *node) []*value {
		if n.in[0].elems == nil {
			return nil
		}
		return []*value{sizes(n.in[0].typ.DType, shape(n), n.in[0].elems)}
	}
}

// broadcast returns the shape of two that broadcast. The sizes of one side decide where both are symbols.
func (n *node) broadcast(a, b ir.Shape) ir.Shape {
	out := make(ir.Shape, max(len(a), len(b)))
	for i := range out {
		x, y := ir.Static(1), ir.Static(1)
		if k := i - len(out) + len(a); k >= 0 {
			x = a[k]
		}
		if k := i - len(out) + len(b); k >= 0 {
			y = b[k]
		}
		switch {
		case x == y || y.Is(1):
			out[i] = x
		case x.Is(1):
			out[i] = y
		default:
			n.fail("sizes %v and %v of axis %d do not broadcast", x, y, i)
		}
	}
	return out
}

func symbolicConcat(n *node) []*value {
	in := n.known()
	if in == nil {
		return nil
	}
	var out []elem
	for i, l := range in {
		if n.in[i].typ.Rank() != 1 {
			return nil
		}
		out = append(out, l...)
	}
	return []*value{sizes(n.in[0].typ.DType, ir.ShapeOf(int64(len(out))), out)}
}

// indices returns input i as indices along an axis of that size. Negative ones count from the end.
func (n *node) indices(i int, size ir.Dim) *ir.Node {
	idx := n.x(i)
	if n.in[i].isKnown() && n.in[i].numel() >= 0 && n.in[i].numel() <= maxKnown {
		negative := false
		for _, v := range n.array(i).Ints {
			negative = negative || v < 0
		}
		if !negative {
			return idx
		}
	}
	return op.Where(op.Lt(idx, number(0, idx)), op.Add(idx, n.sizeNode(size, idx.Type.DType)), idx)
}

// sizeNode returns a size as a number of type d.
func (n *node) sizeNode(size ir.Dim, d dtype.DType) *ir.Node {
	v := sizes(d, ir.Shape{}, []elem{integer(size)})
	return n.b.at(v)
}

func symbolicGather(n *node) []*value {
	v := n.in[0]
	if v.elems == nil || v.typ.Rank() != 1 || !n.in[1].isKnown() {
		return nil
	}
	idx := n.array(1)
	out := make([]elem, idx.Len())
	for k, i := range idx.Ints {
		if i < 0 {
			i += int64(len(v.elems))
		}
		if i < 0 || i >= int64(len(v.elems)) {
			n.fail("index %d is outside 0 to %d", idx.Ints[k], len(v.elems)-1)
		}
		out[k] = v.elems[i]
	}
	return []*value{sizes(v.typ.DType, n.in[1].typ.Shape, out)}
}

// oneHot is OneHot: on and off values, and an axis for the classes.
func oneHot(n *node) []*value {
	idx, values := n.x(0), n.x(2)
	depth := n.oneInt(1)
	if !idx.Type.DType.IsInt() {
		idx = op.Cast(idx, dtype.I64)
	}
	idx = cast(idx, dtype.I64)
	idx = op.Where(op.Lt(idx, number(0, idx)), op.Add(idx, number(float64(depth), idx)), idx)
	hot := op.OneHot(idx, depth, dtype.Bool)
	off, on := op.Narrow(values, 0, 0, 1), op.Narrow(values, 0, 1, 1)
	hot = op.Where(hot, on, off)
	rank := hot.Type.Rank()
	axis := n.axis(n.int("axis", -1), rank)
	var perm []int
	for i := range rank - 1 {
		if i == axis {
			perm = append(perm, rank-1)
		}
		perm = append(perm, i)
	}
	if axis == rank-1 {
		return one(hot)
	}
	return one(op.Transpose(hot, perm...))
}
