package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops of com.microsoft with weights of a few bits, except MatMulNBits: embeddings in blocks, the 4 bits
// of bitsandbytes, and recurrent layers.

// The ranks of inputs.
var (
	_ = ranks("1+ * 1+ 1+", "com.microsoft.GatherBlockQuantized")
	_ = ranks("1+ 1+ 1", "com.microsoft.MatMulBnb4")
	_ = ranks("3 3 3 2 1 3 3 2 1-2 1-2 1-2 1-2", "com.microsoft.DynamicQuantizeLSTM")
	_ = ranks("2 2 2 2 2 1 1 2", "com.microsoft.QEmbedLayerNormalization")
	_ = ranks("* * one one * one one one one", "com.microsoft.QLinearWhere")
	_ = ranks("1+ one one one one", "com.microsoft.QLinearReduceMean")
)

var (
	_ = contrib("GatherBlockQuantized", "", gatherBlocks)
	_ = contrib("MatMulBnb4", "", bnbProduct)
	_ = contrib("DynamicQuantizeLSTM", "inputs and states stay floats", dynamicLSTM)
	_ = contrib("QEmbedLayerNormalization", "", func(n *node) []*value {
		table := func(i, scale int) *ir.Node { // the zero points are five inputs after the scales
			if !n.has(i) {
				return nil
			}
			return n.dequantised(n.x(i), scalarOf(n.x(scale)), n.zeroOf(scale+5))
		}
		return n.embedded(table(2, 8), table(3, 9), table(4, 10), table(5, 11), table(6, 12), 7, -1)
	})
	_ = contrib("QLinearWhere", "", func(n *node) []*value {
		part := func(i int) *ir.Node { return n.dequantised(n.x(i), scalarOf(n.x(i+1)), n.zeroOf(i+2)) }
		x, y := part(1), part(4)
		s := n.broadcast(n.broadcast(n.typeOf(0).Shape, x.Type.Shape), y.Type.Shape)
		z := op.Where(op.Expand(n.x(0), s), op.Expand(x, s), op.Expand(y, s))
		return one(n.quantised(z, scalarOf(n.x(7)), n.zeroOf(8), n.typeOf(1).DType, n.in[1].narrow))
	})
	_ = contrib("QLinearReduceMean", "", quantizedUnary(func(n *node, x *ir.Node) *ir.Node {
		axes, _ := n.list("axes")
		axes = n.axes(axes, x.Type.Rank())
		if len(axes) == 0 {
			for i := range x.Type.Rank() {
				axes = append(axes, i)
			}
		}
		return op.ReduceMean(x, n.int("keepdims", 1) != 0, axes...)
	}))
)

// unpackedBits returns bytes [..., k] as numbers of 2, 4 or 8 bits [..., 8/bits*k], the first of a byte in its lowest
// bits.
func unpackedBits(v *ir.Node, bits int) *ir.Node {
	if bits == 8 {
		return v
	}
	per, s := 8/bits, v.Type.Shape
	last := len(s) - 1
	var parts []*ir.Node
	for i := range per {
		x := v
		if i > 0 {
			x = op.ShiftRight(v, number(float64(i*bits), v))
		}
		parts = append(parts, op.And(x, number(float64(int(1)<<bits-1), v)))
	}
	shape := append(append(ir.Shape{}, s[:last]...), ir.Static(int64(per)*s[last].Const))
	return op.Reshape(op.Stack(last+1, parts...), shape)
}

// gatherBlocks is GatherBlockQuantized: rows of a table in blocks with a scale and a zero point each.
func gatherBlocks(n *node) []*value {
	data, scale, zero := n.x(0), n.x(2), n.maybe(3)
	rank := data.Type.Rank()
	axis, along := n.axis(n.int("gather_axis", 0), rank), n.axis(n.int("quantize_axis", 1), rank)
	block, bits := n.int("block_size", 128), n.int("bits", 4)
	if !data.Type.Shape[rank-1].IsStatic() || block < 1 || bits != 2 && bits != 4 && bits != 8 {
		n.fail("data is %v with %d bits in blocks of %d; allowed are 2, 4 and 8 bits and a last axis that is known",
			data.Type, bits, block)
	}
	packed := n.in[0].narrow == 0 // bytes; other types of 4 bits are not packed here
	if axis != along || axis != rank-1 {
		if axis == rank-1 && packed && bits < 8 {
			n.fail("gather_axis is the last axis, which is packed; want another one")
		}
	}
	idx := n.indices(1, data.Type.Shape[axis])
	if axis != along { // only what is needed
		data, scale = op.Gather(data, idx, axis), op.Gather(scale, idx, axis)
		if zero != nil {
			zero = op.Gather(zero, idx, axis)
		}
		if along > axis {
			along += n.typeOf(1).Rank() - 1
		}
	}
	middle := 0.0
	if packed {
		data = unpackedBits(data, bits)
		middle = float64(int(1) << (bits - 1))
		if zero != nil {
			zero = unpackedBits(zero, bits)
		}
	}
	wide := cast(data, dtype.I32)
	s := wide.Type.Shape
	i := op.Iota(n.b.g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{s[along]}})
	blockOf := op.Div(i, number(float64(block), i))
	if zero == nil {
		wide = op.Sub(wide, number(middle, wide))
	} else {
		wide = op.Sub(wide, op.Gather(cast(zero, dtype.I32), blockOf, along))
	}
	y := op.Mul(cast(wide, scale.Type.DType), op.Gather(scale, blockOf, along))
	if axis == along {
		y = op.Gather(y, idx, axis)
	}
	return one(y)
}

// bnbProduct is MatMulBnb4: a product with weights [N,K] of 4 bits that are places in a table of values, the first of a
// byte in its upper bits, in blocks with a scale each.
func bnbProduct(n *node) []*value {
	x, k, rows, block := n.x(0), n.int("K", 0), n.int("N", 0), n.int("block_size", 0)
	if k < 1 || rows < 1 || block < 1 || n.int("transB", 1) == 0 {
		n.fail("has K %d, N %d, blocks of %d and transB %d; want sizes of 1 or more, and transB 1", k, rows, block,
			n.int("transB", 1))
	}
	v := n.flat(n.x(1))
	if want := int64((k*rows + 1) / 2); !v.Type.Shape[0].Is(want) {
		n.fail("weights are %v; want %d bytes", n.typeOf(1), want)
	}
	bytes := v.Type.Shape[0].Const
	both := op.Stack(1, op.ShiftRight(v, number(4, v)), op.And(v, number(15, v)))
	at := cast(op.Narrow(op.Reshape(both, ir.ShapeOf(2*bytes)), 0, 0, k*rows), dtype.I32)
	w := op.Gather(n.table(dtype.F32, n.bnbTable()), at, 0)
	i := op.Iota(n.b.g, 0, ir.TypeOf(dtype.I32, int64(k*rows)))
	w = op.Mul(w, op.Gather(cast(n.x(2), dtype.F32), op.Div(i, number(float64(block), i)), 0))
	w = cast(op.Reshape(w, ir.ShapeOf(int64(rows), int64(k))), x.Type.DType)
	return one(op.MatMul(x, w, op.MatMulAttrs{TransB: true}))
}

// dynamicLSTM is LSTM with weights in 8 bits, [directions, inputs, 4*hidden].
func dynamicLSTM(n *node) []*value {
	m := *n
	m.in = append([]*value{}, n.in[:min(8, len(n.in))]...)
	for len(m.in) > 3 && m.in[len(m.in)-1] == nil {
		m.in = m.in[:len(m.in)-1]
	}
	for k, scale := range []int{8, 10} {
		i := k + 1
		spread := func(at int) *ir.Node { // a number, or one for each direction, or for each column of it
			v := n.x(at)
			switch s := v.Type.Shape; len(s) {
			case 0:
				return v
			case 1:
				return op.Reshape(v, ir.Shape{s[0], ir.Static(1), ir.Static(1)})
			default:
				return op.Reshape(v, ir.Shape{s[0], ir.Static(1), s[1]})
			}
		}
		w := op.Transpose(n.dequantised(n.x(i), spread(scale), spread(scale+1)), 0, 2, 1)
		m.in[i] = &value{name: n.in[i].name, typ: w.Type, node: w}
	}
	return find("", "LSTM", 14).convert(&m)
}

var _ = refuse("it is in a layout of ONNX Runtime's own; save the model at level ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL",
	"com.microsoft.nchwc.AveragePool", "com.microsoft.nchwc.Conv", "com.microsoft.nchwc.GlobalAveragePool",
	"com.microsoft.nchwc.GlobalMaxPool", "com.microsoft.nchwc.MaxPool", "com.microsoft.nchwc.ReorderInput",
	"com.microsoft.nchwc.ReorderOutput", "com.microsoft.nchwc.Upsample")
var _ = refuse("it generates text in a loop; compile the decoder that is in it", "com.microsoft.BeamSearch",
	"com.microsoft.GreedySearch", "com.microsoft.Sampling", "com.microsoft.WhisperBeamSearch")
var _ = refuse("it works on rows without padding, whose number depends on the data; export the model without packing",
	"com.microsoft.PackedAttention", "com.microsoft.PackedMultiHeadAttention", "com.microsoft.RemovePadding",
	"com.microsoft.RestorePadding", "com.microsoft.PagedAttention")
var _ = refuse("it works on text", "com.microsoft.Tokenizer")
var _ = refuse("it holds a graph compiled for one device", "com.microsoft.EPContext")
