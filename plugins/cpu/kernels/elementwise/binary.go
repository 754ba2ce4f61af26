package elementwise

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// BinaryOp is an elementwise function of two operands.
type BinaryOp uint8

// The binary functions. Max and Min give NaN if either operand is NaN. Integers wrap, and division rounds towards zero.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div
	Max
	Min
	Pow        // as math.Pow
	Remainder  // has the sign of the dividend
	Mod        // has the sign of the divisor
	And        // And, Or and Xor take bools, or integers bit by bit
	Or         //
	Xor        //
	ShiftLeft  // shifts take integers
	ShiftRight //
)

// binaryFunction describes a BinaryOp.
type binaryFunction struct {
	name        string                     // the op's
	f           func(x, y float64) float64 // the formula for floats; nil: it does not take floats
	ints, bools bool                       // whether it takes integers and bools
}

// binaries is indexed by BinaryOp. To add a function of floats, add a constant above and a line here; see functions in
// unary.go.
var binaries = []binaryFunction{
	{"add", formula2("add"), true, false},
	{"sub", formula2("sub"), true, false},
	{"mul", formula2("mul"), true, false},
	{"div", formula2("div"), true, false},
	{"max", formula2("max"), true, false},
	{"min", formula2("min"), true, false},
	{"pow", formula2("pow"), true, false},
	{"remainder", remainder64, true, false}, // faster than the definitions
	{"mod", mod64, true, false},
	{"and", nil, true, true},
	{"or", nil, true, true},
	{"xor", nil, true, true},
	{"shift_left", nil, true, false},
	{"shift_right", nil, true, false},
}

// remainder64 is math.Mod, but faster if x and y are exact float32 and their quotient has few bits: then quotient times
// y is exact.
func remainder64(x, y float64) float64 {
	if q := math.Trunc(x / y); math.Abs(q) < 1<<29 && float64(float32(x)) == x && float64(float32(y)) == y {
		r := x - float64(q*y)
		if r != 0 && r < 0 != (x < 0) { // rounding x/y up made q too large by 1
			r += math.Copysign(y, x)
		}
		if r == r { // r is NaN if y is infinite
			return math.Copysign(r, x)
		}
	}
	return math.Mod(x, y)
}

func mod64(x, y float64) float64 {
	r := remainder64(x, y)
	if r != 0 && r < 0 != (y < 0) {
		r += y
	}
	return r
}

func (op BinaryOp) String() string {
	if int(op) < len(binaries) {
		return binaries[op].name
	}
	return fmt.Sprintf("BinaryOp(%d)", uint8(op))
}

// Binaries lists the binary functions.
func Binaries() []BinaryOp {
	var ops []BinaryOp
	for op := range binaries {
		ops = append(ops, BinaryOp(op))
	}
	return ops
}

// TakesFloats reports whether the function takes floats.
func (op BinaryOp) TakesFloats() bool { return binaries[op].f != nil }

// TakesIntegers reports whether the function takes integers.
func (op BinaryOp) TakesIntegers() bool { return binaries[op].ints }

// TakesBools reports whether the function takes bools. Logical computes it.
func (op BinaryOp) TakesBools() bool { return binaries[op].bools }

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

// Number constrains the element types in which kernels compute. f16 and bf16 are cast first.
type Number interface{ Integer | float32 | float64 }

// Binary is dst = op(a, b) with NumPy broadcast. dst has the common shape, and may be a or b if that has the same
// shape. Integer division by zero is an error; dst is then undefined.
func Binary[T Number](p *pool.Pool, op BinaryOp, dst, a []T, aShape []int, b []T, bShape []int) error {
	g, n, ok := newGrid(aShape, bShape)
	if !ok || len(dst) < n || len(a) < Elements(aShape) || len(b) < Elements(bShape) {
		panic(fmt.Sprintf("BUG: %v of %v and %v", op, aShape, bShape))
	}
	if d, ok := any(dst).([]float32); ok {
		x, y := any(a).([]float32)[:Elements(aShape)], any(b).([]float32)[:Elements(bShape)]
		v := binaryVectors{newOutput(p, op <= Min, d[:n], x, y), g, On(p.Set).Binary[op], x, y}
		if k := g.eachRow(len(x), len(y)); k >= 0 && (op == Mul || op == Add) && On(p.Set).mulAddRows != nil {
			pool.Split(p, n, pool.Grain, rowNumbers{v, k, op})
			return nil
		}
		pool.Split(p, n, pool.Grain, v)
		return nil
	}
	switch d := any(dst).(type) {
	case []float64:
		pool.Split(p, n, pool.Grain, binaryRows{g, op, d, any(a).([]float64), any(b).([]float64)})
	case []int8:
		return binaryInteger(p, op, g, n, d, any(a).([]int8), any(b).([]int8))
	case []int16:
		return binaryInteger(p, op, g, n, d, any(a).([]int16), any(b).([]int16))
	case []int32:
		return binaryInteger(p, op, g, n, d, any(a).([]int32), any(b).([]int32))
	case []int64:
		return binaryInteger(p, op, g, n, d, any(a).([]int64), any(b).([]int64))
	case []uint8:
		return binaryInteger(p, op, g, n, d, any(a).([]uint8), any(b).([]uint8))
	case []uint32:
		return binaryInteger(p, op, g, n, d, any(a).([]uint32), any(b).([]uint32))
	}
	return nil
}

type binaryVectors struct {
	output[float32]
	g    grid
	f    func(dst, a, b []float32)
	a, b []float32
}

func (x *binaryVectors) Do(lo, hi, worker int) {
	sa, sb, buf := x.g.step(0), x.g.step(1), x.p.Scratch(worker).Floats(2*Spread)
	if k := x.g.shortRows(len(x.a), len(x.b)); k >= 0 {
		x.each(lo, hi, worker, func(dst []float32, lo, hi int) { x.spread(dst, lo, hi, k, buf[:Spread]) })
		return
	}
	if k := x.g.sameRow(len(x.a), len(x.b)); k >= 0 {
		x.each(lo, hi, worker, func(dst []float32, lo, hi int) { x.tile(dst, lo, hi, k, buf) })
		return
	}
	if x.g.short() {
		x.each(lo, hi, worker, func(dst []float32, lo, hi int) { x.spreadBoth(dst, lo, hi, buf) })
		return
	}
	x.each(lo, hi, worker, func(dst []float32, lo, hi int) {
		x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
			pieces(n, x.a[at[0]:], x.b[at[1]:], sa, sb, buf, func(i int, a, b []float32) {
				x.f(dst[out-lo+i:][:len(a)], a, b)
			})
		})
	})
}

// spread computes elements [lo, hi) if shortRows has returned k.
func (x *binaryVectors) spread(dst []float32, lo, hi, k int, buf []float32) {
	for ; lo < hi; lo += len(buf) {
		buf = buf[:min(len(buf), hi-lo)]
		to := dst[:len(buf)]
		dst = dst[len(buf):]
		if k == 0 {
			x.g.spreadRows(buf, x.a, k, lo)
			x.f(to, buf, x.b[lo:][:len(buf)])
		} else {
			x.g.spreadRows(buf, x.b, k, lo)
			x.f(to, x.a[lo:][:len(buf)], buf)
		}
	}
}

// tile computes elements [lo, hi) if sameRow has returned k. It repeats a row in buf once for all that use it.
func (x *binaryVectors) tile(dst []float32, lo, hi, k int, buf []float32) {
	src := x.a
	if k == 1 {
		src = x.b
	}
	last := x.g.rank - 1
	row := x.g.dims[last]
	group := row * x.g.dims[last-1] // elements that use the same row
	for lo < hi {
		at, col, end := 0, lo%row, min(hi, (lo/group+1)*group)
		for i, r := last-2, lo/group; i >= 0; i-- {
			at += r % x.g.dims[i] * x.g.strides[k][i]
			r /= x.g.dims[i]
		}
		most := min((len(buf)/row-1)*row, end-lo)
		tiled := buf[:col+most]
		for n := copy(tiled, src[at:at+row]); n < len(tiled); n *= 2 {
			copy(tiled[n:], tiled[:n])
		}
		for lo < end {
			n := min(most, end-lo)
			if k == 0 {
				x.f(dst[:n], tiled[col:][:n], x.b[lo:][:n])
			} else {
				x.f(dst[:n], x.a[lo:][:n], tiled[col:][:n])
			}
			dst, lo = dst[n:], lo+n
		}
	}
}

// spreadBoth computes elements [lo, hi) of short rows.
func (x *binaryVectors) spreadBoth(dst []float32, lo, hi int, buf []float32) {
	for n := 0; lo < hi; lo += n {
		n = min(Spread, hi-lo)
		a, b := buf[:n], buf[Spread:][:n]
		x.g.spreadRows(a, x.a, 0, lo)
		x.g.spreadRows(b, x.b, 1, lo)
		x.f(dst[:n], a, b)
		dst = dst[n:]
	}
}

type binaryRows struct {
	g         grid
	op        BinaryOp
	dst, a, b []float64
}

func (x *binaryRows) Do(lo, hi, _ int) {
	sa, sb := x.g.step(0), x.g.step(1)
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		binaryRow(x.op, x.dst[out:out+n], x.a[at[0]:], x.b[at[1]:], sa, sb)
	})
}

// binaryRow computes one row. The steps sa and sb are 1, or 0 if the operand repeats its first element.
func binaryRow[T float32 | float64](op BinaryOp, dst, a, b []T, sa, sb int) {
	f := binaries[op].f
	for i := range dst {
		dst[i] = T(f(float64(a[i*sa]), float64(b[i*sb])))
	}
}

// powInt is x^y and wraps. A negative power of anything but 1 and -1 rounds to 0. The caller rejects negative powers
// of 0.
func powInt[T Integer](x, y T) T {
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

// Expand repeats src, of srcShape, to the shape of dst, to which it broadcasts.
func Expand[T any](p *pool.Pool, dst []T, shape []int, src []T, srcShape []int) {
	g, n, ok := newGrid(srcShape, shape) // shape counts as an operand, so that it is the common shape
	if !ok || len(dst) < n || n != Elements(shape) {
		panic(fmt.Sprintf("BUG: expand of %v to %v", srcShape, shape))
	}
	pool.Split(p, n, pool.Grain, expandRows[T]{g, dst, src})
}

type expandRows[T any] struct {
	g        grid
	dst, src []T
}

func (x *expandRows[T]) Do(lo, hi, _ int) {
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		copyOrFill(x.dst[out:out+n], x.src[at[0]:], x.g.step(0))
	})
}

func IsFloat[T Number]() bool {
	half := 0.5
	return T(half) != 0
}

// Larger returns the larger of two numbers, NaN if one is NaN.
func Larger[A Number](a, b A) A {
	if b > a || b != b {
		return b
	}
	return a
}

// Lowest returns -Inf, or the least integer of a type.
func Lowest[T Number]() T {
	if IsFloat[T]() {
		inf := math.Inf(-1)
		return T(inf)
	}
	var least int64
	switch any(T(0)).(type) {
	case int8:
		least = math.MinInt8
	case int16:
		least = math.MinInt16
	case int32:
		least = math.MinInt32
	case int64:
		least = math.MinInt64
	}
	return T(least)
}

// Highest returns +Inf, or the largest integer of a type.
func Highest[T Number]() T {
	low := Lowest[T]()
	if IsFloat[T]() {
		return -low
	}
	return -(low + 1) // holds for signed and, since it wraps, for unsigned integers
}
