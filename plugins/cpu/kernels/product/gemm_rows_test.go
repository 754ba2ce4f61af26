package product

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestGemmRows checks that products by rows have the bits of the other ways to compute them, which the number of
// threads chooses between. It tries all kinds of weights, numbers of rows that leave part of a vector empty, several
// blocks of rows and of k, and all epilogues.
func TestGemmRows(t *testing.T) {
	kinds := []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K,
		dtype.Q3_K, dtype.IQ4_NL}
	for _, name := range kerneltest.Sets(t) {
		p, other := kerneltest.NewPool(t, 3, name), kerneltest.NewPool(t, 3, name)
		if On(p.Set).rowsProduct == nil {
			continue
		}
		other.Set = isa.Extend(p.Set, "packed")
		table.Add(other.Set, func() *Routines {
			r := *On(p.Set)
			r.rowsProduct = nil
			return &r
		})
		s, r := p.Set, kerneltest.RNG(12)
		rows := []int{s.Lanes, On(s).NR, 2 * On(s).NR, 3*On(s).NR + s.Lanes, rowsBlock, rowsBlock + s.Lanes, stripRows,
			stripRows + On(s).NR}
		depths := []int{0, 1, 31, KBlock, KBlock + 256, 2*KBlock + 3}
		for i := range kerneltest.Some(4 * len(kinds)) {
			m := rows[i%len(rows)] - r.IntN(s.Lanes/2+1)
			n := 4*On(s).MR*p.Threads() + r.IntN(3*rowGroups*On(s).MR)
			k := depths[r.IntN(len(depths))]
			if least := 4 * min(m, 2*rowsBlock); k < least {
				k += least
			}
			g := randomGemm(r, max(m, On(s).MR+1), n, k, 1)
			g.TransB, g.Precision = true, Float32
			d := kinds[i%len(kinds)]
			if d.IsPacked() {
				g.K = pool.CeilDiv(g.K, d.Values()) * d.Values()
			}
			g.LDA, g.LDB = max(g.K, g.M)+r.IntN(3), g.K
			g.A, g.B = kerneltest.Randoms(r, max(g.M, g.K)*g.LDA), kerneltest.RandomWeights(r, d, n*g.K)
			if d.IsPacked() {
				w := make([]byte, n*g.K/d.Values()*d.Size())
				quant.Random(w, d, r.Uint32)
				g.B = stored.Packed(d, w)
			} else if i%3 == 0 {
				g.A[r.IntN(len(g.A))] = float32(math.Inf(1))
			}
			what := name + ": " + describe(g)
			if !g.byRows(p) || g.byRows(other) {
				t.Fatalf("%s: by rows: %v, and without the kernel %v", what, g.byRows(p), g.byRows(other))
			}
			got, want := runGemm(t, p, g, what), runGemm(t, other, g, what)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%s: element %d is %v by rows, %v otherwise", what, i, got[i], want[i])
				}
			}
		}
	}
}
