package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Weights is a matrix stored as f32, f16, bf16, i8, u8 or a packed (block-quantised) type. Kernels widen it to f32 as
// they read it, unless they have routines for the type.
type Weights struct {
	f32   []float32
	half  []uint16
	byte  []uint8
	kind  dtype.DType
	start int // for a packed type: the index of the first value, which may lie within a block
}

// F32 returns a matrix of float32.
func F32(x []float32) Weights { return Weights{f32: x, kind: dtype.F32} }

// F16 returns a matrix of IEEE binary16, given as bits.
func F16(x []uint16) Weights { return Weights{half: x, kind: dtype.F16} }

// BF16 returns a matrix of bfloat16, given as bits.
func BF16(x []uint16) Weights { return Weights{half: x, kind: dtype.BF16} }

// I8 returns a matrix of int8, given as bytes.
func I8(x []uint8) Weights { return Weights{byte: x, kind: dtype.I8} }

// U8 returns a matrix of uint8.
func U8(x []uint8) Weights { return Weights{byte: x, kind: dtype.U8} }

// Len returns the number of elements.
func (w Weights) Len() int {
	if w.kind.IsPacked() {
		return len(w.byte)/w.kind.Size()*w.kind.Values() - w.start
	}
	return max(len(w.f32), len(w.half), len(w.byte))
}

// from returns the elements from i on.
func (w Weights) from(i int) Weights {
	switch {
	case w.kind.IsPacked():
		w.start += i
	case w.f32 != nil:
		w.f32 = w.f32[i:]
	case w.half != nil:
		w.half = w.half[i:]
	default:
		w.byte = w.byte[i:]
	}
	return w
}

// row returns n elements from i on as float32: a slice of w itself if it is f32, else buf with the widened elements.
func (w Weights) row(s *isa.Set, i, n int, buf []float32) []float32 {
	switch w.kind {
	case dtype.F32:
		return w.f32[i : i+n]
	case dtype.F16:
		vecOn(s).widenF16(buf[:n], w.half[i:i+n])
	case dtype.BF16:
		vecOn(s).widenBF16(buf[:n], w.half[i:i+n])
	case dtype.I8:
		for j, x := range w.byte[i : i+n] {
			buf[j] = float32(int8(x))
		}
	case dtype.U8:
		for j, x := range w.byte[i : i+n] {
			buf[j] = float32(x)
		}
	default:
		if w.kind.IsPacked() {
			w.decode(s, buf[:n], i)
			break
		}
		panic("BUG: weights of type " + w.kind.String())
	}
	return buf[:n]
}

// rows widens rows of n elements, which begin at element i and are ld elements apart. The rows of dst are ldd floats
// apart.
func (w Weights) rows(s *isa.Set, i, ld, rows, n int, dst []float32, ldd int) {
	values := max(1, w.kind.Values())
	decode := storedOn(s).packed[w.kind].decode
	if decode == nil || n == 0 || (w.start+i)%values+ld%values+n%values != 0 {
		for r := range rows {
			if d := dst[r*ldd:]; w.kind == dtype.F32 {
				copy(d, w.f32[i+r*ld:][:n])
			} else {
				w.row(s, i+r*ld, n, d)
			}
		}
		return
	}
	at, stride, size := (w.start+i)/values*w.kind.Size(), ld/values*w.kind.Size(), n/values*w.kind.Size()
	for r := range rows {
		decode(dst[r*ldd:][:n], w.byte[at+r*stride:][:size])
	}
}

// dotHalves is dst[r] = x·w[r] for rows of f16 or bf16 that are ld elements apart. It returns false if the set has no
// routine for that.
func (w Weights) dotHalves(s *isa.Set, dst []float32, ld int, x []float32) bool {
	switch {
	case w.kind == dtype.F16 && storedOn(s).dotF16 != nil:
		return storedOn(s).dotF16(dst, w.half, ld, x)
	case w.kind == dtype.BF16 && storedOn(s).dotBF16 != nil:
		return storedOn(s).dotBF16(dst, w.half, ld, x)
	}
	return false
}
