package kernels

import (
	"fmt"
	"math"
	"slices"
)

// ReduceOp is a reduction.
type ReduceOp uint8

// The reductions. NaN propagates through all of them. The reductions of no elements are 0, NaN, -Inf, +Inf, 1; for integers
// the infinities are the extreme values.
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

// Reduce reduces src of the given shape over axes in any order, without duplicates; without axes it copies. dst has the
// remaining dims. Floats are summed in float64; integers wrap; Mean of integers is not supported.
func Reduce[T Number](p *Pool, op ReduceOp, dst, src []T, shape, axes []int) {
	if op >= reduceCount || op == Mean && !isFloat[T]() {
		panic("BUG: reduce by " + op.String())
	}
	if isFloat[T]() {
		reduce[T, float64](p, op, dst, src, shape, axes)
	} else {
		reduce[T, int64](p, op, dst, src, shape, axes)
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

// reducing is the state of one reduction. It has the strides in src of reduced dims, and of dims that stay, but for those at the end.
type reducing[T, A Number] struct {
	dst, src                         []T
	f                                folding[T, A]
	keep, keepStride, cut, cutStride [maxRank]int
	kept, cuts                       int // dims
	inner, count                     int // elements of the dims at the end, and of the reduced dims
	run                              int // of count, how many are contiguous; then inner is 1

	all [reduceCount]folding[T, A] // made once
}

const reduceWidth = 64 // columns that are summed together

func reduce[T, A Number](p *Pool, op ReduceOp, dst, src []T, shape, axes []int) {
	g := keep[reducing[T, A]](p)
	if g.all[op].step == nil {
		g.all[op] = reduction[T, A](op)
	}
	g.dst, g.src, g.f = dst, src, g.all[op]
	g.kept, g.cuts, g.inner, g.count = 0, 0, 1, 1
	stride := product(shape)
	if len(src) < stride {
		panic("BUG: Reduce: src is short")
	}
	for i, d := range shape {
		if d != 0 {
			stride /= d
		}
		if slices.Contains(axes, i) {
			g.cut[g.cuts], g.cutStride[g.cuts] = d, stride
			g.cuts++
			g.count *= d
		} else {
			g.keep[g.kept], g.keepStride[g.kept] = d, stride
			g.kept++
		}
	}
	// The kept dims at the end become one run, whose elements are summed together, so that src is read in order.
	for ; g.kept > 0 && g.keepStride[g.kept-1] == g.inner; g.kept-- {
		g.inner *= g.keep[g.kept-1]
	}
	outer := product(g.keep[:g.kept])
	if len(dst) < outer*g.inner {
		panic("BUG: Reduce: dst is short")
	}
	g.run = 1
	if last := g.cuts - 1; g.inner == 1 && last >= 0 && g.cutStride[last] == 1 {
		g.run, g.cuts = g.cut[last], last
	}
	pieces := (g.inner + reduceWidth - 1) / reduceWidth
	p.share(outer*pieces, 1+elementGrain/max(1, g.count*min(g.inner, reduceWidth)), g)
}

func (g *reducing[T, A]) do(lo, hi, _ int) {
	var acc [reduceWidth]A
	pieces := (g.inner + reduceWidth - 1) / reduceWidth
	for t := lo; t < hi; t++ {
		o, c := t/pieces, t%pieces*reduceWidth
		n := min(reduceWidth, g.inner-c)
		at, rest := c, o
		for i := g.kept - 1; i >= 0; i-- {
			at += rest % g.keep[i] * g.keepStride[i]
			rest /= g.keep[i]
		}
		for i := range acc {
			acc[i] = g.f.start
		}
		var index [maxRank]int
		for done := 0; done < g.count; done += g.run {
			if g.run > 1 {
				a, step := acc[0], g.f.step
				for _, x := range g.src[at : at+g.run] {
					a = step(a, x)
				}
				acc[0] = a
			} else {
				for i, x := range g.src[at : at+n] {
					acc[i] = g.f.step(acc[i], x)
				}
			}
			for i := g.cuts - 1; i >= 0; i-- { // the next index of the reduced dims
				index[i]++
				at += g.cutStride[i]
				if index[i] < g.cut[i] {
					break
				}
				at -= g.cut[i] * g.cutStride[i]
				index[i] = 0
			}
		}
		for i := range n {
			g.dst[o*g.inner+c+i] = g.f.end(acc[i], g.count)
		}
	}
}
