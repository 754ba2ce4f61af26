package weights

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/internal/safetensors"
)

// chunk is the number of elements converted at a time. A chunk fits in the second-level cache.
const chunk = 1 << 16

// Copy streams a tensor to w as element type to (F32, F16, BF16, or its own). It rounds to nearest, ties to even.
// Values of packed types become floats. Integers and bools keep their type. Memory use does not depend on the size of
// the tensor. overflowed counts the finite values that became infinite. Errors match CodeMissing, CodeDType, CodeTensor
// or CodeRead, or come from w.
func (c *Checkpoint) Copy(w io.Writer, name string, to dtype.DType) (overflowed int64, err error) {
	t, ok := c.find(name)
	if !ok {
		return 0, diag.New(CodeMissing, c.path, "tensor %q: not in the checkpoint", name)
	}
	switch {
	case t.DType == dtype.Invalid:
		return 0,
			diag.New(
				CodeDType, c.fileOf(t),
				"tensor %q: element type %s; params may be F64, F32, F16, BF16, I64, I32, I16, I8, U32, U8 or BOOL",
				name, t.Stored)
	case to != t.DType && !t.DType.IsFloat() && !t.DType.IsPacked():
		return 0, diag.New(CodeDType, c.fileOf(t), "tensor %q: %v cannot be converted to %v; only floats are converted",
			name, t.DType, to)
	}
	if to != t.DType && to != dtype.F32 && to != dtype.F16 && to != dtype.BF16 {
		return 0,
			diag.New(CodeDType, c.fileOf(t), "tensor %q: cannot be converted to %s; allowed are f32, f16 and bf16",
				name, to)
	}
	from, size, values := t.DType, t.DType.Size(), t.DType.Values()
	bufs := buffers.Get().(*scratch)
	defer buffers.Put(bufs)
	for done := int64(0); done < t.Size; {
		n := int(min(int64(chunk/values), (t.Size-done)/int64(size)))
		src := bufs.src[:n*size]
		if err := safetensors.ReadAt(c.fileOf(t), t.src, src, t.start+done, CodeRead); err != nil {
			return overflowed, err
		}
		if from == dtype.Bool {
			if i := slices.IndexFunc(src, func(b byte) bool { return b > 1 }); i >= 0 {
				return 0, diag.New(CodeTensor, c.fileOf(t), "tensor %q: element %d is the byte %d; a BOOL is 0 or 1",
					name, done+int64(i), src[i])
			}
		}
		done += int64(len(src))
		out := src
		if to != from {
			n *= values
			if from.IsPacked() {
				if bufs.values == nil {
					bufs.values = make([]float32, chunk)
				}
				quant.Decode(bufs.values[:n], from, src)
				src, from = bufs.src[:4*n], dtype.F32
				for i, v := range bufs.values[:n] {
					binary.LittleEndian.PutUint32(src[4*i:], math.Float32bits(v))
				}
			}
			out = bufs.dst[:n*to.Size()]
			overflowed += convert(out, to, src, from, bufs.mid[:n])
			from = t.DType
		}
		if _, err := w.Write(out); err != nil {
			return overflowed, err
		}
	}
	return overflowed, nil
}

// Bytes returns a whole tensor as element type to. It is meant for small tensors that the compiler computes with.
func (c *Checkpoint) Bytes(name string, to dtype.DType) ([]byte, error) {
	var b bytes.Buffer
	if t, ok := c.find(name); ok && t.DType.IsFloat() {
		b.Grow(int(t.Size) / t.DType.Size() * to.Size())
	}
	_, err := c.Copy(&b, name, to)
	return b.Bytes(), err
}

type scratch struct {
	src, dst []byte
	mid      []uint32
	values   []float32 // of packed types; nil before the first use
}

var buffers = sync.Pool{New: func() any {
	return &scratch{src: make([]byte, chunk*8), dst: make([]byte, chunk*4), mid: make([]uint32, chunk)}
}}

// convert converts n elements of src to dst through float32. The intermediate step loses nothing. f16 and bf16 widen
// exactly. f64 is rounded to odd; since float32 has more than two bits beyond either 16-bit type, a second rounding to
// nearest then gives the same as one rounding.
func convert(dst []byte, to dtype.DType, src []byte, from dtype.DType, mid []uint32) (overflowed int64) {
	switch from {
	case dtype.F64:
		if to == dtype.F32 {
			overflowed = roundF64(mid, src)
		} else {
			roundF64Odd(mid, src)
		}
	case dtype.F32:
		for i := range mid {
			mid[i] = binary.LittleEndian.Uint32(src[i*4 : i*4+4])
		}
	case dtype.F16:
		widenF16(mid, src)
	case dtype.BF16:
		for i := range mid {
			mid[i] = uint32(binary.LittleEndian.Uint16(src[i*2:i*2+2])) << 16
		}
	}
	switch to {
	case dtype.F32:
		for i, b := range mid {
			binary.LittleEndian.PutUint32(dst[i*4:i*4+4], b)
		}
		return overflowed
	case dtype.F16:
		return roundF16(dst, mid)
	default:
		return roundBF16(dst, mid)
	}
}

const (
	inf32 = 0x7f800000
	abs32 = 0x7fffffff
)

func roundF64(mid []uint32, src []byte) (overflowed int64) {
	for i := range mid {
		d := math.Float64frombits(binary.LittleEndian.Uint64(src[i*8 : i*8+8]))
		b := math.Float32bits(float32(d))
		if b&abs32 == inf32 && math.Abs(d) <= math.MaxFloat64 {
			overflowed++
		}
		mid[i] = b
	}
	return overflowed
}

// roundF64Odd rounds toward zero, and sets the lowest bit if that was inexact.
func roundF64Odd(mid []uint32, src []byte) {
	for i := range mid {
		d := math.Float64frombits(binary.LittleEndian.Uint64(src[i*8 : i*8+8]))
		f := float32(d)
		b := math.Float32bits(f)
		if wide := float64(f); wide != d && d == d {
			if math.Abs(wide) > math.Abs(d) {
				b-- // away from zero: step back (infinity becomes the largest finite value)
			}
			b |= 1
		}
		mid[i] = b
	}
}

func widenF16(mid []uint32, src []byte) {
	for i := range mid {
		h := uint32(binary.LittleEndian.Uint16(src[i*2 : i*2+2]))
		// The half's bits, shifted into a float32, are the value times 2^-112, subnormals included.
		b := math.Float32bits(math.Float32frombits(h&0x7fff<<13) * (1 << 112))
		if h&0x7c00 == 0x7c00 {
			b |= inf32
		}
		mid[i] = b | h&0x8000<<16
	}
}

func roundF16(dst []byte, mid []uint32) (overflowed int64) {
	for i, b := range mid {
		sign, abs := uint16(b>>16&0x8000), b&abs32
		var h uint16
		switch {
		case abs >= 0x477ff000: // 65520 and above round to infinity
			h = 0x7c00
			if abs > inf32 {
				h = 0x7e00 | uint16(abs>>13&0x3ff)
			} else if abs < inf32 {
				overflowed++
			}
		case abs < 0x38800000: // below the smallest normal half: the adder rounds to a multiple of 2^-24
			h = uint16(math.Float32bits(math.Float32frombits(abs)+0.5) - 0x3f000000)
		default:
			h = uint16((abs - 0x38000000 + 0xfff + abs>>13&1) >> 13)
		}
		binary.LittleEndian.PutUint16(dst[i*2:i*2+2], sign|h)
	}
	return overflowed
}

func roundBF16(dst []byte, mid []uint32) (overflowed int64) {
	for i, b := range mid {
		h := uint16((b + 0x7fff + b>>16&1) >> 16)
		if abs := b & abs32; abs >= 0x7f7f8000 { // the largest bfloat16 and half a unit
			if abs > inf32 {
				h = uint16(b>>16) | 0x40
			} else if abs < inf32 {
				overflowed++
			}
		}
		binary.LittleEndian.PutUint16(dst[i*2:i*2+2], h)
	}
	return overflowed
}
