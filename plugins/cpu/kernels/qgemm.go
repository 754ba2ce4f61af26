package kernels

import (
	"math"
)

// QGemm describes a product of 8-bit integers: with acc = (X - XZero)·(W - WZero) + Bias, the result is acc * Mult + YZero, rounded half to
// even and limited to the range of T, which is the type of X too.
type QGemm[T int8 | uint8] struct {
	M, N, K int
	X, Dst  []T
	W       Weights // I8 or U8; [K, N], or [N, K] with TransB
	TransB  bool

	Mult []float32 // one, or N
	Bias []int32   // N, or nil

	XZero, WZero, YZero int

	Keep *QKept
}

// QKept is what QGemm computes in and keeps from call to call.
type QKept struct {
	x, c      []float32
	acc       []int32
	rows, sum []int32 // sums of rows of X and of columns of W
	Fixed     bool    // W is the same in every call
}

// QGemmScratch is what Multiply keeps for up to m rows, beside what Gemm needs.
func QGemmScratch(m, n, k int) ScratchSize {
	return ScratchSize{Other: sizeOf[float32](m*k+m*n) + sizeOf[int32](m*n+m+n)}
}

// exactFloats is how large the integers may be that a float32 holds, with all that are smaller.
const exactFloats = 1 << 24

// Multiply computes the product through float32: as long as no sum can exceed 2^24, products and sums of integers are exact in it, in
// any order. K is cut into pieces of that length, whose results are added as integers. In tiles of bfloat16, which holds 8-bit integers
// exactly, the same is true.
func (q *QGemm[T]) Multiply(p *Pool) {
	if q.M == 0 || q.N == 0 {
		return
	}
	k := q.Keep
	k.x, k.c, k.acc = grown(k.x, q.M*q.K), grown(k.c, q.M*q.N), grown(k.acc, q.M*q.N)
	k.rows = grown(k.rows, q.M)
	p.split(q.M, rowGrain(q.K), func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			sum := int32(0)
			to := k.x[i*q.K : (i+1)*q.K]
			for j, v := range q.X[i*q.K : (i+1)*q.K] {
				to[j] = float32(v)
				sum += int32(v)
			}
			k.rows[i] = sum
		}
	})
	q.columns(p)
	clear(k.acc)
	g := GemmArgs{M: q.M, N: q.N, LDA: q.K, TransB: q.TransB, LDB: q.N, C: k.c, LDC: q.N, Precision: Float32}
	if q.TransB {
		g.LDB = q.K
	}
	if p.TakesBlocked(BFloat16) {
		g.Precision = BFloat16
	}
	_, most := limits[T]()
	piece := exactFloats / (max(most+1, 128) * 256)
	for at := 0; at < q.K; at += piece {
		g.K, g.A = min(piece, q.K-at), k.x[at:]
		if g.B = q.W.from(at * q.N); q.TransB {
			g.B = q.W.from(at)
		}
		Gemm(p, &g)
		split(p, len(k.acc), elementGrain, adding{k.acc, k.c})
	}
	split(p, q.M, rowGrain(q.N), requantizing[T]{q})
}

// limits are the ends of the type's range.
func limits[T int8 | uint8]() (lo, hi int) {
	if T(0)-1 > 0 {
		return 0, 255
	}
	return -128, 127
}

// columns sums the columns of W where XZero makes a difference.
func (q *QGemm[T]) columns(p *Pool) {
	k := q.Keep
	if q.XZero == 0 || k.Fixed && len(k.sum) == q.N {
		return
	}
	k.sum = grown(k.sum, q.N)
	p.split(q.N, rowGrain(q.K), func(lo, hi, w int) {
		buf := p.scratch(w).floats(256)
		clear(k.sum[lo:hi])
		if q.TransB {
			for j := lo; j < hi; j++ {
				for at := 0; at < q.K; at += len(buf) {
					for _, v := range q.W.row(p.isa, j*q.K+at, min(len(buf), q.K-at), buf) {
						k.sum[j] += int32(v)
					}
				}
			}
			return
		}
		for i := range q.K {
			for at := lo; at < hi; at += len(buf) {
				for j, v := range q.W.row(p.isa, i*q.N+at, min(len(buf), hi-at), buf) {
					k.sum[at+j] += int32(v)
				}
			}
		}
	})
}

type adding struct {
	acc []int32
	c   []float32
}

func (a *adding) do(lo, hi, _ int) {
	acc := a.acc[lo:hi]
	for i, v := range a.c[lo:hi] {
		acc[i] += int32(v)
	}
}

type requantizing[T int8 | uint8] struct{ *QGemm[T] }

func (q *requantizing[T]) do(lo, hi, _ int) {
	k := q.Keep
	least, most := limits[T]()
	for i := lo; i < hi; i++ {
		row := int32(q.K*q.XZero*q.WZero) - int32(q.WZero)*k.rows[i]
		for j, acc := range k.acc[i*q.N : (i+1)*q.N] {
			acc += row
			if q.XZero != 0 {
				acc -= int32(q.XZero) * k.sum[j]
			}
			if q.Bias != nil {
				acc += q.Bias[j]
			}
			mult := q.Mult[0]
			if len(q.Mult) > 1 {
				mult = q.Mult[j]
			}
			v := math.RoundToEven(float64(float32(acc) * mult))
			y := 0
			switch v += float64(q.YZero); {
			case v != v:
			case v <= float64(least):
				y = least
			case v >= float64(most):
				y = most
			default:
				y = int(v)
			}
			q.Dst[i*q.N+j] = T(y)
		}
	}
}
