package kernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
)

// TestGemmStrips compares products in strips with float64, for sizes around those of the strips and blocks, and for
// weights of every kind. The results have the same bits for any number of threads.
func TestGemmStrips(t *testing.T) {
	kinds := []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K,
		dtype.Q3_K, dtype.IQ4_NL}
	for _, name := range sets(t) {
		pools := []*Pool{newPool(t, 1, name), newPool(t, 3, name), newPool(t, 16, name)}
		s, r := pools[0].Set, rng(11)
		around := func(n int) int { return max(1, n-2+r.IntN(5)) }
		rows := []int{4*productOn(s).mr + 1, 5 * productOn(s).mr, stripBlock * productOn(s).mr, 2*stripBlock*productOn(s).mr + productOn(s).mr/2, 128}
		cols := []int{productOn(s).nr, stripPanels * productOn(s).nr, 3 * stripPanels * productOn(s).nr, 5*stripPanels*productOn(s).nr + productOn(s).nr/2}
		depths := []int{16, 256, kBlock, kBlock + 256, 3 * kBlock}
		for i := range some(3 * len(kinds)) {
			g := randomGemm(r, around(rows[r.IntN(len(rows))]), around(cols[r.IntN(len(cols))]),
				around(depths[r.IntN(len(depths))]), 1)
			if i%10 == 0 {
				g = randomGemm(r, stripRows+productOn(s).mr+1, productOn(s).nr+3, 40, 1) // two blocks of rows
			}
			wide := *g // with float32 weights of the same values
			if d := kinds[i%len(kinds)]; d.IsPacked() {
				g.TransB, g.Precision = true, Float32
				g.K = (g.K + d.Values() - 1) / d.Values() * d.Values()
				g.TransA, g.LDA, g.LDB = false, g.K+r.IntN(3), g.K
				w, values := make([]byte, g.N*g.K/d.Values()*d.Size()), make([]float32, g.N*g.K)
				quant.Random(w, d, r.Uint32)
				quant.Decode(values, d, w)
				g.A, g.B = randoms(r, g.M*g.LDA), Packed(d, w)
				wide = *g
				wide.B = F32(values)
			} else {
				g.B = randomWeights(r, d, g.B.Len())
				wide = *g
			}
			what := fmt.Sprintf("%s: %s", name, describe(g))
			want := gemm64(&wide)
			size := 1.0 // weights of packed types may be large
			for _, v := range wide.B.f32 {
				size = max(size, math.Abs(float64(v)))
			}
			var first []float32
			for _, p := range pools {
				got := runGemm(t, p, g, what)
				if first == nil {
					first = got
					compare(t, what, got, want, size*(1e-6*math.Sqrt(float64(g.K))+2e-6), 1e-5)
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
