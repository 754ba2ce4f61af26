package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// This file has ops of quantised models. Scales and zero points are one number, one for each element of an axis, or one
// for each block of an axis.

// spread returns a scale or zero point in the shape in which it broadcasts to x.
func (n *node) spread(v *ir.Node, x ir.Shape, axis int, block int) *ir.Node {
	switch {
	case v == nil:
		return nil
	case v.Type.Rank() == 0 || v.Type.Rank() == 1 && v.Type.Shape[0].Is(1) && block == 0:
		return op.Reshape(v, ir.Shape{})
	case block != 0:
		axis = n.axis(axis, len(x))
		i := op.Iota(n.b.g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{x[axis]}})
		return op.Gather(v, op.Div(i, number(float64(block), i)), axis)
	case v.Type.Rank() == 1:
		return n.at(v, n.axis(axis, len(x)), len(x))
	}
	return v
}

// oneElement reports whether a scale is one number, so that the axis does not matter.
func oneElement(t ir.Type) bool {
	return t.Rank() == 0 || t.Rank() == 1 && t.Shape[0].Is(1)
}

// quantised returns round(x/scale) + zero, saturated. Halves go to the even neighbour.
func (n *node) quantised(x, scale, zero *ir.Node, d dtype.DType, narrow int32) *ir.Node {
	y := op.Round(op.Div(x, scale))
	wide := dtype.F32
	lo, hi := limits(d, narrow)
	if hi > 1<<20 {
		wide = dtype.F64
	}
	y = cast(y, wide)
	if zero != nil {
		y = op.Add(y, cast(zero, wide))
	}
	return op.Cast(op.Clamp(y, float64(lo), float64(hi)), d)
}

// dequantised returns (x - zero) * scale.
func (n *node) dequantised(x, scale, zero *ir.Node) *ir.Node {
	y := cast(x, dtype.I32)
	if zero != nil {
		y = op.Sub(y, cast(zero, dtype.I32))
	}
	return op.Mul(cast(y, scale.Type.DType), scale)
}

// The ranks of inputs.
var (
	_ = ranks("3-5 one one 3-5 0-1 0-1 one one 1", "QLinearConv")
	_ = ranks("1+ * * 1+", "QLinearMatMul")
	_ = ranks("1+ 1+", "MatMulInteger")
)

var (
	_ = register("QuantizeLinear", conversion{since: 10, convert: func(n *node) []*value {
		x := n.x(0)
		axis := n.int("axis", 1)
		if x.Type.Rank() > 0 && !oneElement(n.typeOf(1)) {
			axis = n.axis(axis, x.Type.Rank())
		}
		d, narrow := dtype.U8, int32(0)
		if n.has(2) {
			d, narrow = n.typeOf(2).DType, n.in[2].narrow
		} else if t := n.int("output_dtype", 0); t != 0 {
			d, narrow = n.dtype(t), narrowType(int32(t))
		}
		if !d.IsInt() {
			n.fail("quantizes to %v; allowed are integers", d)
		}
		block := n.int("block_size", 0)
		scale := n.spread(n.x(1), x.Type.Shape, axis, block)
		if t := n.int("precision", 0); t != 0 {
			p := n.dtype(t)
			x, scale = cast(x, p), cast(scale, p)
		} else if x.Type.DType != scale.Type.DType {
			x, scale = cast(x, dtype.F32), cast(scale, dtype.F32)
		}
		var out []*value
		if f, ok := smallFloats[onnxpb.TensorProto_DataType(narrow)]; ok {
			y := op.Div(x, scale)
			if n.has(2) {
				y = op.Add(y, cast(f.decoded(n, n.spread(n.x(2), x.Type.Shape, axis, block)), y.Type.DType))
			}
			out = one(n.castTo(y, 0, narrow))
		} else {
			out = one(n.quantised(x, scale, n.spread(n.maybe(2), x.Type.Shape, axis, block), d, narrow))
		}
		out[0].narrow = narrow
		return out
	}})
	// Constants are not dequantized here, because products may read them as integers.
	_ = register("DequantizeLinear", conversion{since: 10, keep: true, convert: func(n *node) []*value {
		x := n.x(0)
		axis := n.int("axis", 1)
		if x.Type.Rank() > 0 && !oneElement(n.typeOf(1)) {
			axis = n.axis(axis, x.Type.Rank())
		}
		block := n.int("block_size", 0)
		scale := n.spread(n.x(1), x.Type.Shape, axis, block)
		var y *ir.Node
		if f, ok := smallFloats[onnxpb.TensorProto_DataType(n.in[0].narrow)]; ok {
			y = op.Mul(cast(f.decoded(n, x), scale.Type.DType), scale)
		} else {
			y = n.dequantised(x, scale, n.spread(n.maybe(2), x.Type.Shape, axis, block))
		}
		if t := n.int("output_dtype", 0); t != 0 {
			y = cast(y, n.dtype(t))
		}
		return one(y)
	}})
	_ = on("DynamicQuantizeLinear", 11, func(n *node) []*value {
		x := n.x(0)
		var axes []int
		for i := range x.Type.Rank() {
			axes = append(axes, i)
		}
		hi := op.Max(op.ReduceMax(x, false, axes...), number(0, x))
		lo := op.Min(op.ReduceMin(x, false, axes...), number(0, x))
		scale := op.Div(op.Sub(hi, lo), number(255, x))
		zero := op.Clamp(op.Round(op.Div(op.Neg(lo), scale)), 0, 255)
		zero = op.Cast(zero, dtype.U8)
		return many(n.quantised(x, scale, zero, dtype.U8, 0), scale, zero)
	})
	_ = on("MatMulInteger", 10, func(n *node) []*value {
		// a vector of zero points is for the rows of a or for the columns of b
		a, b := n.x(0), n.x(1)
		ca := n.centred(a, n.maybe(2), max(0, a.Type.Rank()-2))
		cb := n.centred(b, n.maybe(3), b.Type.Rank()-1)
		return one(op.Cast(n.matmul(ca, cb), dtype.I32))
	})
	_ = on("QLinearMatMul", 10, func(n *node) []*value {
		a, b := n.x(0), n.x(3)
		if n.constants(1, 2, 3, 4, 5, 6, 7) && b.Type.Rank() == 2 && a.Type.Rank() >= 2 {
			y := n.matmul(n.asFloats(0, 1), n.asFloats(3, 1))
			return one(n.asIntegers(y, 6))
		}
		acc := n.matmul(n.centred(a, n.x(2), max(0, a.Type.Rank()-2)), n.centred(b, n.x(5), b.Type.Rank()-1))
		column := func(v *ir.Node, x *ir.Node) *ir.Node {
			if v.Type.Rank() == 1 && !v.Type.Shape[0].Is(1) {
				return n.at(v, max(0, x.Type.Rank()-2), x.Type.Rank())
			}
			if v.Type.Rank() == 1 {
				return op.Reshape(v, ir.Shape{})
			}
			return v
		}
		sb := n.x(4)
		if sb.Type.Rank() == 1 && sb.Type.Shape[0].Is(1) {
			sb = op.Reshape(sb, ir.Shape{})
		}
		f := dtype.F64
		y := op.Mul(acc, op.Mul(cast(column(n.x(1), a), f), cast(sb, f)))
		return one(n.quantised(y, cast(column(n.x(6), a), f), column(n.x(7), a), n.typeOf(7).DType, n.in[7].narrow))
	})
	_ = on("QLinearConv", 10, func(n *node) []*value {
		x, w := n.x(0), n.x(3)
		if n.constants(1, 2, 3, 4, 5, 6, 7) && x.Type.Rank() == 4 {
			var bias *ir.Node
			if n.has(8) {
				scale := op.Mul(scalarOf(n.x(1)), op.Reshape(n.x(4), ir.Shape{numel(n.x(4))}))
				bias = n.dequantised(n.x(8), scale, nil)
			}
			return one(n.asIntegers(n.conv(n.asFloats(0, 1), n.asFloats(3, 0), bias), 6))
		}
		acc := n.conv(n.centred(x, n.x(2), 1), n.centred(w, n.x(5), 0), nil)
		f := dtype.F64
		rank := x.Type.Rank()
		if n.has(8) {
			acc = op.Add(acc, channels(cast(n.x(8), f), rank))
		}
		scale := op.Mul(op.Reshape(cast(n.x(1), f), ir.Shape{}), n.perChannel(cast(n.x(4), f), rank))
		return one(
			n.quantised(op.Mul(acc, scale), op.Reshape(cast(n.x(6), f), ir.Shape{}), op.Reshape(n.x(7), ir.Shape{}),
				n.typeOf(7).DType, n.in[7].narrow))
	})
)

// constants reports whether inputs are known when the model is compiled. Then a product is written in floats, with the
// conversions around it, which the compiler knows as a product of integers.
func (n *node) constants(inputs ...int) bool {
	for _, i := range inputs {
		if !n.has(i) || !n.in[i].isKnown() {
			return false
		}
	}
	return n.typeOf(1).DType == dtype.F32 && n.typeOf(4).DType == dtype.F32 && n.typeOf(6).DType == dtype.F32 &&
		n.typeOf(0).DType == n.typeOf(7).DType
}

// asFloats returns input i, which the inputs after it scale and shift, along axis if they are vectors.
func (n *node) asFloats(i, axis int) *ir.Node {
	x := n.x(i)
	return n.dequantised(x, n.spread(n.x(i+1), x.Type.Shape, axis, 0), n.spread(n.x(i+2), x.Type.Shape, axis, 0))
}

// asIntegers quantizes y with the scale that is input i, and the zero point after it.
func (n *node) asIntegers(y *ir.Node, i int) *ir.Node {
	return n.quantised(y, scalarOf(n.x(i)), scalarOf(n.x(i+1)), n.typeOf(i+1).DType, n.in[i+1].narrow)
}

func numel(x *ir.Node) ir.Dim {
	e, _ := x.Type.Shape.Numel()
	return e
}

// perChannel returns a scale for the channels of a tensor of that rank.
func (n *node) perChannel(v *ir.Node, rank int) *ir.Node {
	if v.Type.Rank() == 0 || v.Type.Shape[0].Is(1) {
		return op.Reshape(v, ir.Shape{})
	}
	return channels(v, rank)
}
