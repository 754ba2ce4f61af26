package elementwise

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Cast converts elements. The slices have the types that store elements: []float32, []float64, []uint16 for f16 and
// bf16, []int8 to []int64, []uint32, and []uint8 for u8 and bool.
//
// Float to integer truncates towards zero and saturates; NaN becomes 0. Integer to integer wraps. Conversion to a float
// type rounds once, to nearest even, and overflows to infinity. To bool is x != 0; from bool is 0 or 1.
func Cast(p *pool.Pool, to dtype.DType, dst any, from dtype.DType, src any) {
	n := lenOf(src)
	if lenOf(dst) < n {
		panic("BUG: Cast: dst is short")
	}
	if n == 0 {
		return
	}
	switch f := p.Set; { // these have vector routines for any length
	case to == dtype.F32 && from == dtype.F16:
		pool.Split(p, n, pool.Grain, mapping[float32, uint16]{vec.On(f).WidenF16, dst.([]float32), src.([]uint16)})
	case to == dtype.F32 && from == dtype.BF16:
		pool.Split(p, n, pool.Grain, mapping[float32, uint16]{vec.On(f).WidenBF16, dst.([]float32), src.([]uint16)})
	case to == dtype.F16 && from == dtype.F32:
		pool.Split(p, n, pool.Grain, mapping[uint16, float32]{vec.On(f).NarrowF16, dst.([]uint16), src.([]float32)})
	case to == dtype.BF16 && from == dtype.F32:
		pool.Split(p, n, pool.Grain, mapping[uint16, float32]{vec.On(f).NarrowBF16, dst.([]uint16), src.([]float32)})
	default:
		pool.Split(p, n, pool.Grain, casting{p.Set, to, from, dst, src})
	}
}

// Widen converts elements of type from to floats, narrowTo does the opposite. They support the types of regions; see
// regionTypes.
func Widen(s *isa.Set, dst []float32, from dtype.DType, src []uint8) {
	switch from {
	case dtype.F16:
		vec.On(s).WidenF16(dst, pool.ElementsOf[uint16](src))
		return
	case dtype.BF16:
		vec.On(s).WidenBF16(dst, pool.ElementsOf[uint16](src))
		return
	}
	done := castVectors(s, dtype.F32, pool.Pointer(dst, 0), from, &src[0], len(dst))
	dst, src = dst[done:], src[done*from.Size():]
	switch from {
	case dtype.I8:
		convertAll(dst, pool.ElementsOf[int8](src))
	case dtype.U8:
		convertAll(dst, src)
	case dtype.I32:
		convertAll(dst, pool.ElementsOf[int32](src))
	case dtype.Bool:
		for i, x := range src {
			dst[i] = float32(min(x, 1))
		}
	}
}

func narrowTo(s *isa.Set, to dtype.DType, dst []uint8, src []float32) {
	switch to {
	case dtype.F16:
		vec.On(s).NarrowF16(pool.ElementsOf[uint16](dst), src)
		return
	case dtype.BF16:
		vec.On(s).NarrowBF16(pool.ElementsOf[uint16](dst), src)
		return
	}
	done := castVectors(s, to, &dst[0], dtype.F32, pool.Pointer(src, 0), len(src))
	dst, src = dst[done*to.Size():], src[done:]
	switch to {
	case dtype.I8:
		saturate(pool.ElementsOf[int8](dst), src, to)
	case dtype.U8:
		saturate(dst, src, to)
	case dtype.I32:
		saturate(pool.ElementsOf[int32](dst), src, to)
	case dtype.Bool:
		nonZero(dst, src)
	}
}

type casting struct {
	isa      *isa.Set
	to, from dtype.DType
	dst, src any
}

func (c *casting) Do(lo, hi, _ int) {
	lo += castVectors(c.isa, c.to, address(c.dst, lo), c.from, address(c.src, lo), hi-lo)
	if !c.direct(lo, hi) {
		c.blocks(lo, hi)
	}
}

// castRoutine converts whole vectors of elements.
type castRoutine = func(dst, src *uint8, blocks int)

// castRoutines are indexed by the types that they read and write.
type castRoutines [dtype.Bool + 1][dtype.Bool + 1]castRoutine

// affineRoutines compute (x - zero) * scale for whole vectors.
type affineRoutines struct {
	i8, u8 func(dst *float32, x *uint8, zero, scale *float32, blocks int)
}

// affineOf is dst = (x - zero) * scale for x of type i8 or u8. dst may be zero or scale.
func affineOf(s *isa.Set, dst []float32, from dtype.DType, x []uint8, zero, scale []float32) {
	done := 0
	if blocks := len(dst) / s.Lanes; On(s).affine != nil && blocks > 0 {
		f := On(s).affine.i8
		if from == dtype.U8 {
			f = On(s).affine.u8
		}
		done = blocks * s.Lanes
		_, _, _ = x[done-1], zero[done-1], scale[done-1]
		f(&dst[0], &x[0], &zero[0], &scale[0], blocks)
	}
	for i := done; i < len(dst); i++ {
		y := float32(x[i])
		if from == dtype.I8 {
			y = float32(int8(x[i]))
		}
		dst[i] = (y - zero[i]) * scale[i]
	}
}

// setCasts gives a set its routines of casts by their names, such as f32_i8 for a cast from f32 to i8.
func (s *Routines) setCasts(routines map[string]castRoutine, affine *affineRoutines) *Routines {
	s.affine = affine
	s.casts = &castRoutines{}
	found := 0
	for _, from := range dtype.All() {
		for _, to := range dtype.All() {
			if f := routines[from.String()+"_"+to.String()]; f != nil {
				s.casts[from][to] = f
				found++
			}
		}
	}
	if found != len(routines) {
		panic("BUG: an instruction set has a cast of an unknown type")
	}
	return s
}

// castVectors casts the whole vectors of n elements, if the set has a routine. It returns the number of elements that
// it has cast.
func castVectors(s *isa.Set, to dtype.DType, dst *uint8, from dtype.DType, src *uint8, n int) int {
	blocks := n / s.Lanes
	if On(s).casts == nil || On(s).casts[from][to] == nil || blocks == 0 {
		return 0
	}
	On(s).casts[from][to](dst, src, blocks)
	return blocks * s.Lanes
}

// direct converts elements one by one. It returns false if it cannot: for f16 and bf16, and from bool.
func (c *casting) direct(lo, hi int) bool {
	switch s := c.src.(type) {
	case []float32:
		return castFrom(c, s, lo, hi)
	case []float64:
		return castFrom(c, s, lo, hi)
	case []int8:
		return castFrom(c, s, lo, hi)
	case []int16:
		return castFrom(c, s, lo, hi)
	case []int32:
		return castFrom(c, s, lo, hi)
	case []int64:
		return castFrom(c, s, lo, hi)
	case []uint32:
		return castFrom(c, s, lo, hi)
	case []uint8:
		return c.from != dtype.Bool && castFrom(c, s, lo, hi)
	}
	return false
}

func castFrom[S Number](c *casting, s []S, lo, hi int) bool {
	s = s[lo:hi]
	switch d := c.dst.(type) {
	case []float32:
		convertAll(d[lo:hi], s)
	case []float64:
		convertAll(d[lo:hi], s)
	case []int8:
		castToIntegers(c, d[lo:hi], s)
	case []int16:
		castToIntegers(c, d[lo:hi], s)
	case []int32:
		castToIntegers(c, d[lo:hi], s)
	case []int64:
		castToIntegers(c, d[lo:hi], s)
	case []uint32:
		castToIntegers(c, d[lo:hi], s)
	case []uint8:
		castToIntegers(c, d[lo:hi], s)
	default:
		return false
	}
	return true
}

func castToIntegers[D Integer, S Number](c *casting, d []D, s []S) {
	switch {
	case c.to == dtype.Bool:
		nonZero(d, s)
	case c.from.IsFloat():
		saturate(d, s, c.to)
	default:
		convertAll(d, s)
	}
}

// convertAll is for conversions for which Go and Cast agree.
func convertAll[D, S Number](d []D, s []S) {
	s = s[:len(d)]
	for i := range d {
		d[i] = D(s[i])
	}
}

func nonZero[D Integer, S Number](d []D, s []S) {
	s = s[:len(d)]
	for i := range d {
		d[i] = 0
		if s[i] != 0 {
			d[i] = 1
		}
	}
}

// saturate converts floats to integers.
func saturate[D Integer, S Number](d []D, s []S, to dtype.DType) {
	least, most := to.IntRange()
	lo, hi := S(least), S(most) // S(most) may be rounded up, to a value that D does not have
	s = s[:len(d)]
	for i := range d {
		switch x := s[i]; {
		case x > lo && x < hi:
			d[i] = D(x)
		case x >= hi:
			d[i] = D(most)
		case x <= lo:
			d[i] = D(least)
		default: // NaN
			d[i] = 0
		}
	}
}

// blocks converts by way of float64 or int64, a block at a time.
func (c *casting) blocks(lo, hi int) {
	var f [256]float64
	var x [256]int64
	for lo < hi {
		m := min(hi-lo, len(f))
		if c.from.IsFloat() {
			loadFloats(f[:m], c.from, c.src, lo)
			storeFloats(c.to, c.dst, lo, f[:m])
		} else {
			loadInts(x[:m], c.from, c.src, lo)
			storeInts(c.to, c.dst, lo, x[:m])
		}
		lo += m
	}
}

func lenOf(s any) int {
	n, _ := elementsAt(s, -1)
	return n
}

// address returns the address of element i of a slice.
func address(s any, i int) *uint8 {
	_, p := elementsAt(s, i)
	return p
}

// elementsAt returns the number of elements of a slice, and the address of element i unless i is negative.
func elementsAt(s any, i int) (int, *uint8) {
	switch s := s.(type) {
	case []float32:
		return len(s), pool.Pointer(s, i)
	case []float64:
		return len(s), pool.Pointer(s, i)
	case []uint16:
		return len(s), pool.Pointer(s, i)
	case []int8:
		return len(s), pool.Pointer(s, i)
	case []int16:
		return len(s), pool.Pointer(s, i)
	case []int32:
		return len(s), pool.Pointer(s, i)
	case []int64:
		return len(s), pool.Pointer(s, i)
	case []uint8:
		return len(s), pool.Pointer(s, i)
	case []uint32:
		return len(s), pool.Pointer(s, i)
	}
	panic(fmt.Sprintf("BUG: Cast of %T", s))
}

// loadFloats widens elements exactly.
func loadFloats(f []float64, from dtype.DType, src any, at int) {
	switch s := src.(type) {
	case []float64:
		copy(f, s[at:])
	case []uint16:
		one := dtype.F16ToF32
		if from == dtype.BF16 {
			one = dtype.BF16ToF32
		}
		for i := range f {
			f[i] = float64(one(s[at+i]))
		}
	}
}

func storeFloats(to dtype.DType, dst any, at int, f []float64) {
	switch d := dst.(type) {
	case []float64:
		copy(d[at:], f)
	case []uint16:
		for i, x := range f {
			d[at+i] = Narrow(to, x)
		}
	default:
		lo, hi := to.IntRange()
		var x [256]int64
		for i, v := range f {
			switch {
			case to == dtype.Bool:
				if v != 0 {
					x[i] = 1
				}
			case v != v: // 0
			case v >= float64(hi): // float64(hi) may be rounded up to 2^63, which saturates
				x[i] = hi
			case v <= float64(lo):
				x[i] = lo
			default:
				x[i] = int64(v)
			}
		}
		storeInts(to, dst, at, x[:len(f)])
	}
}

// Narrow rounds x to a 16-bit float, given as bits.
func Narrow(to dtype.DType, x float64) uint16 {
	if to == dtype.BF16 {
		return dtype.F64ToBF16(x)
	}
	return dtype.F64ToF16(x)
}

func loadInts(x []int64, from dtype.DType, src any, at int) {
	switch s := src.(type) {
	case []int8:
		widenInts(x, s[at:])
	case []int16:
		widenInts(x, s[at:])
	case []int32:
		widenInts(x, s[at:])
	case []int64:
		copy(x, s[at:])
	case []uint32:
		widenInts(x, s[at:])
	case []uint8:
		widenInts(x, s[at:])
		if from == dtype.Bool {
			for i := range x {
				x[i] = min(x[i], 1)
			}
		}
	}
}

func widenInts[T Integer](x []int64, s []T) {
	for i := range x {
		x[i] = int64(s[i])
	}
}

func wrapInts[T Integer](d []T, x []int64) {
	for i, v := range x {
		d[i] = T(v)
	}
}

func storeInts(to dtype.DType, dst any, at int, x []int64) {
	switch d := dst.(type) {
	case []float32:
		for i, v := range x {
			d[at+i] = float32(v)
		}
	case []float64:
		for i, v := range x {
			d[at+i] = float64(v)
		}
	case []uint16:
		for i, v := range x {
			f := float64(v)
			// more than 53 bits: a sticky bit keeps the second rounding correct
			if int64(f) != v && math.Abs(f) < 1<<63 {
				f = float64(v&^0x7ff | 0x400)
			}
			d[at+i] = Narrow(to, f)
		}
	case []int8:
		wrapInts(d[at:], x)
	case []int16:
		wrapInts(d[at:], x)
	case []int32:
		wrapInts(d[at:], x)
	case []int64:
		copy(d[at:], x)
	case []uint32:
		wrapInts(d[at:], x)
	case []uint8:
		if to == dtype.Bool {
			for i, v := range x {
				d[at+i] = 0
				if v != 0 {
					d[at+i] = 1
				}
			}
			return
		}
		wrapInts(d[at:], x)
	}
}
