// Package tensor holds values on the host: Tensor is what kernels and files see (dense little-endian bytes), Array is
// the exact form that reference implementations compute on (float64 and int64).
//
// It imports core/dtype only. It is the one package that uses unsafe: View reinterprets bytes that were mapped or
// allocated, and checks length and alignment.
package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
)

// Element is a Go type that tensor bytes can be viewed as.
type Element interface {
	~float32 | ~float64 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32
}

// View reinterprets b as elements of T without copying. It panics where b is misaligned or not a whole number of
// elements: callers place tensors at 64 bytes or more, so either is a bug of ours.
func View[T Element](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b)%size != 0 || uintptr(p)%uintptr(size) != 0 {
		panic(fmt.Sprintf("BUG: view of %d bytes at %p as elements of %d bytes", len(b), p, size))
	}
	return unsafe.Slice((*T)(p), len(b)/size)
}

// Bytes is the storage of s. Hosts are little-endian (checked by the commands at start).
func Bytes[T Element](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// AlignedBytes allocates n zero bytes at a multiple of 64.
func AlignedBytes(n int) []byte {
	b := make([]byte, n+63)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[off : off+n : off+n]
}

// Uncleared allocates n bytes at a multiple of 64, for a caller that overwrites all of them: they may have any values.
// Go clears memory with one core, for longer than several cores take to fill it.
func Uncleared(n int) []byte {
	if n < copyChunk {
		return AlignedBytes(n)
	}
	var s strings.Builder // the only type whose new memory is not cleared
	s.Grow(n + 63)
	s.WriteByte(0)
	b := unsafe.Slice(unsafe.StringData(s.String()), n+63)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[off : off+n : off+n]
}

// Aligned reports whether b begins at a multiple of size.
func Aligned(b []byte, size int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(size) == 0
}

// Numel is the product of the dims; 1 for a scalar.
func Numel(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Strides are the element strides of a dense row-major tensor.
func Strides(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// Tensor is a dense row-major tensor as bytes.
type Tensor struct {
	DType dtype.DType
	Shape []int
	Data  []byte
}

// New allocates a zero tensor, aligned to 64 bytes.
func New(d dtype.DType, shape ...int) Tensor {
	return Tensor{d, shape, AlignedBytes(Numel(shape) * d.Size())}
}

// HasNaN reports a NaN among the elements. Integers and bools have no NaN. f32 and f64 bytes must be aligned, as View
// requires.
func (t Tensor) HasNaN() bool {
	switch {
	case t.DType == dtype.F32:
		return slices.ContainsFunc(View[float32](t.Data), func(v float32) bool { return v != v })
	case t.DType == dtype.F64:
		return slices.ContainsFunc(View[float64](t.Data), math.IsNaN)
	case t.DType.IsFloat():
		return slices.ContainsFunc(t.Array().Floats, math.IsNaN)
	}
	return false
}

// Array is a tensor in the reference form. Floats of every width are in F, integers and bools in I, the bytes of packed
// types in B; the others are nil.
type Array struct {
	DType  dtype.DType
	Shape  []int
	Floats []float64
	Ints   []int64
	Bytes  []byte
}

// NewArray allocates a zero array.
func NewArray(d dtype.DType, shape ...int) *Array {
	a := &Array{DType: d, Shape: shape}
	switch n := Numel(shape); {
	case d.IsFloat():
		a.Floats = make([]float64, n)
	case d.IsPacked():
		a.Bytes = make([]byte, n*d.Size())
	default:
		a.Ints = make([]int64, n)
	}
	return a
}

// ArrayBytes is the memory that ArrayIn takes for n elements of type d, a multiple of 8.
func ArrayBytes(d dtype.DType, n int64) int64 {
	if d.IsPacked() {
		return (n*int64(d.Size()) + 7) &^ 7
	}
	return n * 8
}

// Len is the number of elements.
func (a *Array) Len() int {
	if a.DType.IsPacked() {
		return len(a.Bytes) / a.DType.Size()
	}
	return max(len(a.Floats), len(a.Ints))
}

// Fill sets all elements to v, rounded to the element type.
func (a *Array) Fill(v float64) {
	if a.DType == dtype.F32 {
		v = float64(float32(v))
	}
	for i := range a.Floats {
		a.Floats[i] = v
	}
	for i := range a.Ints {
		a.Ints[i] = int64(v)
	}
}

// At is element i as float64. Elements of packed types are not numbers.
func (a *Array) At(i int) float64 {
	if a.Floats != nil {
		return a.Floats[i]
	}
	return float64(a.Ints[i])
}

// ArrayIn is like NewArray, but uses the memory of b, which is aligned to 8 bytes, and also returns the rest of b. It
// does not clear the elements.
func ArrayIn(b []byte, d dtype.DType, shape ...int) (a *Array, rest []byte) {
	n := int(ArrayBytes(d, int64(Numel(shape))))
	if n == 0 {
		return NewArray(d, shape...), b
	}
	a = &Array{DType: d, Shape: shape}
	switch {
	case d.IsFloat():
		a.Floats = View[float64](b[:n])
	case d.IsPacked():
		a.Bytes = b[:Numel(shape)*d.Size()]
	default:
		a.Ints = View[int64](b[:n])
	}
	return a, b[n:]
}

// Array widens t exactly. Bytes may be unaligned.
func (t Tensor) Array() *Array {
	a := NewArray(t.DType, t.Shape...)
	a.Set(t)
	return a
}

// Set widens t, which has a's type, into a.
func (a *Array) Set(t Tensor) {
	if a.Bytes != nil {
		copy(a.Bytes, t.Data)
		return
	}
	le := binary.LittleEndian
	if t.DType == dtype.F32 { // most arrays are
		InParts(len(a.Floats), func(from, to int) {
			for i := from; i < to; i++ {
				a.Floats[i] = float64(math.Float32frombits(le.Uint32(t.Data[4*i:])))
			}
		})
		return
	}
	for i := range a.Len() {
		b := t.Data[i*t.DType.Size():]
		switch t.DType {
		case dtype.F16:
			a.Floats[i] = float64(dtype.F16ToF32(le.Uint16(b)))
		case dtype.BF16:
			a.Floats[i] = float64(dtype.BF16ToF32(le.Uint16(b)))
		case dtype.F64:
			a.Floats[i] = math.Float64frombits(le.Uint64(b))
		case dtype.I8:
			a.Ints[i] = int64(int8(b[0]))
		case dtype.I16:
			a.Ints[i] = int64(int16(le.Uint16(b)))
		case dtype.I32:
			a.Ints[i] = int64(int32(le.Uint32(b)))
		case dtype.I64:
			a.Ints[i] = int64(le.Uint64(b))
		case dtype.U8:
			a.Ints[i] = int64(b[0])
		case dtype.U32:
			a.Ints[i] = int64(le.Uint32(b))
		case dtype.Bool:
			a.Ints[i] = 0
			if b[0] != 0 {
				a.Ints[i] = 1
			}
		}
	}
}

// Round rounds the elements of a to its element type, as Tensor does.
func (a *Array) Round() {
	if a.DType != dtype.F32 {
		a.Set(a.Tensor())
		return
	}
	InParts(len(a.Floats), func(from, to int) {
		for i, v := range a.Floats[from:to] {
			a.Floats[from+i] = float64(float32(v))
		}
	})
}

// Tensor rounds a to its element type, once and ties to even.
func (a *Array) Tensor() Tensor {
	t := New(a.DType, a.Shape...)
	a.Store(t.Data)
	return t
}

// Store is Tensor into data, which is as long.
func (a *Array) Store(data []byte) {
	if a.Bytes != nil {
		copy(data, a.Bytes)
		return
	}
	le := binary.LittleEndian
	if a.DType == dtype.F32 {
		InParts(len(a.Floats), func(from, to int) {
			for i, v := range a.Floats[from:to] {
				le.PutUint32(data[4*(from+i):], math.Float32bits(float32(v)))
			}
		})
		return
	}
	for i := range a.Len() {
		b := data[i*a.DType.Size():]
		switch a.DType {
		case dtype.F16:
			le.PutUint16(b, dtype.F64ToF16(a.Floats[i]))
		case dtype.BF16:
			le.PutUint16(b, dtype.F64ToBF16(a.Floats[i]))
		case dtype.F64:
			le.PutUint64(b, math.Float64bits(a.Floats[i]))
		case dtype.I8, dtype.U8, dtype.Bool:
			b[0] = byte(a.Ints[i])
		case dtype.I16:
			le.PutUint16(b, uint16(a.Ints[i]))
		case dtype.I32, dtype.U32:
			le.PutUint32(b, uint32(a.Ints[i]))
		case dtype.I64:
			le.PutUint64(b, uint64(a.Ints[i]))
		}
	}
}
