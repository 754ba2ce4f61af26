package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// reduction converts a reduction along axes.
func reduction(f func(x *ir.Node, keep bool, axes ...int) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		x := n.x(0)
		axes, ok := n.axesOf(1, x.Type.Rank())
		if !ok || len(axes) == 0 {
			if n.int("noop_with_empty_axes", 0) != 0 {
				return one(f(x, true))
			}
			axes = nil
			for i := range x.Type.Rank() {
				axes = append(axes, i)
			}
		}
		return one(f(x, n.int("keepdims", 1) != 0, axes...))
	}
}

var _ = func() struct{} {
	for name, f := range map[string]func(x *ir.Node, keep bool, axes ...int) *ir.Node{
		"ReduceMax": reduceMax(op.ReduceMax), "ReduceMin": reduceMax(op.ReduceMin), "ReduceSum": op.ReduceSum,
		"ReduceProd": op.ReduceProd, "ReduceMean": inFloats(op.ReduceMean), "ReduceLogSumExp": inFloats(op.LogSumExp),
		"ReduceL1": func(x *ir.Node, keep bool, axes ...int) *ir.Node { return op.ReduceSum(op.Abs(x), keep, axes...) },
		"ReduceL2": inFloats(func(x *ir.Node, keep bool, axes ...int) *ir.Node {
			return op.Sqrt(op.ReduceSum(op.Square(x), keep, axes...))
		}),
		"ReduceSumSquare": func(x *ir.Node, keep bool, axes ...int) *ir.Node {
			return op.ReduceSum(op.Square(x), keep, axes...)
		},
		"ReduceLogSum": inFloats(func(x *ir.Node, keep bool, axes ...int) *ir.Node {
			return op.Log(op.ReduceSum(x, keep, axes...))
		}),
	} {
		c := conversion{since: 1, convert: reduction(f)}
		if name == "ReduceProd" {
			c.symbolic = symbolicProduct
		}
		register(name, c)
	}
	return struct{}{}
}()

// inFloats computes a reduction of integers in floats, and rounds the result toward zero, as ONNX Runtime does.
func inFloats(f func(x *ir.Node, keep bool, axes ...int) *ir.Node) func(*ir.Node, bool, ...int) *ir.Node {
	return func(x *ir.Node, keep bool, axes ...int) *ir.Node {
		if x.Type.DType.IsFloat() {
			return f(x, keep, axes...)
		}
		return op.Cast(f(op.Cast(x, dtype.F64), keep, axes...), x.Type.DType)
	}
}

// reduceMax is a maximum or minimum, of bools too.
func reduceMax(f func(x *ir.Node, keep bool, axes ...int) *ir.Node) func(*ir.Node, bool, ...int) *ir.Node {
	return func(x *ir.Node, keep bool, axes ...int) *ir.Node {
		if x.Type.DType == dtype.Bool { // over nothing, the limits of an integer type are not those of bool
			return op.Gt(f(op.Cast(x, dtype.F32), keep, axes...), op.Const(x.Graph, 0, ir.TypeOf(dtype.F32)))
		}
		return f(x, keep, axes...)
	}
}

func symbolicProduct(n *node) []*value {
	in := n.known()
	if in == nil || n.in[0].typ.Rank() != 1 {
		return nil
	}
	p := integer(ir.Static(1))
	for _, x := range in[0] {
		num, ok := p.num.Mul(x.num)
		if !ok {
			return nil
		}
		p = reduced(num, p.den*x.den)
	}
	shape := ir.Shape{}
	if n.int("keepdims", 1) != 0 {
		shape = ir.ShapeOf(1)
	}
	return []*value{sizes(n.in[0].typ.DType, shape, []elem{p})}
}

// softmax converts softmax and its relatives. Before opset 13 they flatten the axes from the given one on.
func softmax(f func(x *ir.Node, axis int) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		x := n.x(0)
		if n.version >= 13 {
			return one(f(x, n.axis(n.int("axis", -1), x.Type.Rank())))
		}
		axis := n.axis(n.int("axis", 1), x.Type.Rank())
		if axis == x.Type.Rank()-1 {
			return one(f(x, axis))
		}
		s := x.Type.Shape
		flat := op.Reshape(x, append(append(ir.Shape{}, s[:axis]...), n.product(s[axis:])))
		return one(op.Reshape(f(flat, axis), s))
	}
}

// hardmax is 1 at the first largest element along an axis, and 0 elsewhere.
func hardmax(x *ir.Node, axis int) *ir.Node {
	at := op.ArgMax(x, axis, true)
	i := op.Iota(x.Graph, axis, ir.Type{DType: at.Type.DType, Shape: x.Type.Shape})
	return op.Cast(op.Eq(i, at), x.Type.DType)
}

// extreme converts ArgMax and ArgMin.
func extreme(f func(x *ir.Node, axis int, keep bool) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		x := n.x(0)
		axis, keep := n.axis(n.int("axis", 0), x.Type.Rank()), n.int("keepdims", 1) != 0
		if n.int("select_last_index", 0) == 0 {
			return one(op.Cast(f(x, axis, keep), dtype.I64))
		}
		at := op.Cast(f(op.Flip(x, axis), axis, keep), dtype.I64)
		return one(op.Sub(n.sizeNode(n.plus(x.Type.Shape[axis], -1), dtype.I64), at))
	}
}

// The ranks of inputs.
var (
	_ = ranks("1+ 1 1 1 1", "BatchNormalization")
	_ = ranks("2+ 1 1", "InstanceNormalization", "GroupNormalization")
	_ = ranks("2+", "LRN")
	_ = ranks("1+ one", "CumSum", "CumProd", "TopK")
)

var (
	_ = on("Softmax", 1, softmax(op.Softmax))
	_ = on("LogSoftmax", 1, softmax(op.LogSoftmax))
	_ = on("Hardmax", 1, softmax(hardmax))
	_ = on("ArgMax", 1, extreme(op.ArgMax))
	_ = on("ArgMin", 1, extreme(op.ArgMin))
	_ = on("CumSum", 11, func(n *node) []*value {
		x := n.x(0)
		return one(op.Cumsum(x, op.ScanAttrs{Axis: n.axis(n.oneInt(1), x.Type.Rank()),
			Exclusive: n.int("exclusive", 0) != 0, Reverse: n.int("reverse", 0) != 0}))
	})
	_ = on("CumProd", 26, func(n *node) []*value {
		x := n.x(0)
		return one(op.Cumprod(x, op.ScanAttrs{Axis: n.axis(n.oneInt(1), x.Type.Rank()),
			Exclusive: n.int("exclusive", 0) != 0, Reverse: n.int("reverse", 0) != 0}))
	})
	_ = on("TopK", 1, topK)
	_ = on("LpNormalization", 1, func(n *node) []*value {
		x := n.x(0)
		axis := n.axis(n.int("axis", -1), x.Type.Rank())
		var norm *ir.Node
		if n.int("p", 2) == 1 {
			norm = op.ReduceSum(op.Abs(x), true, axis)
		} else {
			norm = op.Sqrt(op.ReduceSum(op.Square(x), true, axis))
		}
		return one(op.Where(op.Eq(norm, number(0, x)), number(0, x), op.Div(x, norm)))
	})
)

// topK is TopK. It sorts if it returns the smallest elements, or all elements of an axis, whose size may be open.
func topK(n *node) []*value {
	x := n.x(0)
	axis := n.axis(n.int("axis", -1), x.Type.Rank())
	k := 0
	switch {
	case n.version < 10:
		k = n.int("k", 0)
	case n.isKnown(1) && n.oneDim(1) == x.Type.Shape[axis]:
		values, idx := op.Sort(x, axis, n.int("largest", 1) != 0)
		return many(values, op.Cast(idx, dtype.I64))
	default:
		k = n.oneInt(1)
	}
	if k == 0 || n.int("largest", 1) == 0 || axis != x.Type.Rank()-1 {
		values, idx := op.Sort(x, axis, n.int("largest", 1) != 0)
		return many(op.Narrow(values, axis, 0, k), op.Cast(op.Narrow(idx, axis, 0, k), dtype.I64))
	}
	values, idx := op.TopK(x, k)
	return many(values, op.Cast(idx, dtype.I64))
}

// The normalisations.
var (
	_ = on("BatchNormalization", 1, func(n *node) []*value {
		x := n.x(0)
		if n.int("training_mode", 0) != 0 || n.version < 7 && n.int("is_test", 0) == 0 {
			return n.trainingNorm(x)
		}
		d := x.Type.DType
		return one(op.BatchNorm(x, cast(n.x(1), d), cast(n.x(2), d), cast(n.x(3), d), cast(n.x(4), d),
			n.float32("epsilon", 1e-5)))
	})
	_ = on("InstanceNormalization", 1, func(n *node) []*value {
		return one(op.InstanceNorm(n.x(0), n.x(1), n.x(2), n.float32("epsilon", 1e-5)))
	})
	_ = on("LayerNormalization", 1, layerNorm)
	_ = on("RMSNormalization", 23, func(n *node) []*value {
		x, gain := n.x(0), n.x(1)
		axis := n.axis(n.int("axis", -1), x.Type.Rank())
		eps := n.float32("epsilon", 1e-5)
		if axis == x.Type.Rank()-1 && gain.Type.Rank() == 1 && gain.Type.Shape[0] == x.Type.Shape[axis] {
			return one(op.RmsNorm(x, gain, op.Const(n.b.g, 0, gain.Type), eps))
		}
		var axes []int
		for a := axis; a < x.Type.Rank(); a++ {
			axes = append(axes, a)
		}
		wide := cast(x, dtype.F32)
		y := op.Mul(wide, op.Rsqrt(op.Add(op.ReduceMean(op.Square(wide), true, axes...), number(eps, wide))))
		return one(op.Mul(cast(y, x.Type.DType), gain))
	})
	_ = on("GroupNormalization", 18, func(n *node) []*value {
		x, gain, bias := n.x(0), n.x(1), n.x(2)
		groups := n.int("num_groups", 1)
		if n.version < 21 { // a number for each group
			c := x.Type.Shape[1]
			each, ok := c.FloorDiv(int64(groups))
			if !ok {
				n.fail("num_groups is %d; want a number that divides the %v channels", groups, c)
			}
			spread := func(v *ir.Node) *ir.Node {
				return op.Reshape(
					op.Expand(op.Reshape(v, ir.ShapeOf(int64(groups), 1)), ir.Shape{ir.Static(int64(groups)), each}),
					ir.Shape{c})
			}
			gain, bias = spread(gain), spread(bias)
		}
		return one(op.GroupNorm(x, gain, bias, groups, n.float32("epsilon", 1e-5)))
	})
	_ = on("MeanVarianceNormalization", 9, func(n *node) []*value {
		x := n.x(0)
		axes, ok := n.list("axes")
		if !ok {
			axes = []int{0, 2, 3}
		}
		d := op.Sub(x, op.ReduceMean(x, true, axes...))
		std := op.Sqrt(op.ReduceMean(op.Square(d), true, axes...))
		return one(op.Div(d, op.Add(std, number(1e-9, x))))
	})
	_ = on("LRN", 1, func(n *node) []*value {
		// A window over the channels: a mean pool of the squares along them, times the part of alpha.
		x := n.x(0)
		size := n.int("size", 1)
		s := x.Type.Shape
		flat := op.Reshape(op.Square(x), ir.Shape{s[0], ir.Static(1), s[1], n.product(s[2:])})
		lo, hi := (size-1)/2, size-1-(size-1)/2
		flat = op.Pad(flat, []int{0, 0, lo, 0}, []int{0, 0, hi, 0}, 0)
		sum := op.Reshape(op.Pool(flat, op.PoolAttrs{Kind: "sum", Kernel: []int{size, 1}, Stride: []int{1, 1},
			Layout: op.NCHW}), s)
		scale := op.Add(op.Mul(sum, number(n.float("alpha", 1e-4)/float64(size), x)), number(n.float("bias", 1), x))
		return one(op.Div(x, op.Pow(scale, number(n.float("beta", 0.75), x))))
	})
)

// float32 is float for attributes whose default is not a float32.
func (n *node) float32(name string, otherwise float64) float64 {
	return n.float(name, float64(float32(otherwise)))
}

// layerNorm is LayerNormalization, over the axes from the given one on.
func layerNorm(n *node) []*value {
	x, gain := n.x(0), n.x(1)
	rank := x.Type.Rank()
	axis, eps := n.axis(n.int("axis", -1), rank), n.float32("epsilon", 1e-5)
	rest := x.Type.Shape[axis:]
	plain := len(n.p.GetOutput()) == 1 || n.p.GetOutput()[1] == "" &&
		(len(n.p.GetOutput()) < 3 || n.p.GetOutput()[2] == "")
	if plain && gain.Type.Shape.Equal(rest) {
		width := ir.Shape{n.product(rest)}
		flat := op.Reshape(x, append(append(ir.Shape{}, x.Type.Shape[:axis]...), width...))
		gamma, beta := op.Reshape(gain, width), op.Const(n.b.g, 0, ir.Type{DType: gain.Type.DType, Shape: width})
		if n.has(2) {
			beta = op.Reshape(n.x(2), width)
		}
		return one(op.Reshape(op.LayerNorm(flat, gamma, beta, eps), x.Type.Shape))
	}
	var axes []int
	for a := axis; a < rank; a++ {
		axes = append(axes, a)
	}
	wide := cast(x, dtype.F32)
	mean := op.ReduceMean(wide, true, axes...)
	d := op.Sub(wide, mean)
	inv := op.Rsqrt(op.Add(op.ReduceMean(op.Square(d), true, axes...), number(eps, wide)))
	y := op.Mul(cast(op.Mul(d, inv), x.Type.DType), gain)
	if n.has(2) {
		y = op.Add(y, n.x(2))
	}
	return many(y, mean, inv)
}

// trainingNorm is BatchNormalization with the statistics of the batch.
func (n *node) trainingNorm(x *ir.Node) []*value {
	axes := []int{0}
	for a := 2; a < x.Type.Rank(); a++ {
		axes = append(axes, a)
	}
	rank := x.Type.Rank()
	mean := op.ReduceMean(x, false, axes...)
	d := op.Sub(x, channels(mean, rank))
	variance := op.ReduceMean(op.Square(d), false, axes...)
	y := op.Mul(op.Mul(d, op.Rsqrt(op.Add(channels(variance, rank), number(n.float32("epsilon", 1e-5), x)))),
		channels(n.x(1), rank))
	y = op.Add(y, channels(n.x(2), rank))
	m := n.float("momentum", float64(float32(0.9)))
	mix := func(old, now *ir.Node) *ir.Node {
		return op.Add(op.Mul(old, number(m, old)), op.Mul(now, number(1-m, now)))
	}
	return many(y, mix(n.x(3), cast(mean, n.typeOf(3).DType)), mix(n.x(4), cast(variance, n.typeOf(4).DType)))
}
