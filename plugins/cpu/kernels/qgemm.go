package kernels

import "github.com/rlx-go/rlx/core/dtype"

// QGemm describes a matrix product of 8-bit integers. With acc = (X - XZero)·(W - WZero) + Bias, the result is acc *
// Mult + YZero, rounded half to even and limited to the range of T.
type QGemm[T int8 | uint8] struct {
	M, N, K int
	X, Dst  []T
	W       Weights // I8 or U8; [K, N], or [N, K] with TransB
	TransB  bool

	Mult []float32 // [1] or [N]
	Bias []int32   // [N], or nil

	XZero, WZero, YZero int

	Keep *QKept
}

// QKept holds what QGemm keeps between calls.
type QKept struct {
	Fixed  bool      // W is the same in every call
	panels []float32 // packed W
	sum    []int32   // the sum of each column of W, as it is stored
	add    []int32
	mult   []float32
}

// QGemmScratch returns what Multiply needs, for any number of rows.
func QGemmScratch(p *Pool, n, k int) ScratchSize {
	s, by := p.Set, &quadOn(p.Set).quads[0]
	units, panels := by.depth(by.units(k)), (n+productOn(s).nr-1)/productOn(s).nr
	return ScratchSize{
		Worker: max(
			floats(productOn(s).nr*units), floats(by.mr*units, quadRows*by.mr*units+spill, quadRows*by.mr, quadPanels*by.mr*productOn(s).nr,
				by.mr*productOn(s).nr)),
		Other: floats(panels*productOn(s).nr*units+spill) + sizeOf[int32](2*n) + sizeOf[float32](n),
	}
}

// A task multiplies up to quadRows panels of rows, each by quadPanels panels of columns at a time.
const (
	quadRows   = 8
	quadPanels = 4
)

// signed reports whether T is signed.
func signed[T int8 | uint8]() bool { return T(0)-1 < 0 }

// Multiply computes the product. It multiplies the integers as they are stored and then corrects for the zero points:
// WZero by the sums of the rows of X, and XZero by the sums of the columns of W. All of this wraps in 32 bits, so the
// order does not matter.
func (q *QGemm[T]) Multiply(p *Pool) {
	if q.M == 0 || q.N == 0 {
		return
	}
	s, k := p.Set, q.Keep
	x := qgemmTasks[T]{QGemm: *q, p: p, by: &quadOn(s).quads[0], to: requantizingTo(signed[T](), q.YZero)}
	x.left, x.right = x.by.operands(integerOperand{signed: signed[T](), zero: q.XZero},
		integerOperand{signed: q.W.kind == dtype.I8, zero: q.WZero})
	x.units, x.panels = x.by.depth(x.by.units(q.K)), (q.N+productOn(s).nr-1)/productOn(s).nr
	if !k.Fixed || len(k.sum) != q.N {
		k.panels, k.sum = sized(k.panels, x.panels*productOn(s).nr*x.units+spill), sized(k.sum, q.N)
		split(p, x.panels, 1+elementGrain/max(1, q.K*productOn(s).nr), qgemmPanels[T]{x})
	}
	k.add, k.mult = sized(k.add, q.N), sized(k.mult, q.N)
	for j := range k.add {
		k.add[j] = int32(q.K*x.left.zero*x.right.zero) - int32(x.left.zero)*k.sum[j]
		if q.Bias != nil {
			k.add[j] += q.Bias[j]
		}
		k.mult[j] = q.Mult[j%len(q.Mult)]
	}
	want := 1
	if q.M*q.N*q.K > 1<<16 {
		want = 8 * p.Threads()
	}
	rows := (q.M + x.by.mr - 1) / x.by.mr
	x.high = min(quadRows, max(1, rows/want)) * x.by.mr
	x.across = (q.M + x.high - 1) / x.high
	x.pieces = min(x.panels, (want+x.across-1)/x.across)
	kept := keep[qgemmTasks[T]](p)
	*kept = x
	p.each(x.across*x.pieces, 1, kept)
}

// qgemmTasks computes blocks of rows by pieces of the columns of the result.
type qgemmTasks[T int8 | uint8] struct {
	QGemm[T]
	p              *Pool
	by             *integerProduct
	left, right    integerOperand
	to             requantizing
	units, panels  int
	high           int // rows per task
	across, pieces int
}

func (x *qgemmTasks[T]) do(lo, hi, worker int) {
	s, sc, k, by, src, dst := x.p.Set, x.p.scratch(worker), x.Keep, x.by, bytesOf(x.X), bytesOf(x.Dst)
	mark := sc.mark()
	row, a, sums := sc.floats(by.mr*x.units), sc.floats(x.high*x.units+spill), sc.ints(x.high)
	acc, tmp := sc.ints(by.mr*quadPanels*productOn(s).nr), sc.floats(by.mr*productOn(s).nr)
	to := x.to
	for t := lo; t < hi; t++ {
		m := t / x.pieces * x.high
		rows := min(x.high, x.M-m)
		for r := 0; r < rows; r += by.mr {
			h := min(by.mr, rows-r)
			for i := range h {
				from, put := src[(m+r+i)*x.K:][:x.K], row[i*x.units:(i+1)*x.units]
				if x.right.zero != 0 {
					sums[r+i] = by.put(put, from, x.K, 1, x.left)
				} else {
					by.putRow(put, from, x.left)
				}
			}
			by.pack(s, a[r*x.units:], row, h, x.units)
		}
		piece := t % x.pieces
		end := (piece + 1) * x.panels / x.pieces
		for q := piece * x.panels / x.pieces; q < end; q += quadPanels {
			panels, j := min(quadPanels, end-q), q*productOn(s).nr
			w, ldc := min(panels*productOn(s).nr, x.N-j), panels*productOn(s).nr
			for r := 0; r < rows; r += by.mr {
				h := min(by.mr, rows-r)
				by.multiply(h, x.units, a[r*x.units:], k.panels[j*x.units:], acc, ldc, panels, tmp)
				for i := range h {
					if to.base = 0; x.right.zero != 0 {
						to.base = -int32(x.right.zero) * sums[r+i]
					}
					quadOn(s).requantize(dst[(m+r+i)*x.N+j:][:w], acc[i*ldc:], k.add[j:], k.mult[j:], &to)
				}
			}
		}
	}
	sc.release(mark)
}

// qgemmPanels packs panels of W and sums its columns.
type qgemmPanels[T int8 | uint8] struct{ qgemmTasks[T] }

func (x *qgemmPanels[T]) do(lo, hi, worker int) {
	s, sc, k := x.p.Set, x.p.scratch(worker), x.Keep
	mark := sc.mark()
	columns := sc.floats(productOn(s).nr * x.units)
	for q := lo; q < hi; q++ {
		j := q * productOn(s).nr
		w := min(productOn(s).nr, x.N-j)
		for i := range w {
			at, step := j+i, x.N
			if x.TransB {
				at, step = (j+i)*x.K, 1
			}
			if k.sum[j+i] = 0; x.K > 0 {
				k.sum[j+i] = x.by.put(columns[i*x.units:(i+1)*x.units], x.W.byte[at:], x.K, step, x.right)
			}
		}
		packColsTrans(s, productOn(s).nr, k.panels[j*x.units:], F32(columns), x.units, w, x.units, nil)
	}
	sc.release(mark)
}
