package elementwise

import (
	"fmt"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// CompareOp is a comparison of two operands. If an operand is NaN, all but Ne are false.
type CompareOp uint8

// The comparisons.
const (
	Eq CompareOp = iota
	Ne
	Lt
	Le
	Gt
	Ge
	compareCount
)

// Compares lists the comparisons.
func Compares() []CompareOp { return []CompareOp{Eq, Ne, Lt, Le, Gt, Ge} }

var compareNames = [compareCount]string{"eq", "ne", "lt", "le", "gt", "ge"}

func (op CompareOp) String() string {
	if op < compareCount {
		return compareNames[op]
	}
	return fmt.Sprintf("CompareOp(%d)", uint8(op))
}

// ParseCompare finds a comparison by its name.
func ParseCompare(name string) (CompareOp, bool) {
	for i, n := range compareNames {
		if n == name {
			return CompareOp(i), true
		}
	}
	return 0, false
}

// Compare is dst = op(a, b), 1 for true and 0 for false, with NumPy broadcast.
func Compare[T Number](p *pool.Pool, op CompareOp, dst []uint8, a []T, aShape []int, b []T, bShape []int) {
	g, n, ok := newGrid(aShape, bShape)
	if !ok || len(dst) < n || op >= compareCount {
		panic(fmt.Sprintf("BUG: %v of %v and %v", op, aShape, bShape))
	}
	if x, ok := any(a).([]float32); ok {
		pool.Split(p, n, pool.Grain, compareVectors{p, g, On(p.Set).compare[op], dst, x, any(b).([]float32)})
		return
	}
	pool.Split(p, n, pool.Grain, compareRows[T]{g, op, dst, a, b})
}

type compareVectors struct {
	p    *pool.Pool
	g    grid
	f    func(dst []uint8, a, b []float32)
	dst  []uint8
	a, b []float32
}

func (x *compareVectors) Do(lo, hi, worker int) {
	sa, sb, buf := x.g.step(0), x.g.step(1), x.p.Scratch(worker).Floats(2*Spread)
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		pieces(n, x.a[at[0]:], x.b[at[1]:], sa, sb, buf, func(i int, a, b []float32) {
			x.f(x.dst[out+i:][:len(a)], a, b)
		})
	})
}

type compareRows[T Number] struct {
	g    grid
	op   CompareOp
	dst  []uint8
	a, b []T
}

func (x *compareRows[T]) Do(lo, hi, _ int) {
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		compareRow(x.op, x.dst[out:out+n], x.a[at[0]:], x.b[at[1]:], x.g.step(0), x.g.step(1))
	})
}

// compareRow compares one row. The steps are as in binaryRow. Each comparison has a loop of its own, which has no
// branch.
func compareRow[T Number](op CompareOp, dst []uint8, a, b []T, sa, sb int) {
	if sa == 0 && sb == 1 {
		a, b, sa, sb, op = b, a, sb, sa, [...]CompareOp{Eq: Eq, Ne: Ne, Lt: Gt, Le: Ge, Gt: Lt, Ge: Le}[op]
	}
	if sb == 0 && sa == 1 && len(dst) > 0 {
		compareWith(op, dst, a[:len(dst)], b[0])
		return
	}
	if sa == 0 {
		for i := range dst {
			dst[i] = truth(op, a[0], b[0])
		}
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case Eq:
		for i, x := range a {
			dst[i] = Bit(x == b[i])
		}
	case Ne:
		for i, x := range a {
			dst[i] = Bit(x != b[i])
		}
	case Lt:
		for i, x := range a {
			dst[i] = Bit(x < b[i])
		}
	case Le:
		for i, x := range a {
			dst[i] = Bit(x <= b[i])
		}
	case Gt:
		for i, x := range a {
			dst[i] = Bit(x > b[i])
		}
	case Ge:
		for i, x := range a {
			dst[i] = Bit(x >= b[i])
		}
	}
}

// compareWith compares a row with a number.
func compareWith[T Number](op CompareOp, dst []uint8, a []T, y T) {
	switch op {
	case Eq:
		for i, x := range a {
			dst[i] = Bit(x == y)
		}
	case Ne:
		for i, x := range a {
			dst[i] = Bit(x != y)
		}
	case Lt:
		for i, x := range a {
			dst[i] = Bit(x < y)
		}
	case Le:
		for i, x := range a {
			dst[i] = Bit(x <= y)
		}
	case Gt:
		for i, x := range a {
			dst[i] = Bit(x > y)
		}
	case Ge:
		for i, x := range a {
			dst[i] = Bit(x >= y)
		}
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
