package quad

import (
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

func checkQGemm[T, U int8 | uint8](t *testing.T, p *pool.Pool, r *rand.Rand) {
	q := Gemm[T]{M: r.IntN(70), N: r.IntN(90), K: r.IntN(300), TransB: r.IntN(2) == 0,
		XZero: kerneltest.RandomZero[T](r),
		YZero: kerneltest.RandomZero[T](r), WZero: kerneltest.RandomZero[U](r),
		Keep: &Kept{Fixed: r.IntN(2) == 0}}
	w := kerneltest.RandomBytes[U](r, q.K*q.N)
	q.X, q.Mult, q.Bias = kerneltest.RandomBytes[T](r, q.M*q.K), kerneltest.Multipliers(r, max(1, q.N)),
		kerneltest.Biases(r, q.N)
	q.W = stored.U8(pool.BytesOf(w))
	if Signed[U]() {
		q.W = stored.I8(pool.BytesOf(w))
	}
	for range 2 { // the second time, with the memory that the first run kept
		const guard = 32
		all := make([]T, q.M*q.N+2*guard)
		for i := range all {
			all[i] = 0x55
		}
		q.Dst = all[guard:][:q.M*q.N]
		q.Multiply(p)
		for i, v := range all {
			if want := T(0x55); (i < guard || i >= guard+q.M*q.N) && v != want {
				t.Fatalf("%s: wrote outside of the result", p.Features())
			}
		}
		for i, got := range q.Dst {
			row, col, acc := i/q.N, i%q.N, int32(0)
			for l := range q.K {
				at := l*q.N + col
				if q.TransB {
					at = col*q.K + l
				}
				acc += (int32(q.X[row*q.K+l]) - int32(q.XZero)) * (int32(w[at]) - int32(q.WZero))
			}
			if q.Bias != nil {
				acc += q.Bias[col]
			}
			if want := kerneltest.Finished[T](acc, q.Mult[col%len(q.Mult)], q.YZero); got != want {
				t.Fatalf("%s: %d x %d x %d, zeros %d %d %d: element %d, %d is %d, want %d (sum %d)", p.Features(), q.M,
					q.N, q.K, q.XZero, q.WZero, q.YZero, row, col, got, want, acc)
			}
		}
	}
}

func TestQGemm(t *testing.T) {
	kerneltest.EachSet(t, 3, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(31)
		for range kerneltest.Some(40) {
			checkQGemm[int8, int8](t, p, r)
			checkQGemm[int8, uint8](t, p, r)
			checkQGemm[uint8, int8](t, p, r)
			checkQGemm[uint8, uint8](t, p, r)
		}
	}, WithoutVNNI()...)
}

func BenchmarkIntegers(b *testing.B) {
	r := kerneltest.RNG(1)
	report := func(b *testing.B, products int) {
		b.ReportMetric(2*float64(b.N)*float64(products)/b.Elapsed().Seconds()/1e9, "GOP/s")
	}
	b.Run("qmatmul", func(b *testing.B) {
		const m, k, n = 512, 768, 768
		q := Gemm[int8]{M: m, N: n, K: k, X: kerneltest.RandomBytes[int8](r, m*k),
			W:   stored.I8(kerneltest.RandomBytes[uint8](r, k*n)),
			Dst: make([]int8, m*n), TransB: true, Mult: []float32{1e-3}, Keep: &Kept{Fixed: true}}
		p := kerneltest.NewPool(b, 0, "")
		for b.Loop() {
			q.Multiply(p)
		}
		report(b, m*k*n)
	})
}
