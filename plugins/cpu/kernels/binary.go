package kernels

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/diag"
)

// BinaryOp is an elementwise function of two operands.
type BinaryOp uint8

// The binary functions of all element types. Max and Min give NaN if either operand is NaN. Integers wrap and divide towards zero.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div
	Max
	Min
	Pow // as math.Pow
)

// binaryFunction describes a BinaryOp.
type binaryFunction struct {
	name string                     // that of the op
	f    func(x, y float64) float64 // the formula of a function of floats only; nil for those that integers have too
}

// binaries is indexed by BinaryOp. A new function of floats needs nothing but a line here; see functions.
var binaries = []binaryFunction{{name: "add"}, {name: "sub"}, {name: "mul"}, {name: "div"}, {name: "max"}, {name: "min"}, {name: "pow"}}

func (op BinaryOp) String() string {
	if int(op) < len(binaries) {
		return binaries[op].name
	}
	return fmt.Sprintf("BinaryOp(%d)", uint8(op))
}

// Binaries lists the functions that have registered.
func Binaries() []BinaryOp {
	var ops []BinaryOp
	for op := range binaries {
		ops = append(ops, BinaryOp(op))
	}
	return ops
}

// TakesIntegers reports whether the function is one of integers, too.
func (op BinaryOp) TakesIntegers() bool { return binaries[op].f == nil }

// ParseBinary finds a function by its name.
func ParseBinary(name string) (BinaryOp, bool) {
	for op, f := range binaries {
		if f.name == name {
			return BinaryOp(op), true
		}
	}
	return 0, false
}

// Integer constrains element types with wrapping arithmetic.
type Integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint32
}

// Number constrains element types that kernels compute with unconverted. f16 and bf16 are cast first.
type Number interface{ Integer | float32 | float64 }

// Binary is dst = op(a, b) with NumPy broadcast; dst has the common shape, and may be a or b if that has the same shape.
// Integer division by zero is an error; dst is then undefined.
func Binary[T Number](p *Pool, op BinaryOp, dst, a []T, aShape []int, b []T, bShape []int) error {
	g, n, ok := newGrid(aShape, bShape)
	if !ok || len(dst) < n || len(a) < product(aShape) || len(b) < product(bShape) {
		panic(fmt.Sprintf("BUG: %v of %v and %v", op, aShape, bShape))
	}
	if d, ok := any(dst).([]float32); ok {
		split(p, n, elementGrain, binaryVectors{p, g, p.isa.binary[op], d, any(a).([]float32), any(b).([]float32)})
		return nil
	}
	p.bad.Store(0)
	split(p, n, elementGrain, binaryRows[T]{p, g, op, dst, a, b})
	if p.bad.Load() != 0 {
		return diag.New(diag.DivisionByZero, op.String(), "integer division by zero; the divisor must not hold 0")
	}
	return nil
}

type binaryVectors struct {
	p         *Pool
	g         grid
	f         func(dst, a, b []float32)
	dst, a, b []float32
}

func (x *binaryVectors) do(lo, hi, worker int) {
	sa, sb, buf := x.g.step(0), x.g.step(1), x.p.scratch(worker).floats(2*spread)
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		pieces(n, x.a[at[0]:], x.b[at[1]:], sa, sb, buf, func(i int, a, b []float32) { x.f(x.dst[out+i:][:len(a)], a, b) })
	})
}

type binaryRows[T Number] struct {
	p         *Pool
	g         grid
	op        BinaryOp
	dst, a, b []T
}

func (x *binaryRows[T]) do(lo, hi, _ int) {
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		if !binaryRow(x.op, x.dst[out:out+n], x.a[at[0]:], x.b[at[1]:], x.g.step(0), x.g.step(1)) {
			x.p.bad.Store(1)
		}
	})
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
		f := binaries[op].f
		if !isFloat[T]() {
			panic("BUG: " + op.String() + " of integers")
		}
		rowOp(dst, a, b, sa, sb, func(x, y T) T { return T(f(float64(x), float64(y))) })
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

// CompareOp is a relation of two operands. If an operand is NaN, all but Ne are false.
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

// Compares lists the relations.
func Compares() []CompareOp { return []CompareOp{Eq, Ne, Lt, Le, Gt, Ge} }

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
	g, n, ok := newGrid(aShape, bShape)
	if !ok || len(dst) < n || op >= compareCount {
		panic(fmt.Sprintf("BUG: %v of %v and %v", op, aShape, bShape))
	}
	if x, ok := any(a).([]float32); ok {
		split(p, n, elementGrain, compareVectors{p, g, p.isa.compare[op], dst, x, any(b).([]float32)})
		return
	}
	split(p, n, elementGrain, compareRows[T]{g, op, dst, a, b})
}

type compareVectors struct {
	p    *Pool
	g    grid
	f    func(dst []uint8, a, b []float32)
	dst  []uint8
	a, b []float32
}

func (x *compareVectors) do(lo, hi, worker int) {
	sa, sb, buf := x.g.step(0), x.g.step(1), x.p.scratch(worker).floats(2*spread)
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		pieces(n, x.a[at[0]:], x.b[at[1]:], sa, sb, buf, func(i int, a, b []float32) { x.f(x.dst[out+i:][:len(a)], a, b) })
	})
}

type compareRows[T Number] struct {
	g    grid
	op   CompareOp
	dst  []uint8
	a, b []T
}

func (x *compareRows[T]) do(lo, hi, _ int) {
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		compareRow(x.op, x.dst[out:out+n], x.a[at[0]:], x.b[at[1]:], x.g.step(0), x.g.step(1))
	})
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

// Where is dst = t where cond is not 0, f elsewhere, with NumPy broadcast of all three. It only moves elements, so T may be any
// type of the right size.
func Where[T any](p *Pool, dst []T, cond []uint8, cShape []int, t []T, tShape []int, f []T, fShape []int) {
	g, n, ok := newGrid(cShape, tShape, fShape)
	if !ok || len(dst) < n {
		panic(fmt.Sprintf("BUG: where of %v, %v and %v", cShape, tShape, fShape))
	}
	if d, ok := any(dst).([]float32); ok && g.step(0) == 1 {
		split(p, n, elementGrain, whereVectors{p, g, d, cond, any(t).([]float32), any(f).([]float32)})
		return
	}
	split(p, n, elementGrain, whereRows[T]{g, dst, cond, t, f})
}

type whereVectors struct {
	p    *Pool
	g    grid
	dst  []float32
	cond []uint8
	t, f []float32
}

func (x *whereVectors) do(lo, hi, worker int) {
	st, sf, buf := x.g.step(1), x.g.step(2), x.p.scratch(worker).floats(2*spread)
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		pieces(n, x.t[at[1]:], x.f[at[2]:], st, sf, buf, func(i int, t, f []float32) {
			x.p.isa.choose(x.dst[out+i:][:len(t)], x.cond[at[0]+i:][:len(t)], t, f)
		})
	})
}

type whereRows[T any] struct {
	g    grid
	dst  []T
	cond []uint8
	t, f []T
}

func (x *whereRows[T]) do(lo, hi, _ int) {
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		whereRow(x.dst[out:out+n], x.cond[at[0]:], x.t[at[1]:], x.f[at[2]:], x.g.step(0), x.g.step(1), x.g.step(2))
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
	g, n, ok := newGrid(srcShape, shape) // the result counts as an operand, so that the common shape is its own
	if !ok || len(dst) < n || n != product(shape) {
		panic(fmt.Sprintf("BUG: expand of %v to %v", srcShape, shape))
	}
	split(p, n, elementGrain, expandRows[T]{g, dst, src})
}

type expandRows[T any] struct {
	g        grid
	dst, src []T
}

func (x *expandRows[T]) do(lo, hi, _ int) {
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		d := x.dst[out : out+n]
		if x.g.step(0) == 1 {
			copy(d, x.src[at[0]:])
			return
		}
		v := x.src[at[0]]
		for i := range d {
			d[i] = v
		}
	})
}
