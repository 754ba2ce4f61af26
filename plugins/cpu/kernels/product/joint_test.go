package product

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestGemmJoint checks that joint products have the same bits as products one by one, for all sets, and that they need
// no more memory than JointScratch says.
func TestGemmJoint(t *testing.T) {
	types := []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.Q4_0, dtype.Q8_0, dtype.Q4_K, dtype.Q5_1, dtype.Q6_K}
	r := kerneltest.RNG(40)
	for try := range kerneltest.Some(60) {
		kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
			m, k, rounds := 1+r.IntN(5), 256*(1+r.IntN(3)), r.IntN(2) == 0
			x := kerneltest.Randoms(r, m*k)
			products := make([]GemmArgs, 1+r.IntN(4))
			kinds := make([]dtype.DType, len(products))
			var each pool.Size
			for i := range products {
				n := 1 + r.IntN(200)
				kinds[i] = types[r.IntN(len(types))]
				products[i] = GemmArgs{M: m, N: n, K: k, A: x, LDA: k,
					B: weightsIn(kinds[i], equalMatrices(r, kinds[i], n*k, 1)), LDB: k, TransB: true,
					C: make([]float32, m*n), LDC: n}
				if g := &products[i]; !kinds[i].IsPacked() && r.IntN(2) == 0 {
					g.Bias, g.Act = kerneltest.Randoms(r, n), elementwise.Silu
				}
				each = each.With(products[i].ScratchSize(p)).With(PackedScratch(p, kinds[i], m, k))
			}
			need := each.With(JointScratch(m, k, kinds))
			kerneltest.Reserve(t, p, need)
			what := fmt.Sprintf("try %d, %s, %d rows of %d, %v, rounded %v", try, p.Set.Name, m, k, kinds, rounds)
			want := true
			for i := range products {
				want = want && products[i].joins(p.Set, rounds)
			}
			if got := GemmJoint(p, products, rounds); got != want {
				t.Fatalf("%s: joint: %v, want %v", what, got, want)
			}
			kerneltest.Fits(t, p, need, keptPanels(p), what)
			for i, g := range products {
				joint := slices.Clone(g.C)
				clear(g.C)
				if !want {
					if !slices.Equal(joint, g.C) {
						t.Fatalf("%s: product %d was computed, although not all can be", what, i)
					}
					continue
				}
				if rounds && kinds[i].IsPacked() {
					GemmRounded(p, &g)
				} else {
					Gemm(p, &g)
				}
				for j := range joint {
					if math.Float32bits(joint[j]) != math.Float32bits(g.C[j]) {
						t.Fatalf("%s: element %d of product %d is %v, by itself %v", what, j, i, joint[j], g.C[j])
					}
				}
			}
		})
	}
}

// TestGemmJointSpecial checks that packed weights are multiplied one product at a time if an activation is not finite.
func TestGemmJointSpecial(t *testing.T) {
	const k, n = 256, 16
	r := kerneltest.RNG(41)
	kerneltest.EachSet(t, 2, func(t *testing.T, p *pool.Pool) {
		x := kerneltest.Randoms(r, k)
		x[7] = float32(math.Inf(1))
		products := make([]GemmArgs, 2)
		for i, d := range []dtype.DType{dtype.F16, dtype.Q4_0} {
			products[i] = GemmArgs{M: 1, N: n, K: k, A: x, LDA: k, B: weightsIn(d, equalMatrices(r, d, n*k, 1)), LDB: k,
				TransB: true, C: make([]float32, n), LDC: n}
		}
		if GemmJoint(p, products, false) {
			t.Error("products with an infinite activation were computed jointly")
		}
		if !slices.Equal(products[0].C, make([]float32, n)) {
			t.Error("the first product was computed")
		}
	})
}
