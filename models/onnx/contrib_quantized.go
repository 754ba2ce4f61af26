package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Quantized ops of com.microsoft: they dequantize, compute in floats and quantize again.

// The ranks of inputs.
var (
	_ = ranks("1+ 1+ one one 0-1", "com.microsoft.DynamicQuantizeMatMul")
	_ = ranks("2 one 0-1 2 0-1 0-1 1-2 one one", "com.microsoft.QGemm")
	_ = ranks("* one one * one one one one", "com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
	_ = ranks("* one one one one", "com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearSigmoid",
		"com.microsoft.QLinearSoftmax")
	_ = ranks("3-5 one one one one", "com.microsoft.QLinearAveragePool")
	_ = ranks("2+ one one one one", "com.microsoft.QLinearGlobalAveragePool")
	_ = ranks("1+ 1+", "com.microsoft.MatMulIntegerToFloat")
)

var (
	_ = contrib("QuantizeLinear", "", asDefault("QuantizeLinear"))
	_ = contrib("DequantizeLinear", "", asDefault("DequantizeLinear"))
	_ = contrib("QLinearAdd", "", quantizedPair(op.Add))
	_ = contrib("QLinearMul", "", quantizedPair(op.Mul))
	_ = contrib("QLinearSigmoid", "", quantizedUnary(func(n *node, x *ir.Node) *ir.Node { return op.Sigmoid(x) }))
	_ = contrib("QLinearLeakyRelu", "", quantizedUnary(func(n *node, x *ir.Node) *ir.Node {
		return op.LeakyRelu(x, n.float("alpha", 0.01))
	}))
	_ = contrib("QLinearSoftmax", "", quantizedUnary(func(n *node, x *ir.Node) *ir.Node {
		axis := n.axis(n.int("axis", -1), x.Type.Rank())
		if n.int("opset", 13) < 13 && axis != x.Type.Rank()-1 {
			n.fail("axis is %d before opset 13; allowed is the last one", axis)
		}
		return op.Softmax(x, axis)
	}))
	_ = contrib("QLinearGlobalAveragePool", "", quantizedUnary(pooledAs(func(n *node, x *ir.Node) *ir.Node {
		var axes []int
		for a := 2; a < x.Type.Rank(); a++ {
			axes = append(axes, a)
		}
		return op.ReduceMean(x, true, axes...)
	})))
	_ = contrib("QLinearAveragePool", "", quantizedUnary(pooledAs((*node).averagePool)))
	_ = contrib("QLinearConcat", "", func(n *node) []*value {
		var xs []*ir.Node
		for i := 2; i+2 < len(n.in); i += 3 {
			xs = append(xs, n.dequantised(n.x(i), scalarOf(n.x(i+1)), scalarOf(n.x(i+2))))
		}
		if len(xs) == 0 {
			n.fail("has %d inputs; want a scale, a zero point, and three for each tensor", len(n.in))
		}
		y := op.Concat(n.axis(n.int("axis", 0), xs[0].Type.Rank()), xs...)
		return one(n.quantised(y, scalarOf(n.x(0)), scalarOf(n.x(1)), n.typeOf(1).DType, n.in[1].narrow))
	})
	_ = contrib("DynamicQuantizeMatMul", "", func(n *node) []*value {
		q := find("", "DynamicQuantizeLinear", 11).convert(n) // of input 0
		acc := n.matmul(n.centred(q[0].node, q[2].node, 0), n.centred(n.x(1), n.maybe(3), 1))
		y := op.Mul(acc, op.Mul(cast(q[1].node, dtype.F64), columnsOf(cast(n.x(2), dtype.F64))))
		return one(n.biased(cast(y, n.typeOf(0).DType), 4))
	})
	_ = contrib("MatMulIntegerToFloat", "", func(n *node) []*value {
		acc := n.matmul(n.centred(n.x(0), n.maybe(4), 1), n.centred(n.x(1), n.maybe(5), 1))
		scale := op.Mul(columnsOf(cast(n.x(2), dtype.F64)), columnsOf(cast(n.x(3), dtype.F64)))
		return one(n.biased(cast(op.Mul(acc, scale), n.typeOf(2).DType), 6))
	})
	_ = contrib("QGemm", "", func(n *node) []*value {
		// a, its scale and zero point, b with those, c, the result's scale and zero point
		if y := n.integerGemm(); y != nil {
			return one(y)
		}
		a, b := n.centred(n.x(0), n.maybe(2), 1), n.centred(n.x(3), n.maybe(5), 1)
		if n.int("transB", 0) != 0 {
			b = n.centred(n.x(3), n.maybe(5), 0)
		}
		y := op.MatMul(a, b, op.MatMulAttrs{TransA: n.int("transA", 0) != 0, TransB: n.int("transB", 0) != 0})
		if n.has(6) {
			y = op.Add(y, cast(n.x(6), dtype.F64))
		}
		scale := op.Mul(columnsOf(cast(n.x(1), dtype.F64)), columnsOf(cast(n.x(4), dtype.F64)))
		y = op.Mul(y, op.Mul(scale, number(n.float("alpha", 1), scale)))
		if !n.has(7) {
			return one(cast(y, dtype.F32))
		}
		by := cast(scalarOf(n.x(7)), dtype.F64)
		return one(n.quantised(y, by, scalarOf(n.x(8)), n.typeOf(8).DType, n.in[8].narrow))
	})
)

// pooledAs computes a pool of channels that are second, or last with channels_last.
func pooledAs(pool func(n *node, x *ir.Node) *ir.Node) func(n *node, x *ir.Node) *ir.Node {
	return func(n *node, x *ir.Node) *ir.Node {
		if n.int("channels_last", 0) == 0 {
			return pool(n, x)
		}
		return channelsEnd(pool(n, channelsSecond(x)))
	}
}

// asDefault converts an op like that of the default domain.
func asDefault(name string) func(n *node) []*value {
	return func(n *node) []*value { return find("", name, 21).convert(n) }
}

// scalarOf returns a tensor of one element as a number.
func scalarOf(x *ir.Node) *ir.Node { return op.Reshape(x, ir.Shape{}) }

// columnsOf returns a number, or a vector for the columns.
func columnsOf(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 1 && x.Type.Shape[0].Is(1) {
		return scalarOf(x)
	}
	return x
}

// quantizedPair converts an op of two quantized tensors, each with a scale and a zero point, and those of the result.
func quantizedPair(f func(a, b *ir.Node) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		value := func(i int) *ir.Node {
			return n.dequantised(n.x(i), scalarOf(n.x(i+1)), n.zeroOf(i+2))
		}
		y := f(value(0), value(3))
		return one(n.quantised(y, scalarOf(n.x(6)), n.zeroOf(7), n.typeOf(0).DType, n.in[0].narrow))
	}
}

// quantizedUnary converts an op of a quantized tensor with a scale and a zero point, and those of the result.
func quantizedUnary(f func(n *node, x *ir.Node) *ir.Node) func(n *node) []*value {
	return func(n *node) []*value {
		y := f(n, n.dequantised(n.x(0), scalarOf(n.x(1)), n.zeroOf(2)))
		return one(n.quantised(y, scalarOf(n.x(3)), n.zeroOf(4), n.typeOf(0).DType, n.in[0].narrow))
	}
}

// integerGemm returns QGemm as a product of floats with the conversions around it. It returns nil if the compiler would
// not recognise this form as a product of integers.
func (n *node) integerGemm() *ir.Node {
	if n.int("transA", 0) != 0 || n.float("alpha", 1) != 1 || !n.has(8) || n.typeOf(8).DType != n.typeOf(0).DType ||
		n.typeOf(0).Rank() != 2 || n.typeOf(3).Rank() != 2 {
		return nil
	}
	for _, i := range []int{1, 2, 3, 4, 5, 7, 8} {
		if !n.has(i) || !n.in[i].isKnown() {
			return nil
		}
	}
	trans := n.int("transB", 0) != 0
	axis := 1
	if trans {
		axis = 0
	}
	y := op.MatMul(n.asFloats(0, 1), n.asFloats(3, axis), op.MatMulAttrs{TransB: trans})
	if n.has(6) {
		scale := op.Mul(scalarOf(n.x(1)), op.Reshape(n.x(4), ir.Shape{numel(n.x(4))}))
		y = op.Add(y, n.dequantised(n.x(6), scale, nil))
	}
	return n.asIntegers(y, 7)
}

// zeroOf returns a zero point as a number, or nil if the node has no zero point.
func (n *node) zeroOf(i int) *ir.Node {
	if !n.has(i) {
		return nil
	}
	return scalarOf(n.x(i))
}
