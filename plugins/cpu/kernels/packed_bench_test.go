package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
)

// BenchmarkPackedRows measures products of packed weights and one row of activations on one thread, with weights that stay in the second-level
// cache. ns/256 is the time for 256 weights in the fastest call. It tells whether memory or the kernel limits BenchmarkPackedVector.
func BenchmarkPackedRows(b *testing.B) {
	const k, n = 2048, 128
	sets := available()
	s := sets[len(sets)-1]
	for _, d := range []dtype.DType{dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K} {
		rng := rand.New(rand.NewPCG(1, 2))
		stride := k / d.Values() * d.Size()
		w, dst, x := make([]byte, n*stride), make([]float32, n), make([]float32, k)
		quant.Random(w, d, rng.Uint32)
		for i := range x {
			x[i] = rng.Float32() - 0.5
		}
		run := func(name string, dot func()) {
			b.Run(fmt.Sprintf("%v/%s", d, name), func(b *testing.B) {
				best := time.Hour
				for range b.N {
					start := time.Now()
					dot()
					best = min(best, time.Since(start))
				}
				b.ReportMetric(float64(best.Nanoseconds())/(n*k/256), "ns/256")
			})
		}
		if dot := s.packed[d].dot; dot != nil {
			sums := make([]float32, k/32)
			groupSums(sums, x)
			arranged := x
			if arrange := s.packed[d].arrange; arrange != nil {
				arranged = make([]float32, k)
				arrange(arranged, x)
			}
			run("f32", func() { dot(dst, w, stride, arranged, sums) })
		}
		if dot := s.dotBytes[d].dot; dot != nil {
			r := &roundedRow{q: make([]int8, k), scale: make([]float32, k/32), sums: make([]float32, k/32), halves: make([]float32, k/16), excess: make([]int32, k/4)}
			s.roundRow(r.q, r.scale, r.halves, x)
			run("q8", func() { dot(dst, w, stride, r) })
		}
	}
}
