package elementwise

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Functions of integers. The loops in Go contain no function calls. Routines of the instruction set compute whole
// vectors, if it has them.

// integerUnaries lists the unary functions of integers by the names of their ops. All wrap.
var integerUnaries = []string{"neg", "abs", "sign", "square", "relu", "not"}

// IntegerUnaries lists the unary functions of integers.
func IntegerUnaries() []string { return integerUnaries }

// UnaryInteger is dst[i] = op(src[i]) for an op that IntegerUnaries lists. dst may be src.
func UnaryInteger[T Integer](p *pool.Pool, op string, dst, src []T) {
	pool.Split(p, len(src), pool.Grain, integerRows[T]{p.Set, op, dst[:len(src)], src})
}

type integerRows[T Integer] struct {
	isa      *isa.Set
	op       string
	dst, src []T
}

func (x *integerRows[T]) Do(lo, hi, _ int) {
	dst, src := x.dst[lo:hi], x.src[lo:hi]
	switch x.op {
	case "neg":
		for i, v := range src {
			dst[i] = -v
		}
	case "abs":
		for i, v := range src {
			if v < 0 {
				v = -v
			}
			dst[i] = v
		}
	case "sign":
		for i, v := range src {
			dst[i] = T(Bit(v > 0)) - T(Bit(v < 0))
		}
	case "square":
		for i, v := range src {
			dst[i] = v * v
		}
	case "relu":
		for i, v := range src {
			dst[i] = max(v, 0)
		}
	case "not":
		On(x.isa).bits[bitNot](pool.BytesOf(dst), pool.BytesOf(src), pool.BytesOf(src))
	default:
		panic("BUG: " + x.op + " is not a function of integers")
	}
}

// integerRoutine computes a binary function for whole vectors of integers. zeros is not 0 if an element of b is 0.
type integerRoutine = func(dst, a, b *uint8, blocks int) (zeros int)

// integerFunction is the function that an integerRoutine computes, and its element type.
type integerFunction struct {
	op   BinaryOp
	kind dtype.DType
}

// setIntegers gives a set its routines of 32-bit integers by their names, such as shift_left_u32.
func (s *Routines) setIntegers(routines map[string]integerRoutine) *Routines {
	s.integers = map[integerFunction]integerRoutine{}
	for _, op := range Binaries() {
		for _, d := range []dtype.DType{dtype.I32, dtype.U32} {
			if f := routines[op.String()+"_"+d.String()]; f != nil {
				s.integers[integerFunction{op, d}] = f
			}
		}
	}
	if len(s.integers) != len(routines) {
		panic("BUG: an instruction set has a routine of integers that is not an op")
	}
	return s
}

// integerRoutineOf returns the set's routine for elements of type T, or nil.
func integerRoutineOf[T Integer](s *isa.Set, op BinaryOp) integerRoutine {
	switch any(T(0)).(type) {
	case int32:
		return On(s).integers[integerFunction{op, dtype.I32}]
	case uint32:
		return On(s).integers[integerFunction{op, dtype.U32}]
	}
	return nil
}

// binaryIntegers computes one row. It returns false for a division by zero.
func binaryIntegers[T Integer](s *isa.Set, op BinaryOp, dst, a, b []T) bool {
	a, b = a[:len(dst)], b[:len(dst)]
	width := uint64(8 * unsafe.Sizeof(dst[0]))
	switch op {
	case Add:
		for i, x := range a {
			dst[i] = x + b[i]
		}
	case Sub:
		for i, x := range a {
			dst[i] = x - b[i]
		}
	case Mul:
		for i, x := range a {
			dst[i] = x * b[i]
		}
	case Max:
		for i, x := range a {
			dst[i] = max(x, b[i])
		}
	case Min:
		for i, x := range a {
			dst[i] = min(x, b[i])
		}
	case And:
		On(s).bits[bitAnd](pool.BytesOf(dst), pool.BytesOf(a), pool.BytesOf(b))
	case Or:
		On(s).bits[bitOr](pool.BytesOf(dst), pool.BytesOf(a), pool.BytesOf(b))
	case Xor:
		On(s).bits[bitXor](pool.BytesOf(dst), pool.BytesOf(a), pool.BytesOf(b))
	case ShiftLeft: // as in Go, a shift by the width or more loses all bits
		for i, x := range a {
			dst[i] = x << shiftBy(b[i], width)
		}
	case ShiftRight:
		for i, x := range a {
			dst[i] = x >> shiftBy(b[i], width)
		}
	default:
		return partialIntegers(op, dst, a, b)
	}
	return true
}

// partialIntegers is binaryIntegers for the functions that have no value for some operands, such as 0 as a divisor.
func partialIntegers[T Integer](op BinaryOp, dst, a, b []T) bool {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case Div:
		for i, x := range a {
			if b[i] == 0 {
				return false
			}
			dst[i] = x / b[i]
		}
	case Remainder:
		for i, x := range a {
			if b[i] == 0 {
				return false
			}
			dst[i] = x % b[i]
		}
	case Mod:
		for i, x := range a {
			y := b[i]
			if y == 0 {
				return false
			}
			r := x % y
			// without a branch, which would be mispredicted half of the time
			dst[i] = r + y&-T(Bit(r != 0)&Bit(r < 0 != (y < 0)))
		}
	case Pow:
		for i, x := range a {
			if x == 0 && b[i] < 0 {
				return false
			}
			dst[i] = powInt(x, b[i])
		}
	default:
		panic("BUG: " + op.String() + " is not a function of integers")
	}
	return true
}

// shiftBy returns the number of places to shift by. A negative count shifts out all bits.
func shiftBy[T Integer](n T, width uint64) uint64 {
	if n < 0 {
		return width
	}
	return uint64(n)
}

// binaryInts is Binary for integers.
type binaryInts[T Integer] struct {
	p         *pool.Pool
	g         grid
	op        BinaryOp
	vectors   integerRoutine // or nil
	dst, a, b []T
}

func (x *binaryInts[T]) Do(lo, hi, worker int) {
	sa, sb := x.g.step(0), x.g.step(1)
	buf := scratchOf[T](x.p.Scratch(worker), 2*Spread)
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		pieces(n, x.a[at[0]:], x.b[at[1]:], sa, sb, buf, func(i int, a, b []T) {
			dst, zeros := x.dst[out+i:][:len(a)], 0
			if n := len(a) / x.p.Set.Lanes; x.vectors != nil && n > 0 {
				zeros = x.vectors(pool.Pointer(dst, 0), pool.Pointer(a, 0), pool.Pointer(b, 0), n)
				if !x.op.divides() {
					zeros = 0
				}
				n *= x.p.Set.Lanes
				dst, a, b = dst[n:], a[n:], b[n:]
			}
			if zeros != 0 || !binaryIntegers(x.p.Set, x.op, dst, a, b) {
				x.p.Bad.Store(1)
			}
		})
	})
}

// divides reports whether the function on integers fails if operand 1 is 0.
func (op BinaryOp) divides() bool { return op == Div || op == Remainder || op == Mod }

// scratchOf returns n elements of scratch memory.
func scratchOf[T Integer](s *pool.Scratch, n int) []T {
	var t T
	f := s.Floats((n*int(unsafe.Sizeof(t)) + 3) / 4)
	return unsafe.Slice((*T)(unsafe.Pointer(&f[0])), n)
}

// binaryInteger is Binary for integers.
func binaryInteger[T Integer](p *pool.Pool, op BinaryOp, g grid, n int, dst, a, b []T) error {
	p.Bad.Store(0)
	pool.Split(p, n, pool.Grain, binaryInts[T]{p, g, op, integerRoutineOf[T](p.Set, op), dst, a, b})
	if p.Bad.Load() != 0 {
		return diag.New(code.Division, "", "divisor is 0")
	}
	return nil
}

// Logical is dst = op(a, b) for bools with NumPy broadcast; op is And, Or or Xor. Any byte but 0 is true.
func Logical(p *pool.Pool, op BinaryOp, dst, a []uint8, aShape []int, b []uint8, bShape []int) {
	g, n, ok := newGrid(aShape, bShape)
	if !ok || len(dst) < n {
		panic(fmt.Sprintf("BUG: %v of %v and %v", op, aShape, bShape))
	}
	pool.Split(p, n, pool.Grain, logicalRows{p, g, op, dst, a, b})
}

type logicalRows struct {
	p         *pool.Pool
	g         grid
	op        BinaryOp
	dst, a, b []uint8
}

func (x *logicalRows) Do(lo, hi, worker int) {
	sa, sb := x.g.step(0), x.g.step(1)
	buf := x.p.Scratch(worker).Octets(2 * Spread)
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		pieces(n, x.a[at[0]:], x.b[at[1]:], sa, sb, buf, func(i int, a, b []uint8) {
			On(x.p.Set).bits[logical(x.op)](x.dst[out+i:][:len(a)], a, b)
		})
	})
}

// logical returns the bitOp of a function of bools.
func logical(op BinaryOp) bitOp {
	switch op {
	case And:
		return boolAnd
	case Or:
		return boolOr
	case Xor:
		return boolXor
	}
	panic("BUG: " + op.String() + " is not a function of bools")
}

// A bitOp is a function of bits, or of bools.
type bitOp int

const (
	bitAnd bitOp = iota
	bitOr
	bitXor
	bitNot
	boolAnd
	boolOr
	boolXor
	boolNot
	bitOpCount
)

// bitOps holds the names of the routines.
var bitOps = [bitOpCount]string{"and", "or", "xor", "not", "and_bool", "or_bool", "xor_bool", "not_bool"}

// bitsInGo returns the functions as loops in Go.
func bitsInGo() (all [bitOpCount]func(dst, a, b []uint8)) {
	for op, f := range [bitOpCount]func(x, y uint64) uint64{
		bitAnd:  func(x, y uint64) uint64 { return x & y },
		bitOr:   func(x, y uint64) uint64 { return x | y },
		bitXor:  func(x, y uint64) uint64 { return x ^ y },
		bitNot:  func(x, _ uint64) uint64 { return ^x },
		boolAnd: func(x, y uint64) uint64 { return truths(x) & truths(y) },
		boolOr:  func(x, y uint64) uint64 { return truths(x | y) },
		boolXor: func(x, y uint64) uint64 { return truths(x) ^ truths(y) },
		boolNot: func(x, _ uint64) uint64 { return truths(x) ^ 0x0101010101010101 },
	} {
		all[op] = func(dst, a, b []uint8) { eachWord(dst, a, b, f) }
	}
	return all
}

// eachWord is dst = f(a, b), eight bytes at a time.
func eachWord(dst, a, b []uint8, f func(x, y uint64) uint64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, f(binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b)))
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i, x := range a {
		dst[i] = uint8(f(uint64(x), uint64(b[i])))
	}
}

// truths returns 1 in each byte of x that is not 0.
func truths(x uint64) uint64 {
	const low7 = 0x7f7f7f7f7f7f7f7f
	return (x&low7 + low7 | x) >> 7 & 0x0101010101010101 // the sum carries into bit 7 of a byte and no further
}

// Not is dst[i] = not src[i] for bools. dst may be src.
func Not(p *pool.Pool, dst, src []uint8) {
	pool.Split(p, len(src), pool.Grain, notting{p.Set, dst[:len(src)], src})
}

type notting struct {
	isa      *isa.Set
	dst, src []uint8
}

func (x *notting) Do(lo, hi, _ int) {
	On(x.isa).bits[boolNot](x.dst[lo:hi], x.src[lo:hi], x.src[lo:hi])
}
