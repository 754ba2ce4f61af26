package product

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestGemmStored compares products of the same matrix with rows at several distances. At some, A is read as it is
// stored; at others it is packed, or copied first. The results are close to those in float64, and have the same bits at
// all distances and for any number of threads, for infinities and NaN, too.
func TestGemmStored(t *testing.T) {
	for _, name := range kerneltest.Sets(t) {
		pools := []*pool.Pool{kerneltest.NewPool(t, 1, name), kerneltest.NewPool(t, 2, name),
			kerneltest.NewPool(t, 5, name)}
		mr, nr := On(pools[0].Set).MR, On(pools[0].Set).NR
		rows := []int{1, 2, mr, 2*mr + 1, 5*mr + 3, blockPanels*mr + 2, stripRows + 1}
		cols := []int{1, nr / 2, nr, nr + 1, 3 * nr, 9*nr + nr/2}
		depths := []int{1, 3, 4, 37, KBlock, KBlock + 1, 2*KBlock + 5}
		for _, i := range kerneltest.Sample(t, 60) {
			r := kerneltest.RNG(31 + uint64(i))
			g := randomGemm(r, rows[i%len(rows)], cols[r.IntN(len(cols))], depths[r.IntN(len(depths))],
				[]int{1, 1, 1, 3, 12}[r.IntN(5)])
			g.TransA, g.Precision, g.LDA = false, Float32, g.K
			g.StrideA = g.M * g.K
			g.A = kerneltest.Randoms(r, max(1, g.Batch)*g.M*g.K)
			special := i%4 == 0
			if special {
				for _, v := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
					g.A[r.IntN(len(g.A))] = v
				}
			}
			packed := max(1, g.Batch) == 1 && r.IntN(2) == 0
			what := fmt.Sprintf("%s: %s packed %v", name, describe(g), packed)
			var want []float32
			for _, p := range pools {
				for _, lda := range []int{g.K, g.K + 1, (g.K + 1023) / 1024 * 1024} {
					x := *g
					x.A, x.LDA, x.StrideA = apart(g, lda)
					if packed {
						x.StrideB = 0
						x.Packed = PackWeights(p, &x)
					}
					got := runGemm(t, p, &x, what)
					if want == nil {
						want = got
						if !special {
							kerneltest.Compare(t, what, got, gemm64(g), 1e-6*math.Sqrt(float64(g.K))+2e-6, 1e-5)
						}
					}
					for j := range got {
						if math.Float32bits(got[j]) != math.Float32bits(want[j]) {
							t.Fatalf("%s: element %d is %v with rows %d apart and %d threads, want %v", what, j, got[j], lda,
								p.Threads(), want[j])
						}
					}
				}
			}
		}
	}
}

// apart returns A of g with its rows so far apart, and the distance between rows and that between products.
func apart(g *GemmArgs, lda int) ([]float32, int, int) {
	rows := max(1, g.Batch) * g.M
	a := make([]float32, rows*lda)
	for i := range rows {
		copy(a[i*lda:], g.A[i*g.K:][:g.K])
	}
	return a, lda, g.M * lda
}

// BenchmarkKept measures products by packed weights on two threads, as in a model: each of eight has weights of its
// own.
func BenchmarkKept(b *testing.B) {
	p := kerneltest.NewPool(b, 2, "")
	r := kerneltest.RNG(1)
	for _, size := range [][3]int{{32, 768, 768}, {128, 768, 768}, {512, 768, 768}, {128, 1024, 1024}, {128, 768, 64},
		{128, 64, 768}, {512, 64, 384}} {
		m, k, n := size[0], size[1], size[2]
		x := kerneltest.Randoms(r, m*k)
		products := make([]GemmArgs, 8)
		for i := range products {
			g := &products[i]
			*g = GemmArgs{M: m, N: n, K: k, A: x, LDA: k, B: stored.F32(kerneltest.Randoms(r, k*n)), LDB: n,
				C: make([]float32, m*n), LDC: n}
			g.Packed = PackWeights(p, g)
		}
		b.Run(fmt.Sprintf("%dx%dx%d", m, k, n), func(b *testing.B) {
			for b.Loop() {
				for i := range products {
					Gemm(p, &products[i])
				}
			}
			flops := 2 * float64(len(products)) * float64(m*k*n) * float64(b.N)
			b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
