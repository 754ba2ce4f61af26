package kernels

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/rlx-go/rlx/core/diag"
)

// BinaryOp is an elementwise function of two operands.
type BinaryOp uint8

// The binary functions. Max and Min give NaN if either operand is NaN. Integers wrap and divide towards zero.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div
	Max
	Min
	Pow // as math.Pow
	binaryCount
)

var binaryNames = [binaryCount]string{"add", "sub", "mul", "div", "max", "min", "pow"}

func (op BinaryOp) String() string {
	if op < binaryCount {
		return binaryNames[op]
	}
	return fmt.Sprintf("BinaryOp(%d)", uint8(op))
}

// ParseBinary finds a function by its name.
func ParseBinary(name string) (BinaryOp, bool) {
	for i, n := range binaryNames {
		if n == name {
			return BinaryOp(i), true
		}
	}
	return 0, false
}

// Number is the element types that can be computed with as they are stored; f16 and bf16 are cast first.
type Number interface{ Integer | float32 | float64 }

// Binary is dst = op(a, b) with NumPy broadcast; dst has the common shape, and may be a or b if that has the same shape.
// Integer division by zero is an error; dst is then undefined.
func Binary[T Number](p *Pool, op BinaryOp, dst, a []T, aShape []int, b []T, bShape []int) error {
	shape, ok := BroadcastShape(aShape, bShape)
	if !ok || len(dst) < product(shape) || len(a) < product(aShape) || len(b) < product(bShape) {
		panic(fmt.Sprintf("BUG: %v of %v and %v", op, aShape, bShape))
	}
	g := newGrid(shape, aShape, bShape)
	if d, ok := any(dst).([]float32); ok && p.isa.binary[op] != nil {
		x, y := any(a).([]float32), any(b).([]float32)
		g.rows(p, func(out int, at []int, n, _ int) {
			p.isa.binaryF32(op, d[out:out+n], x[at[0]:], y[at[1]:], g.step(0), g.step(1))
		})
		return nil
	}
	var bad atomic.Bool
	g.rows(p, func(out int, at []int, n, _ int) {
		if !binaryRow(op, dst[out:out+n], a[at[0]:], b[at[1]:], g.step(0), g.step(1)) {
			bad.Store(true)
		}
	})
	if bad.Load() {
		return diag.New(diag.DivisionByZero, op.String(), "integer division by zero; the divisor must not hold 0")
	}
	return nil
}

// binaryRow is one row; steps are 0 or 1. It reports false for an integer division by zero.
func binaryRow[T Number](op BinaryOp, dst, a, b []T, sa, sb int) bool {
	switch op {
	case Add:
		rowOp(dst, a, b, sa, sb, func(x, y T) T { return x + y })
	case Sub:
		rowOp(dst, a, b, sa, sb, func(x, y T) T { return x - y })
	case Mul:
		rowOp(dst, a, b, sa, sb, func(x, y T) T { return x * y })
	case Div:
		if isFloat[T]() {
			rowOp(dst, a, b, sa, sb, func(x, y T) T { return x / y })
			return true
		}
		for i := range dst {
			y := b[i*sb]
			if y == 0 {
				return false
			}
			dst[i] = a[i*sa] / y
		}
	case Max:
		rowOp(dst, a, b, sa, sb, func(x, y T) T {
			if x > y || x != x {
				return x
			}
			return y
		})
	case Min:
		rowOp(dst, a, b, sa, sb, func(x, y T) T {
			if x < y || x != x {
				return x
			}
			return y
		})
	case Pow:
		if isFloat[T]() {
			rowOp(dst, a, b, sa, sb, func(x, y T) T { return T(math.Pow(float64(x), float64(y))) })
			return true
		}
		for i := range dst {
			x, y := a[i*sa], b[i*sb]
			if x == 0 && y < 0 {
				return false
			}
			dst[i] = powInt(x, y)
		}
	default:
		panic("BUG: " + op.String())
	}
	return true
}

func isFloat[T Number]() bool {
	half := 0.5
	return T(half) != 0
}

func rowOp[T Number](dst, a, b []T, sa, sb int, f func(x, y T) T) {
	switch {
	case sa == 1 && sb == 1:
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = f(a[i], b[i])
		}
	case sb == 0 && sa == 1:
		y := b[0]
		a = a[:len(dst)]
		for i := range dst {
			dst[i] = f(a[i], y)
		}
	default:
		for i := range dst {
			dst[i] = f(a[i*sa], b[i*sb])
		}
	}
}

// powInt is x^y, wrapping; a negative power of anything but 1 and -1 is 0 (and x is not 0).
func powInt[T Number](x, y T) T {
	if y < 0 {
		switch {
		case x == 1:
			return 1
		case x+1 == 0:
			if int64(y)%2 == 0 {
				return 1
			}
			return x
		}
		return 0
	}
	r := T(1)
	for e := uint64(y); e > 0; e >>= 1 {
		if e&1 == 1 {
			r *= x
		}
		x *= x
	}
	return r
}

// CompareOp is a relation of two operands. NaN makes all of them false but Ne.
type CompareOp uint8

// The relations.
const (
	Eq CompareOp = iota
	Ne
	Lt
	Le
	Gt
	Ge
	compareCount
)

var compareNames = [compareCount]string{"eq", "ne", "lt", "le", "gt", "ge"}

func (op CompareOp) String() string {
	if op < compareCount {
		return compareNames[op]
	}
	return fmt.Sprintf("CompareOp(%d)", uint8(op))
}

// ParseCompare finds a relation by its name.
func ParseCompare(name string) (CompareOp, bool) {
	for i, n := range compareNames {
		if n == name {
			return CompareOp(i), true
		}
	}
	return 0, false
}

// Compare is dst = op(a, b), 1 or 0, with NumPy broadcast.
func Compare[T Number](p *Pool, op CompareOp, dst []uint8, a []T, aShape []int, b []T, bShape []int) {
	shape, ok := BroadcastShape(aShape, bShape)
	if !ok || len(dst) < product(shape) || op >= compareCount {
		panic(fmt.Sprintf("BUG: %v of %v and %v", op, aShape, bShape))
	}
	g := newGrid(shape, aShape, bShape)
	sa, sb := g.step(0), g.step(1)
	if x, ok := any(a).([]float32); ok {
		y, f := any(b).([]float32), p.isa.compare[op]
		g.rows(p, func(out int, at []int, n, _ int) {
			pieces(n, x[at[0]:], y[at[1]:], sa, sb, func(i int, a, b []float32) { f(dst[out+i:out+i+len(a)], a, b) })
		})
		return
	}
	g.rows(p, func(out int, at []int, n, _ int) { compareRow(op, dst[out:out+n], a[at[0]:], b[at[1]:], sa, sb) })
}

// compareRow is one row; steps are 0 or 1.
func compareRow[T Number](op CompareOp, dst []uint8, a, b []T, sa, sb int) {
	for i := range dst {
		dst[i] = truth(op, a[i*sa], b[i*sb])
	}
}

func truth[T Number | int](op CompareOp, x, y T) uint8 {
	var r bool
	switch op {
	case Eq:
		r = x == y
	case Ne:
		r = x != y
	case Lt:
		r = x < y
	case Le:
		r = x <= y
	case Gt:
		r = x > y
	case Ge:
		r = x >= y
	}
	if r {
		return 1
	}
	return 0
}

// Where is dst = t where cond is not 0, f elsewhere, with NumPy broadcast of all three. It selects and never computes, so T may be
// any type of the right size.
func Where[T any](p *Pool, dst []T, cond []uint8, cShape []int, t []T, tShape []int, f []T, fShape []int) {
	shape, ok := BroadcastShape(cShape, tShape, fShape)
	if !ok || len(dst) < product(shape) {
		panic(fmt.Sprintf("BUG: where of %v, %v and %v", cShape, tShape, fShape))
	}
	g := newGrid(shape, cShape, tShape, fShape)
	sc, st, sf := g.step(0), g.step(1), g.step(2)
	if d, ok := any(dst).([]float32); ok && sc == 1 {
		x, y := any(t).([]float32), any(f).([]float32)
		g.rows(p, func(out int, at []int, n, _ int) {
			c := cond[at[0]:]
			pieces(n, x[at[1]:], y[at[2]:], st, sf, func(i int, t, f []float32) { p.isa.choose(d[out+i:out+i+len(t)], c[i:i+len(t)], t, f) })
		})
		return
	}
	g.rows(p, func(out int, at []int, n, _ int) {
		whereRow(dst[out:out+n], cond[at[0]:], t[at[1]:], f[at[2]:], sc, st, sf)
	})
}

// whereRow is one row; steps are 0 or 1.
func whereRow[T any](dst []T, cond []uint8, t, f []T, sc, st, sf int) {
	for i := range dst {
		if cond[i*sc] != 0 {
			dst[i] = t[i*st]
		} else {
			dst[i] = f[i*sf]
		}
	}
}

// Expand repeats src of one shape to another that it broadcasts to.
func Expand[T any](p *Pool, dst []T, shape []int, src []T, srcShape []int) {
	g := newGrid(shape, srcShape)
	s := g.step(0)
	g.rows(p, func(out int, at []int, n, _ int) {
		d := dst[out : out+n]
		if s == 1 {
			copy(d, src[at[0]:])
			return
		}
		for i := range d {
			d[i] = src[at[0]]
		}
	})
}
