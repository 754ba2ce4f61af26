package onnx

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// decode returns the value of a tensor of the file.
func (f *File) decode(p *onnxpb.TensorProto, t ir.Type) (tensor.Tensor, error) {
	shape := t.Shape.Eval(nil)
	n := tensor.Numel(shape)
	out := tensor.Tensor{DType: t.DType, Shape: shape}
	if p.GetDataLocation() == onnxpb.TensorProto_EXTERNAL || p.RawData != nil {
		bits := 8 * t.DType.Size()
		if k := bitsOf(p.GetDataType()); k != 0 {
			bits = k
		}
		b, err := f.raw(p, (int64(n)*int64(bits)+7)/8)
		if err != nil {
			return out, err
		}
		switch {
		case bits < 8:
			out.Data = unpack(b, n, bits, t.DType == dtype.I8)
		case bits == 8*t.DType.Size():
			out.Data = b
		default: // uint16
			out.Data = tensor.AlignedBytes(4 * n)
			for i := range n {
				binary.LittleEndian.PutUint32(out.Data[4*i:], uint32(binary.LittleEndian.Uint16(b[2*i:])))
			}
		}
		if t.DType == dtype.Bool {
			out.Data = normalised(out.Data)
		}
		return out, nil
	}
	out.Data = tensor.AlignedBytes(n * t.DType.Size())
	count, put := fields(p, t.DType, out.Data)
	bits := bitsOf(p.GetDataType())
	packed := n
	if bits != 0 && bits < 8 {
		packed = (n*bits + 7) / 8
	}
	if count != packed {
		return out, f.errorf("tensor %s has %d elements; its shape %v takes %d", strconv.Quote(p.GetName()), count,
			shape, packed)
	}
	if bits != 0 && bits < 8 {
		b := make([]byte, packed)
		for i := range b {
			b[i] = byte(p.GetInt32Data()[i])
		}
		out.Data = unpack(b, n, bits, t.DType == dtype.I8)
		return out, nil
	}
	for i := range n {
		put(i)
	}
	return out, nil
}

// fields returns the number of elements of a tensor whose elements are fields of the message, and a function that
// stores one.
func fields(p *onnxpb.TensorProto, d dtype.DType, to []byte) (n int, put func(i int)) {
	le := binary.LittleEndian
	switch d {
	case dtype.F32:
		return len(p.GetFloatData()), func(i int) { le.PutUint32(to[4*i:], math.Float32bits(p.GetFloatData()[i])) }
	case dtype.F64:
		return len(p.GetDoubleData()), func(i int) { le.PutUint64(to[8*i:], math.Float64bits(p.GetDoubleData()[i])) }
	case dtype.I64:
		if p.GetDataType() == int32(onnxpb.TensorProto_UINT64) {
			return len(p.GetUint64Data()), func(i int) { le.PutUint64(to[8*i:], p.GetUint64Data()[i]) }
		}
		return len(p.GetInt64Data()), func(i int) { le.PutUint64(to[8*i:], uint64(p.GetInt64Data()[i])) }
	case dtype.U32:
		return len(p.GetUint64Data()), func(i int) { le.PutUint32(to[4*i:], uint32(p.GetUint64Data()[i])) }
	}
	size := d.Size() // the others are in int32_data; 16-bit floats as their bits
	return len(p.GetInt32Data()), func(i int) {
		v := p.GetInt32Data()[i]
		if d == dtype.Bool && v != 0 {
			v = 1
		}
		switch size {
		case 1:
			to[i] = byte(v)
		case 2:
			le.PutUint16(to[2*i:], uint16(v))
		default:
			le.PutUint32(to[4*i:], uint32(v))
		}
	}
}

// unpack returns n numbers of 2 or 4 bits, the first of a byte in its lowest bits, as bytes.
func unpack(b []byte, n, bits int, signed bool) []byte {
	out := tensor.AlignedBytes(n)
	each := 8 / bits
	for i := range out {
		v := b[i/each] >> (bits * (i % each)) & (1<<bits - 1)
		if signed && v>>(bits-1) != 0 {
			v |= 0xff << bits
		}
		out[i] = v
	}
	return out
}

// normalised returns bools as 0 and 1.
func normalised(b []byte) []byte {
	out := tensor.AlignedBytes(len(b))
	for i, v := range b {
		if v != 0 {
			out[i] = 1
		}
	}
	return out
}

// Tensor returns the value of a tensor that is not in external data.
func Tensor(p *onnxpb.TensorProto) (tensor.Tensor, error) {
	f := &File{path: "tensor"}
	x, err := f.newInitializer(p)
	if err != nil {
		return tensor.Tensor{}, err
	}
	return x.read()
}
