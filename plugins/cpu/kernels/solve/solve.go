// Package solve solves systems of linear equations.
package solve

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Elimination takes the columns in blocks. The rows of a block are read from the cache for each row below.
const blockColumns = 32

// Args are systems a x = b: A is [Batch,N,N], B and X are [Batch,N,K], of float32 or float64.
type Args[T float32 | float64] struct {
	X, A, B     []T
	Batch, N, K int
}

// Scratch returns the memory that Dense needs.
func Scratch(n, k int) pool.Size {
	return pool.Size{Shared: pool.FloatBytes(2*n*n) + pool.FloatBytes(2*n*k)}
}

// Dense solves the systems in float64, by elimination with partial pivoting. The solution is NaN where a pivot is 0 or
// NaN. Threads share the rows or columns of a system; the order of operations on an element is always the same.
func Dense[T float32 | float64](p *pool.Pool, args Args[T]) {
	p.Shared.Reset()
	s := system{p: p, a: pool.Numbers[float64](&p.Shared, args.N*args.N),
		b: pool.Numbers[float64](&p.Shared, args.N*args.K), n: args.N, k: args.K}
	for i := range args.Batch {
		widen(s.a, args.A[i*s.n*s.n:])
		widen(s.b, args.B[i*s.n*s.k:])
		x := args.X[i*s.n*s.k:][:s.n*s.k]
		regular := s.eliminate()
		if regular {
			s.substitute()
		}
		for j := range x {
			x[j] = T(s.b[j])
			if !regular {
				x[j] = T(math.NaN())
			}
		}
	}
}

func widen[T float32 | float64](dst []float64, src []T) {
	for i := range dst {
		dst[i] = float64(src[i])
	}
}

type system struct {
	p    *pool.Pool
	a, b []float64 // [n,n] and [n,k]; below the diagonal, a gets the factors of the elimination
	n, k int
}

// eliminate makes a upper triangular. It reports whether all pivots were numbers other than 0.
func (s system) eliminate() bool {
	for lo := 0; lo < s.n; lo += blockColumns {
		hi := min(s.n, lo+blockColumns)
		if !s.panel(lo, hi) {
			return false
		}
		for r := lo + 1; r < hi; r++ {
			s.reduce(r, lo, r, hi)
		}
		pool.Split(s.p, s.n-hi, 1+pool.Grain/((s.n+s.k)*blockColumns), rowsBelow{s, lo, hi})
	}
	return true
}

// rowsBelow subtracts the rows from lo to hi from those that follow.
type rowsBelow struct {
	system
	lo, hi int
}

func (s *rowsBelow) Do(from, to, _ int) {
	for r := s.hi + from; r < s.hi+to; r++ {
		s.reduce(r, s.lo, s.hi, s.hi)
	}
}

// panel eliminates the columns from lo to hi in themselves, exchanges rows, and stores the factors.
func (s system) panel(lo, hi int) bool {
	n := s.n
	for col := lo; col < hi; col++ {
		pivot := col
		for r := col + 1; r < n; r++ {
			if math.Abs(s.a[r*n+col]) > math.Abs(s.a[pivot*n+col]) {
				pivot = r
			}
		}
		v := s.a[pivot*n+col]
		if v == 0 || math.IsNaN(v) {
			return false
		}
		if pivot != col {
			swap(s.a[col*n:][:n], s.a[pivot*n:][:n])
			swap(s.b[col*s.k:][:s.k], s.b[pivot*s.k:][:s.k])
		}
		top := s.a[col*n+col+1 : col*n+hi]
		for r := col + 1; r < n; r++ {
			f := s.a[r*n+col] / v
			s.a[r*n+col] = f
			minus(s.a[r*n+col+1:r*n+hi], f, top)
		}
	}
	return true
}

func swap(x, y []float64) {
	for i, v := range x {
		x[i], y[i] = y[i], v
	}
}

// reduce subtracts the rows from lo to hi, times their factors, from row r: from column first on, and from b.
func (s system) reduce(r, lo, hi, first int) {
	n, k := s.n, s.k
	for i := lo; i < hi; i++ {
		f := s.a[r*n+i]
		minus(s.a[r*n+first:(r+1)*n], f, s.a[i*n+first:(i+1)*n])
		minus(s.b[r*k:(r+1)*k], f, s.b[i*k:(i+1)*k])
	}
}

// substitute replaces b by the solution for the upper triangular a.
func (s system) substitute() { pool.Split(s.p, s.k, 1+pool.Grain/(s.n*s.n), columns{s}) }

type columns struct{ system }

func (s *columns) Do(from, to, _ int) {
	n, k := s.n, s.k
	for r := n - 1; r >= 0; r-- {
		row := s.b[r*k+from : r*k+to]
		for i := r + 1; i < n; i++ {
			minus(row, s.a[r*n+i], s.b[i*k+from:i*k+to])
		}
		for c := range row {
			row[c] /= s.a[r*n+r]
		}
	}
}

// minus is dst -= f*x.
func minus(dst []float64, f float64, x []float64) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] -= f * v
	}
}
