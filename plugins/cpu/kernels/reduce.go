package kernels

import (
	"fmt"
	"math"
	"slices"
)

// ReduceOp is a reduction.
type ReduceOp uint8

// The reductions. NaN propagates through all of them. Over nothing: 0, NaN, -Inf, +Inf, 1 (the extreme values for integers).
const (
	Sum ReduceOp = iota
	Mean
	ReduceMax
	ReduceMin
	Prod
	reduceCount
)

var reduceNames = [reduceCount]string{"sum", "mean", "max", "min", "prod"}

func (op ReduceOp) String() string {
	if op < reduceCount {
		return reduceNames[op]
	}
	return fmt.Sprintf("ReduceOp(%d)", uint8(op))
}

// ParseReduce finds a reduction by its name.
func ParseReduce(name string) (ReduceOp, bool) {
	for i, n := range reduceNames {
		if n == name {
			return ReduceOp(i), true
		}
	}
	return 0, false
}

// Reduce reduces src of the given shape over axes (any set, ascending or not, without duplicates; none copies). Dst has the
// remaining dims. Floats are summed in float64; integers wrap; Mean of integers has no meaning here.
func Reduce[T Number](p *Pool, op ReduceOp, dst, src []T, shape, axes []int) {
	if op >= reduceCount || op == Mean && !isFloat[T]() {
		panic("BUG: reduce by " + op.String())
	}
	if isFloat[T]() {
		reduce(p, dst, src, shape, axes, reduction[T, float64](op))
	} else {
		reduce(p, dst, src, shape, axes, reduction[T, int64](op))
	}
}

// folding is a reduction as a fold of accumulators of type A.
type folding[T, A Number] struct {
	start A
	step  func(a A, x T) A
	end   func(a A, n int) T
}

func reduction[T, A Number](op ReduceOp) folding[T, A] {
	f := folding[T, A]{end: func(a A, _ int) T { return T(a) }}
	switch op {
	case Sum:
		f.step = func(a A, x T) A { return a + A(x) }
	case Mean:
		f.step = func(a A, x T) A { return a + A(x) }
		f.end = func(a A, n int) T { return T(a / A(n)) }
	case Prod:
		f.start = 1
		f.step = func(a A, x T) A { return a * A(x) }
	case ReduceMax:
		f.start = lowest[T, A]()
		f.step = func(a A, x T) A {
			if y := A(x); y > a || y != y {
				return y
			}
			return a
		}
	case ReduceMin:
		f.start = highest[T, A]()
		f.step = func(a A, x T) A {
			if y := A(x); y < a || y != y {
				return y
			}
			return a
		}
	}
	return f
}

func lowest[T, A Number]() A {
	var x any = T(0)
	switch x.(type) {
	case int8:
		x = int64(math.MinInt8)
	case int16:
		x = int64(math.MinInt16)
	case int32:
		x = int64(math.MinInt32)
	case int64:
		x = int64(math.MinInt64)
	case uint8, uint32:
		x = int64(0)
	default:
		return A(math.Inf(-1))
	}
	return A(x.(int64))
}

func highest[T, A Number]() A {
	var x any = T(0)
	switch x.(type) {
	case int8:
		x = int64(math.MaxInt8)
	case int16:
		x = int64(math.MaxInt16)
	case int32:
		x = int64(math.MaxInt32)
	case int64:
		x = int64(math.MaxInt64)
	case uint8:
		x = int64(math.MaxUint8)
	case uint32:
		x = int64(math.MaxUint32)
	default:
		return A(math.Inf(1))
	}
	return A(x.(int64))
}

func reduce[T, A Number](p *Pool, dst, src []T, shape, axes []int, f folding[T, A]) {
	var keep, keepStride, cut, cutStride []int
	stride := product(shape)
	if len(src) < stride {
		panic("BUG: Reduce: src is short")
	}
	count := 1
	for i, d := range shape {
		if d != 0 {
			stride /= d
		}
		if slices.Contains(axes, i) {
			cut, cutStride = append(cut, d), append(cutStride, stride)
			count *= d
		} else {
			keep, keepStride = append(keep, d), append(keepStride, stride)
		}
	}
	// The kept dims at the end, as one run: their sums advance side by side, so that src is read in order.
	inner := 1
	for n := len(keep); n > 0 && keepStride[n-1] == inner; n-- {
		inner *= keep[n-1]
		keep, keepStride = keep[:n-1], keepStride[:n-1]
	}
	outer := product(keep)
	if len(dst) < outer*inner {
		panic("BUG: Reduce: dst is short")
	}
	const width = 64
	pieces := (inner + width - 1) / width
	p.split(outer*pieces, 1+elementGrain/max(1, count*min(inner, width)), func(lo, hi, _ int) {
		var acc [width]A
		index := make([]int, len(cut))
		for t := lo; t < hi; t++ {
			o, c := t/pieces, t%pieces*width
			n := min(width, inner-c)
			at, rest := c, o
			for i := len(keep) - 1; i >= 0; i-- {
				at += rest % keep[i] * keepStride[i]
				rest /= keep[i]
			}
			for i := range acc {
				acc[i] = f.start
			}
			clear(index)
			for range count {
				for i, x := range src[at : at+n] {
					acc[i] = f.step(acc[i], x)
				}
				for i := len(cut) - 1; i >= 0; i-- { // the next index of the reduced dims
					index[i]++
					at += cutStride[i]
					if index[i] < cut[i] {
						break
					}
					at -= cut[i] * cutStride[i]
					index[i] = 0
				}
			}
			for i := range n {
				dst[o*inner+c+i] = f.end(acc[i], count)
			}
		}
	})
}
