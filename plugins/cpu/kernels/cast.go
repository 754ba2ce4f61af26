package kernels

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// Cast converts elements. Slices hold the storage form: []float32, []float64, []uint16 for f16 and bf16, []int8 to []int64, []uint32,
// []uint8 for u8 and bool. Float to integer truncates towards zero and saturates, NaN becomes 0; to bool is x != 0; bool reads
// as 0 or 1; float narrowing rounds once to nearest even, overflow to infinity; integer to integer wraps; integer to float
// rounds to nearest even.
func Cast(p *Pool, to dtype.DType, dst any, from dtype.DType, src any) {
	n := lenOf(src)
	if lenOf(dst) < n {
		panic("BUG: Cast: dst is short")
	}
	if x, ok := src.([]uint16); ok && to == dtype.F32 { // weights and activations: worth a vector routine
		widen := p.isa.widenF16
		if from == dtype.BF16 {
			widen = p.isa.widenBF16
		}
		split(p, n, elementGrain, mapping[float32, uint16]{widen, dst.([]float32), x})
		return
	}
	split(p, n, elementGrain, casting{to, from, dst, src})
}

type casting struct {
	to, from dtype.DType
	dst, src any
}

func (c *casting) do(lo, hi, _ int) {
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
	switch s := s.(type) {
	case []float32:
		return len(s)
	case []float64:
		return len(s)
	case []uint16:
		return len(s)
	case []int8:
		return len(s)
	case []int16:
		return len(s)
	case []int32:
		return len(s)
	case []int64:
		return len(s)
	case []uint8:
		return len(s)
	case []uint32:
		return len(s)
	}
	panic(fmt.Sprintf("BUG: Cast of %T", s))
}

// loadFloats widens elements exactly.
func loadFloats(f []float64, from dtype.DType, src any, at int) {
	switch s := src.(type) {
	case []float32:
		for i := range f {
			f[i] = float64(s[at+i])
		}
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
	case []float32:
		for i, x := range f {
			d[at+i] = float32(x)
		}
	case []float64:
		copy(d[at:], f)
	case []uint16:
		for i, x := range f {
			d[at+i] = narrow(to, x)
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
			case v >= float64(hi): // float64(hi) may have been rounded up: 2^63 and above saturate
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

// narrow rounds to a 16-bit float.
func narrow(to dtype.DType, x float64) uint16 {
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
			if int64(f) != v && math.Abs(f) < 1<<63 { // beyond 53 bits: keep a sticky bit
				f = float64(v&^0x7ff | 0x400)
			}
			d[at+i] = narrow(to, f)
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
