package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
)

// BenchmarkPackedCached measures products of packed weights on one thread, for all sets. Weights stay in the second-level cache. f32 and q8 have
// one row of activations: ns/256 is the time for 256 weights. tile has 16 rows and 16 columns: macs/ns is multiply-adds in a nanosecond. Both
// are of the fastest call, since other processes slow down most of them on a shared machine.
func BenchmarkPackedCached(b *testing.B) {
	const k, n, side = 2048, 64, integerSide
	for _, s := range available() {
		for _, d := range []dtype.DType{dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K} {
			rng := rand.New(rand.NewPCG(1, 2))
			stride := k / d.Values() * d.Size()
			w, x, sums, dst := make([]byte, n*stride), make([]float32, k), make([]float32, k/32), make([]float32, n)
			quant.Random(w, d, rng.Uint32)
			for i := range x {
				x[i] = rng.Float32() - 0.5
			}
			groupSums(sums, x)
			run := func(name string, f func(), report func(b *testing.B, ns float64)) {
				b.Run(fmt.Sprintf("%s/%v/%s", s.name, d, name), func(b *testing.B) {
					best := time.Hour
					for range b.N {
						start := time.Now()
						f()
						best = min(best, time.Since(start))
					}
					report(b, float64(best.Nanoseconds()))
				})
			}
			row := func(b *testing.B, ns float64) { b.ReportMetric(ns/(k*n/256), "ns/256") }
			if dot := s.packed[d].dot; dot != nil {
				arranged := x
				if arrange := s.packed[d].arrange; arrange != nil {
					arranged = make([]float32, k)
					arrange(arranged, x)
				}
				run("f32", func() { dot(dst, w, stride, arranged, sums) }, row)
			}
			if dot := s.dotBytes[d].dot; dot != nil {
				r := roundedRow{make([]int8, k), make([]float32, k/32), make([]float32, k/32), make([]float32, k/16), make([]int32, k/4)}
				s.roundRow(r.q, r.scale, r.halves, x)
				run("q8", func() { dot(dst, w, stride, &r) }, row)
			}
			if f := s.integerFormats[d]; f.multiply != nil {
				groups := integerDepth / f.group
				floats := func() []float32 { return make([]float32, groups*side) }
				p := groupProduct{rows: side, groups: groups, group: f.group, a: make([]int8, integerDepth*side), b: make([]int8, integerDepth*f.width()*side),
					sums: make([]int32, groups*side), dx: floats(), dw: floats(), c: make([]float32, side*side), ldc: side, room: make([]float32, 2*side*side)}
				if f.lows {
					p.xs, p.low = floats(), floats()
				}
				run("tile", func() { f.multiply(p) }, func(b *testing.B, ns float64) { b.ReportMetric(integerDepth*side*side/ns, "macs/ns") })
			}
		}
	}
}
