package onnx

import (
	"encoding/binary"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// bitWeights are the weights of MatMulNBits: rows of k numbers, in blocks.
type bitWeights struct {
	rows, k, bits, block int
}

func (w bitWeights) blocks() int { return (w.k + w.block - 1) / w.block }

// at returns number i of a row of packed numbers, the first of a byte in its lower bits. Each row has whole bytes.
func (w bitWeights) at(data []byte, count, row, i int) byte {
	if w.bits == 8 {
		return data[row*count+i]
	}
	per := 8 / w.bits
	return data[row*((count+per-1)/per)+i/per] >> (w.bits * (i % per)) & (1<<w.bits - 1)
}

// packedProduct returns the product of x in f32 and weights that stay in 4 or 8 bits; those of 2 bits become 8. It
// returns nil if the weights are not known, or x has another type. Numbers of 4 bits without zero points are stored as
// int4. Others are stored in 8 bits, with a zero point for each block if the node has zero points.
func (n *node) packedProduct(x *ir.Node, w bitWeights) *ir.Node {
	if x.Type.DType != dtype.F32 || x.Type.Rank() == 0 || n.typeOf(2).DType != dtype.F32 || !n.in[1].isKnown() ||
		!n.in[2].isKnown() || n.has(3) && !n.in[3].isKnown() {
		return nil
	}
	k := x.Type.Shape[x.Type.Rank()-1]
	stride := w.blocks() * w.block * w.bits / 8
	numbers := w.blocks() * w.block
	if !k.Is(int64(w.k)) || numbers*w.bits%8 != 0 || n.in[1].numel() != int64(w.rows*stride) ||
		n.in[2].numel() != int64(w.rows*w.blocks()) {
		return nil
	}
	q := n.dataOf(1)
	scale := transposed(n.dataOf(2), w)
	a := op.DequantMatMulAttrs{Block: w.block, Activations: op.ActivationsF32}
	in := []*ir.Node{x, nil, n.param(scale), nil, nil}
	half := byte(1) << (w.bits - 1)
	if w.bits == 4 && !n.has(3) {
		a.Scheme = "int4"
		out := make([]byte, (w.k*w.rows+1)/2)
		for row := range w.rows {
			for i := range w.k {
				at := i*w.rows + row
				out[at/2] |= (w.at(q.Data, numbers, row, i) ^ half) << (4 * (at % 2))
			}
		}
		in[1] = n.param(tensor.Tensor{DType: dtype.U8, Shape: []int{len(out)}, Data: out})
		return n.b.g.Add(op.DequantMatMulDef, a, in...)
	}
	out := make([]byte, w.k*w.rows)
	for row := range w.rows {
		for i := range w.k {
			out[i*w.rows+row] = w.at(q.Data, numbers, row, i) - half
		}
	}
	in[1] = n.param(tensor.Tensor{DType: dtype.I8, Shape: []int{w.k, w.rows}, Data: out})
	a.Scheme = "int8"
	if n.has(3) {
		zero, ok := n.zeroPoints(w, half)
		if !ok {
			return nil
		}
		a.Scheme = "int8_asym"
		in[3] = n.param(transposed(zero, w))
	}
	return n.b.g.Add(op.DequantMatMulDef, a, in...)
}

// zeroPoints returns the zero points less half, as f32[rows,blocks].
func (n *node) zeroPoints(w bitWeights, half byte) (tensor.Tensor, bool) {
	z := n.dataOf(3)
	out := tensor.Tensor{DType: dtype.F32, Shape: []int{w.rows, w.blocks()}, Data: make([]byte, 4*w.rows*w.blocks())}
	put := func(i int, v float64) {
		binary.LittleEndian.PutUint32(out.Data[4*i:], math.Float32bits(float32(v-float64(half))))
	}
	if z.DType != dtype.U8 {
		a := z.Array()
		if a.Len() != w.rows*w.blocks() || !z.DType.IsFloat() {
			return out, false
		}
		for i := range a.Len() {
			put(i, a.At(i))
		}
		return out, true
	}
	if len(z.Data) != w.rows*((w.blocks()*w.bits+7)/8) {
		return out, false
	}
	for row := range w.rows {
		for i := range w.blocks() {
			put(row*w.blocks()+i, float64(w.at(z.Data, w.blocks(), row, i)))
		}
	}
	return out, true
}

// transposed returns f32[rows,blocks] as f32[blocks,rows].
func transposed(t tensor.Tensor, w bitWeights) tensor.Tensor {
	out := tensor.Tensor{DType: dtype.F32, Shape: []int{w.blocks(), w.rows}, Data: make([]byte, len(t.Data))}
	for row := range w.rows {
		for i := range w.blocks() {
			copy(out.Data[4*(i*w.rows+row):][:4], t.Data[4*(row*w.blocks()+i):])
		}
	}
	return out
}

// dataOf returns the value of input i, which is known.
func (n *node) dataOf(i int) tensor.Tensor {
	t, err := n.in[i].init.read()
	if err != nil {
		n.fail("%v", err)
	}
	return t
}

// param adds a constant.
func (n *node) param(t tensor.Tensor) *ir.Node {
	shape := make(ir.Shape, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = ir.Static(int64(d))
	}
	typ := ir.Type{DType: t.DType, Shape: shape}
	return n.b.at(&value{typ: typ, init: &initializer{typ: typ, made: &t}})
}
