package product

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestGemmStrips compares products in strips with float64, for sizes around those of the strips and blocks, and for
// weights of every kind. The results have the same bits for any number of threads.
func TestGemmStrips(t *testing.T) {
	kinds := []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K,
		dtype.Q3_K, dtype.IQ4_NL}
	for _, name := range kerneltest.Sets(t) {
		pools := []*pool.Pool{kerneltest.NewPool(t, 1, name), kerneltest.NewPool(t, 3, name),
			kerneltest.NewPool(t, 16, name)}
		s := pools[0].Set
		rows := []int{4*On(s).MR + 1, 5 * On(s).MR, stripBlock * On(s).MR, 2*stripBlock*On(s).MR + On(s).MR/2, 128}
		cols := []int{On(s).NR, stripPanels * On(s).NR, 3 * stripPanels * On(s).NR, 5*stripPanels*On(s).NR + On(s).NR/2}
		depths := []int{16, 256, KBlock, KBlock + 256, 3 * KBlock}
		for _, i := range kerneltest.Sample(t, 3*len(kinds)) {
			r := kerneltest.RNG(11 + uint64(i))
			around := func(n int) int { return max(1, n-2+r.IntN(5)) }
			g := randomGemm(r, around(rows[r.IntN(len(rows))]), around(cols[r.IntN(len(cols))]),
				around(depths[r.IntN(len(depths))]), 1)
			if i%10 == 0 {
				g = randomGemm(r, stripRows+On(s).MR+1, On(s).NR+3, 40, 1) // two blocks of rows
			}
			wide := *g // with float32 weights of the same values
			if d := kinds[i%len(kinds)]; d.IsPacked() {
				g.TransB, g.Precision = true, Float32
				g.K = (g.K + d.Values() - 1) / d.Values() * d.Values()
				g.TransA, g.LDA, g.LDB = false, g.K+r.IntN(3), g.K
				w, values := make([]byte, g.N*g.K/d.Values()*d.Size()), make([]float32, g.N*g.K)
				quant.Random(w, d, r.Uint32)
				quant.Decode(values, d, w)
				g.A, g.B = kerneltest.Randoms(r, g.M*g.LDA), stored.Packed(d, w)
				wide = *g
				wide.B = stored.F32(values)
			} else {
				g.B = kerneltest.RandomWeights(r, d, g.B.Len())
				wide = *g
			}
			what := fmt.Sprintf("%s: %s", name, describe(g))
			want := gemm64(&wide)
			size := 1.0 // weights of packed types may be large
			for _, v := range wide.B.Floats {
				size = max(size, math.Abs(float64(v)))
			}
			var first []float32
			for _, p := range pools {
				got := runGemm(t, p, g, what)
				if first == nil {
					first = got
					kerneltest.Compare(t, what, got, want, size*(1e-6*math.Sqrt(float64(g.K))+2e-6), 1e-5)
				}
				for i := range got {
					if math.Float32bits(got[i]) != math.Float32bits(first[i]) {
						t.Fatalf("%s: element %d is %v with %d threads, %v with one", what, i, got[i], p.Threads(),
							first[i])
					}
				}
			}
		}
	}
}
