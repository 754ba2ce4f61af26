// Package stored reads and writes values as they are stored: f32, f16, bf16, 8-bit integers and packed blocks.
// Kernels widen them to f32 as they read them, unless they have routines for the type.
package stored

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Values is a matrix stored as f32, f16, bf16, i8, u8 or a packed (block-quantised) type. Kernels widen it to f32 as
// they read it, unless they have routines for the type.
type Values struct {
	Floats []float32
	Halves []uint16
	Bytes  []uint8
	Kind   dtype.DType
	Start  int // for a packed type: the index of the first value, which may lie within a block
}

// F32 returns a matrix of float32.
func F32(x []float32) Values { return Values{Floats: x, Kind: dtype.F32} }

// F16 returns a matrix of IEEE binary16, given as bits.
func F16(x []uint16) Values { return Values{Halves: x, Kind: dtype.F16} }

// BF16 returns a matrix of bfloat16, given as bits.
func BF16(x []uint16) Values { return Values{Halves: x, Kind: dtype.BF16} }

// I8 returns a matrix of int8, given as bytes.
func I8(x []uint8) Values { return Values{Bytes: x, Kind: dtype.I8} }

// U8 returns a matrix of uint8.
func U8(x []uint8) Values { return Values{Bytes: x, Kind: dtype.U8} }

// Len returns the number of elements.
func (w Values) Len() int {
	if w.Kind.IsPacked() {
		return len(w.Bytes)/w.Kind.Size()*w.Kind.Values() - w.Start
	}
	return max(len(w.Floats), len(w.Halves), len(w.Bytes))
}

// From returns the elements from i on.
func (w Values) From(i int) Values {
	switch {
	case w.Kind.IsPacked():
		w.Start += i
	case w.Floats != nil:
		w.Floats = w.Floats[i:]
	case w.Halves != nil:
		w.Halves = w.Halves[i:]
	default:
		w.Bytes = w.Bytes[i:]
	}
	return w
}

// Row returns n elements from i on as float32: a slice of w itself if it is f32, else buf with the widened elements.
func (w Values) Row(s *isa.Set, i, n int, buf []float32) []float32 {
	switch w.Kind {
	case dtype.F32:
		return w.Floats[i : i+n]
	case dtype.F16:
		vec.On(s).WidenF16(buf[:n], w.Halves[i:i+n])
	case dtype.BF16:
		vec.On(s).WidenBF16(buf[:n], w.Halves[i:i+n])
	case dtype.I8:
		for j, x := range w.Bytes[i : i+n] {
			buf[j] = float32(int8(x))
		}
	case dtype.U8:
		for j, x := range w.Bytes[i : i+n] {
			buf[j] = float32(x)
		}
	default:
		if w.Kind.IsPacked() {
			w.Decode(s, buf[:n], i)
			break
		}
		panic("BUG: weights of type " + w.Kind.String())
	}
	return buf[:n]
}

// Rows widens rows of n elements, which begin at element i and are ld elements apart. The rows of dst are ldd floats
// apart.
func (w Values) Rows(s *isa.Set, i, ld, rows, n int, dst []float32, ldd int) {
	values := max(1, w.Kind.Values())
	decode := On(s).Packed[w.Kind].Decode
	if decode == nil || n == 0 || (w.Start+i)%values+ld%values+n%values != 0 {
		for r := range rows {
			if d := dst[r*ldd:]; w.Kind == dtype.F32 {
				copy(d, w.Floats[i+r*ld:][:n])
			} else {
				w.Row(s, i+r*ld, n, d)
			}
		}
		return
	}
	at, stride, size := (w.Start+i)/values*w.Kind.Size(), ld/values*w.Kind.Size(), n/values*w.Kind.Size()
	for r := range rows {
		decode(dst[r*ldd:][:n], w.Bytes[at+r*stride:][:size])
	}
}

// DotHalves is dst[r] = x·w[r] for rows of f16 or bf16 that are ld elements apart. It returns false if the set has no
// routine for that.
func (w Values) DotHalves(s *isa.Set, dst []float32, ld int, x []float32) bool {
	switch {
	case w.Kind == dtype.F16 && On(s).DotF16 != nil:
		return On(s).DotF16(dst, w.Halves, ld, x)
	case w.Kind == dtype.BF16 && On(s).dotBF16 != nil:
		return On(s).dotBF16(dst, w.Halves, ld, x)
	}
	return false
}
