package rlx

import (
	"math"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// A DType is an element type. The zero value is no element type.
type DType uint8

// Element types of tensors. A Bool takes one byte: 0 is false.
const (
	F32 DType = iota + 1
	F16
	BF16
	F64
	I8
	I16
	I32
	I64
	U8
	U32
	Bool
)

// String returns the name as in shapes, such as "f32".
func (d DType) String() string { return dtype.DType(d).String() }

// Size returns the size of an element in bytes.
func (d DType) Size() int { return dtype.DType(d).Size() }

// Float16 holds the bits of an IEEE 754 half. It is the Go type for F16.
type Float16 uint16

// BFloat16 holds the bits of a bfloat16, the upper half of a float32. It is the Go type for BF16.
type BFloat16 uint16

// Float32 returns the value, without loss.
func (f Float16) Float32() float32 { return dtype.F16ToF32(uint16(f)) }

// Float32 returns the value, without loss.
func (f BFloat16) Float32() float32 { return dtype.BF16ToF32(uint16(f)) }

// Element lists the Go types for the element types of tensors.
type Element interface {
	float32 | float64 | Float16 | BFloat16 | int8 | int16 | int32 | int64 | uint8 | uint32 | bool
}

// dtypeOf returns the element type of T.
func dtypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case Float16:
		return F16
	case BFloat16:
		return BF16
	case int8:
		return I8
	case int16:
		return I16
	case int32:
		return I32
	case int64:
		return I64
	case uint8:
		return U8
	case uint32:
		return U32
	}
	return Bool
}

// A Tensor is a dense tensor in row-major order: the last dimension varies fastest. NewTensor makes one from a Go
// slice; Values returns a slice. The fields are exported for callers that read tensors from files; Run checks that they
// fit together.
type Tensor struct {
	DType DType
	Shape []int  // empty for a scalar
	Data  []byte // little-endian, DType.Size() bytes for each element
}

// NewTensor returns a tensor with the elements in data. It copies only bools, so data must not change while a run uses
// the tensor. The error matches ErrInput if shape and data differ in the number of elements.
func NewTensor[T Element](data []T, shape ...int) (Tensor, error) {
	t := Tensor{DType: dtypeOf[T](), Shape: shape, Data: bytesOf(data)}
	if n, ok := elements(shape); !ok || n != len(data) {
		return Tensor{}, diag.New(device.ErrInput, "tensor", "%d values do not fill shape %v", len(data), shape)
	}
	return t, nil
}

// Values returns the elements of t. The slice shares the memory of t, unless T is bool or the bytes are not aligned for
// T; then it is a copy. The error matches ErrInput if T is not the element type of t, or t is not well formed.
func Values[T Element](t Tensor) ([]T, error) {
	if want := dtypeOf[T](); t.DType != want {
		return nil, diag.New(device.ErrInput, "tensor", "holds %s; asked for as %s", t.DType, want)
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	return elementsOf[T](t.Data), nil
}

// ofCore returns a tensor of the other packages of this module. It shares the memory.
func ofCore(t tensor.Tensor) Tensor { return Tensor{DType(t.DType), t.Shape, t.Data} }

// core is the inverse of ofCore.
func (t Tensor) core() tensor.Tensor {
	return tensor.Tensor{DType: dtype.DType(t.DType), Shape: t.Shape, Data: t.Data}
}

// String returns the type: "f32[1,3,256,256]".
func (t Tensor) String() string { return t.DType.String() + shapeText(t.Shape) }

// Len returns the number of elements.
func (t Tensor) Len() int { return tensor.Numel(t.Shape) }

// check returns an error if the fields of the tensor do not fit together.
func (t Tensor) check() error {
	n, ok := elements(t.Shape)
	switch {
	case t.DType == 0 || t.DType > Bool:
		return diag.New(device.ErrInput, "tensor", "has no element type")
	case !ok:
		return diag.New(device.ErrInput, "tensor", "has shape %v; sizes are 0 or more, and their product fits an int",
			t.Shape)
	case len(t.Data)/t.DType.Size() != n || len(t.Data)%t.DType.Size() != 0:
		return diag.New(device.ErrInput, "tensor", "has %d bytes; %s takes %d times %d", len(t.Data), t, n,
			t.DType.Size())
	}
	return nil
}

// elements returns the product of a shape. ok is false if a size is negative, or if the bytes of the largest type would
// not fit in an int.
func elements(shape []int) (n int, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt/8/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// bytesOf returns the memory of data, or a copy for bools.
func bytesOf[T Element](data []T) []byte {
	switch d := any(data).(type) {
	case []float32:
		return tensor.Bytes(d)
	case []float64:
		return tensor.Bytes(d)
	case []Float16:
		return tensor.Bytes(d)
	case []BFloat16:
		return tensor.Bytes(d)
	case []int8:
		return tensor.Bytes(d)
	case []int16:
		return tensor.Bytes(d)
	case []int32:
		return tensor.Bytes(d)
	case []int64:
		return tensor.Bytes(d)
	case []uint8:
		return d
	case []uint32:
		return tensor.Bytes(d)
	}
	out := make([]byte, len(data))
	for i, v := range any(data).([]bool) {
		if v {
			out[i] = 1
		}
	}
	return out
}

// elementsOf returns b as a slice of elements. Its length must be a multiple of their size.
func elementsOf[T Element](b []byte) []T {
	var zero T
	var out any
	switch any(zero).(type) {
	case float32:
		out = tensor.View[float32](aligned(b, 4))
	case float64:
		out = tensor.View[float64](aligned(b, 8))
	case Float16:
		out = tensor.View[Float16](aligned(b, 2))
	case BFloat16:
		out = tensor.View[BFloat16](aligned(b, 2))
	case int8:
		out = tensor.View[int8](b)
	case int16:
		out = tensor.View[int16](aligned(b, 2))
	case int32:
		out = tensor.View[int32](aligned(b, 4))
	case int64:
		out = tensor.View[int64](aligned(b, 8))
	case uint8:
		out = b
	case uint32:
		out = tensor.View[uint32](aligned(b, 4))
	default:
		bools := make([]bool, len(b))
		for i, v := range b {
			bools[i] = v != 0
		}
		out = bools
	}
	return out.([]T)
}

// aligned returns b, or a copy if b does not begin at a multiple of size.
func aligned(b []byte, size int) []byte {
	if tensor.Aligned(b, size) {
		return b
	}
	out := tensor.AlignedBytes(len(b))
	copy(out, b)
	return out
}
