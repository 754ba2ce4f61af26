package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestPackedProducts compares products of packed weights and many rows of unrounded activations with float64, for all
// sets.
func TestPackedProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, s := range isa.Available() {
		for _, d := range dtype.Packed() {
			sizes := []struct{ m, n, k, threads int }{{5, 19, 256, 1}, {37, 70, 2304, 2}, {16, 32, 32, 1},
				{33, 5, 96, 3}, {523, 3, 288, 2}}
			for _, size := range sizes[:kerneltest.Some(len(sizes))] {
				m, n, k := size.m, size.n, size.k
				if k%d.Values() != 0 {
					continue
				}
				p := kerneltest.NewPool(t, size.threads, s.Name)
				ld := k + 3
				x, c, w := make([]float32, m*ld), make([]float32, m*n), make([]byte, n*k/d.Values()*d.Size())
				for i := range x {
					x[i] = (rng.Float32()*4 - 2) * float32(math.Ldexp(1, rng.IntN(20)-10))
				}
				quant.Random(w, d, rng.Uint32)
				values := make([]float32, n*k)
				quant.Decode(values, d, w)
				g := GemmArgs{M: m, N: n, K: k, A: x, LDA: ld, B: stored.Packed(d, w), LDB: k, TransB: true, C: c,
					LDC: n}
				need := g.ScratchSize(p)
				kerneltest.Reserve(t, p, need)
				Gemm(p, &g)
				kerneltest.Fits(t, p, need, keptPanels(p), fmt.Sprintf("%s, %v, %v", s.Name, d, size))
				for i := range m {
					for j := range n {
						var sum, most float64
						for l, v := range x[i*ld:][:k] {
							v := float64(v) * float64(values[j*k+l])
							sum, most = sum+v, most+math.Abs(v)
						}
						if e := math.Abs(float64(c[i*n+j]) - sum); e > 1e-6*most {
							t.Fatalf("%s, %v, %v: element %d,%d is %v; want %v", s.Name, d, size, i, j, c[i*n+j], sum)
						}
					}
				}
			}
		}
	}
}

// TestPackedProductSpecial checks rows with an activation that is not finite, or very large or small: their results are
// as in float64, and the other rows do not change.
func TestPackedProductSpecial(t *testing.T) {
	const m, n, k = 21, 40, 512
	for _, s := range isa.Available() {
		for _, d := range []dtype.DType{dtype.Q8_0, dtype.Q4_K} {
			p, one := kerneltest.PoolOn(t, 3, s), kerneltest.PoolOn(t, 1, s)
			for _, special := range []float32{1, 0x1p-140, 0x1p-120, 0x1p99, 0x1p101, math.MaxFloat32,
				float32(math.Inf(1)), float32(math.NaN())} {
				rng := rand.New(rand.NewPCG(15, 16))
				x, c, again, w := make([]float32, m*k), make([]float32, m*n), make([]float32, m*n),
					make([]byte, n*k/d.Values()*d.Size())
				for i := range x {
					x[i] = rng.Float32()*4 - 2
				}
				x[17*k+33] = special
				quant.Random(w, d, rng.Uint32)
				values := make([]float32, n*k)
				quant.Decode(values, d, w)
				g := GemmArgs{M: m, N: n, K: k, A: x, LDA: k, B: stored.Packed(d, w), LDB: k, TransB: true, C: c,
					LDC: n}
				Gemm(p, &g)
				g.C = again
				Gemm(one, &g)
				for i, got := range c {
					if math.Float32bits(got) != math.Float32bits(again[i]) && got == got {
						t.Fatalf("%s, %v, %v: %v with three threads, %v with one", s.Name, d, special, got, again[i])
					}
					var sum, most float64
					for l, v := range x[i/n*k:][:k] {
						v := float64(v) * float64(values[i%n*k+l])
						sum, most = sum+v, most+math.Abs(v)
					}
					if e := math.Abs(float64(got) - sum); e > 1e-6*most && most < math.MaxFloat32 || most-most != 0 &&
						got-got == 0 {
						t.Fatalf("%s, %v, %v: element %d is %v; want %v", s.Name, d, special, i, got, sum)
					}
				}
			}
		}
	}
}
