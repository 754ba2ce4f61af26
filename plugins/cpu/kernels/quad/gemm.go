package quad

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Gemm describes a matrix product of 8-bit integers. With acc = (X - XZero)·(W - WZero) + Bias, the result is acc *
// Mult + YZero, rounded half to even and limited to the range of T.
type Gemm[T int8 | uint8] struct {
	M, N, K int
	X, Dst  []T
	W       stored.Values // I8 or U8; [K, N], or [N, K] with TransB
	TransB  bool

	Mult []float32 // [1] or [N]
	Bias []int32   // [N], or nil

	XZero, WZero, YZero int

	Keep *Kept
}

// Kept holds what Gemm keeps between calls.
type Kept struct {
	Fixed  bool      // W is the same in every call
	panels []float32 // packed W
	sum    []int32   // the sum of each column of W, as it is stored
	add    []int32
	mult   []float32
}

// Scratch returns what Multiply needs, for any number of rows.
func Scratch(p *pool.Pool, n, k int) pool.Size {
	s, by := p.Set, &On(p.Set).Quads[0]
	nr := product.On(s).NR
	units, panels := by.Depth(by.Units(k)), (n+nr-1)/nr
	return pool.Size{
		Worker: max(
			pool.FloatBytes(nr*units), pool.FloatBytes(by.MR*units, quadRows*by.MR*units+product.Spill, quadRows*by.MR,
				quadPanels*by.MR*nr,
				by.MR*nr)),
		Other: pool.FloatBytes(panels*nr*units+product.Spill) + pool.SizeOf[int32](2*n) + pool.SizeOf[float32](n),
	}
}

// A task multiplies up to quadRows panels of rows, each by quadPanels panels of columns at a time.
const (
	quadRows   = 8
	quadPanels = 4
)

// Signed reports whether T is signed.
func Signed[T int8 | uint8]() bool { return T(0)-1 < 0 }

// Multiply computes the product. It multiplies the integers as they are stored and then corrects for the zero points:
// WZero by the sums of the rows of X, and XZero by the sums of the columns of W. All of this wraps in 32 bits, so the
// order does not matter.
func (q *Gemm[T]) Multiply(p *pool.Pool) {
	if q.M == 0 || q.N == 0 {
		return
	}
	s, k := p.Set, q.Keep
	nr := product.On(s).NR
	x := qgemmTasks[T]{Gemm: *q, p: p, by: &On(s).Quads[0], to: RequantizingTo(Signed[T](), q.YZero)}
	x.left, x.right = x.by.Operands(Operand{Signed: Signed[T](), Zero: q.XZero},
		Operand{Signed: q.W.Kind == dtype.I8, Zero: q.WZero})
	x.units, x.panels = x.by.Depth(x.by.Units(q.K)), (q.N+nr-1)/nr
	if !k.Fixed || len(k.sum) != q.N {
		k.panels, k.sum = pool.Sized(k.panels, x.panels*nr*x.units+product.Spill), pool.Sized(k.sum, q.N)
		pool.Split(p, x.panels, 1+pool.Grain/max(1, q.K*nr), qgemmPanels[T]{x})
	}
	k.add, k.mult = pool.Sized(k.add, q.N), pool.Sized(k.mult, q.N)
	for j := range k.add {
		k.add[j] = int32(q.K*x.left.Zero*x.right.Zero) - int32(x.left.Zero)*k.sum[j]
		if q.Bias != nil {
			k.add[j] += q.Bias[j]
		}
		k.mult[j] = q.Mult[j%len(q.Mult)]
	}
	want := 1
	if q.M*q.N*q.K > 1<<16 {
		want = 8 * p.Threads()
	}
	rows := (q.M + x.by.MR - 1) / x.by.MR
	x.high = min(quadRows, max(1, rows/want)) * x.by.MR
	x.across = (q.M + x.high - 1) / x.high
	x.pieces = min(x.panels, (want+x.across-1)/x.across)
	kept := pool.Keep[qgemmTasks[T]](p)
	*kept = x
	p.Each(x.across*x.pieces, 1, kept)
}

// qgemmTasks computes blocks of rows by pieces of the columns of the result.
type qgemmTasks[T int8 | uint8] struct {
	Gemm[T]
	p              *pool.Pool
	by             *Product
	left, right    Operand
	to             Requantizing
	units, panels  int
	high           int // rows per task
	across, pieces int
}

func (x *qgemmTasks[T]) Do(lo, hi, worker int) {
	s, sc, k, by, src, dst := x.p.Set, x.p.Scratch(worker), x.Keep, x.by, pool.BytesOf(x.X), pool.BytesOf(x.Dst)
	nr := product.On(s).NR
	mark := sc.Mark()
	row, a, sums := sc.Floats(by.MR*x.units), sc.Floats(x.high*x.units+product.Spill), sc.Ints(x.high)
	acc, tmp := sc.Ints(by.MR*quadPanels*nr), sc.Floats(by.MR*nr)
	to := x.to
	for t := lo; t < hi; t++ {
		m := t / x.pieces * x.high
		rows := min(x.high, x.M-m)
		for r := 0; r < rows; r += by.MR {
			h := min(by.MR, rows-r)
			for i := range h {
				from, put := src[(m+r+i)*x.K:][:x.K], row[i*x.units:(i+1)*x.units]
				if x.right.Zero != 0 {
					sums[r+i] = by.Put(put, from, x.K, 1, x.left)
				} else {
					by.putRow(put, from, x.left)
				}
			}
			by.Pack(s, a[r*x.units:], row, h, x.units)
		}
		piece := t % x.pieces
		end := (piece + 1) * x.panels / x.pieces
		for q := piece * x.panels / x.pieces; q < end; q += quadPanels {
			panels, j := min(quadPanels, end-q), q*nr
			w, ldc := min(panels*nr, x.N-j), panels*nr
			for r := 0; r < rows; r += by.MR {
				h := min(by.MR, rows-r)
				by.Multiply(h, x.units, a[r*x.units:], k.panels[j*x.units:], acc, ldc, panels, tmp)
				for i := range h {
					to.Base = 0
					if x.right.Zero != 0 {
						to.Base = -int32(x.right.Zero) * sums[r+i]
					}
					On(s).Requantize(dst[(m+r+i)*x.N+j:][:w], acc[i*ldc:], k.add[j:], k.mult[j:], &to)
				}
			}
		}
	}
	sc.Release(mark)
}

// qgemmPanels packs panels of W and sums its columns.
type qgemmPanels[T int8 | uint8] struct{ qgemmTasks[T] }

func (x *qgemmPanels[T]) Do(lo, hi, worker int) {
	s, sc, k := x.p.Set, x.p.Scratch(worker), x.Keep
	nr := product.On(s).NR
	mark := sc.Mark()
	columns := sc.Floats(nr * x.units)
	for q := lo; q < hi; q++ {
		j := q * nr
		w := min(nr, x.N-j)
		for i := range w {
			at, step := j+i, x.N
			if x.TransB {
				at, step = (j+i)*x.K, 1
			}
			k.sum[j+i] = 0
			if x.K > 0 {
				k.sum[j+i] = x.by.Put(columns[i*x.units:(i+1)*x.units], x.W.Bytes[at:], x.K, step, x.right)
			}
		}
		product.PackColsTrans(s, nr, k.panels[j*x.units:], stored.F32(columns), x.units, w, x.units, nil)
	}
	sc.Release(mark)
}
