package product

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// BenchmarkPackedCached measures products of packed weights on one thread, for all sets. Weights stay in the
// second-level cache. f32 and q8 have one row of activations: ns/256 is the time for 256 weights. tile has 8 or 16 rows
// and 16 columns: macs/ns is multiply-adds in a nanosecond. Both are of the fastest call, since other processes slow
// down most of them on a shared machine.
func BenchmarkPackedCached(b *testing.B) {
	const k, n, side = 2048, 64, integerSide
	for _, s := range isa.Available() {
		for _, d := range []dtype.DType{dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K, dtype.IQ4_XS} {
			rng := rand.New(rand.NewPCG(1, 2))
			stride := k / d.Values() * d.Size()
			w, x, sums, dst := make([]byte, n*stride), make([]float32, k), make([]float32, k/32), make([]float32, n)
			quant.Random(w, d, rng.Uint32)
			for i := range x {
				x[i] = rng.Float32() - 0.5
			}
			groupSums(sums, x)
			run := func(name string, f func(), report func(b *testing.B, ns float64)) {
				b.Run(fmt.Sprintf("%s/%v/%s", s.Name, d, name), func(b *testing.B) {
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
			if dot := stored.On(s).Packed[d].Dot; dot != nil {
				arranged := x
				if arrange := stored.On(s).Packed[d].Arrange; arrange != nil {
					arranged = make([]float32, k)
					arrange(arranged, x)
				}
				run("f32", func() { dot(dst, w, stride, arranged, sums) }, row)
			}
			if dot := On(s).dotBytes[d].dot; dot != nil {
				r := roundedRow{q: make([]int8, k), scale: make([]float32, k/32), sums: make([]float32, k/32),
					halves: make([]float32, k/16), excess: make([]int32, k/4)}
				On(s).roundRow(r.q, r.scale, r.halves, x)
				run("q8", func() { dot(dst, w, stride, &r) }, row)
			}
			f := On(s).integerFormats[d]
			macs := func(rows int) func(b *testing.B, ns float64) {
				return func(b *testing.B, ns float64) {
					b.ReportMetric(float64(integerDepth/2*side*rows)/ns, "macs/ns")
				}
			}
			groups := integerDepth / 2 / max(1, f.group)
			floats := func(n int) []float32 { return make([]float32, n) }
			switch {
			case f.eights.multiply != nil:
				x, q := floats(groups*f.eightsRecord()), make([]int8, side*f.eightsColumn())
				scales, c := floats(2*side*eightsScales), floats(side*eightsRows)
				run("tile", func() {
					f.eights.multiply(&x[0], &q[0], &scales[0], &c[0], groups, side/f.eights.set, nil, 0, 0, 0)
				}, macs(eightsRows))
			case f.multiply != nil:
				p := groupProduct{rows: side, groups: groups, group: f.group, a: make([]int8, integerDepth/2*side),
					b:  make([]int8, integerDepth/2*side),
					dx: floats(groups * side), dw: floats(groups * side),
					c: floats(side * side), ldc: side, room: floats(2 * side * side)}
				if f.lows {
					p.xs, p.low = floats(groups*side), floats(groups*side)
				}
				run("tile", func() { f.multiply(p) }, macs(side))
			}
		}
	}
}

// BenchmarkMatrixVector measures products of a row of activations and weights that are read from memory, on all
// processors. floor% is the time for only reading the weights, in percent of the product's time. Both are medians of
// alternating runs.
func BenchmarkMatrixVector(b *testing.B) {
	const k, n, bytes = 2048, 8192, 256 << 20
	p, err := pool.New(0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	x, dst := make([]float32, k), make([]float32, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = rng.Float32() - 0.5
	}
	for _, d := range []dtype.DType{dtype.F16, dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K} {
		stride := k / d.Values() * d.Size()
		one := n * stride // bytes of a matrix
		memory := equalMatrices(rng, d, n*k, bytes/one)
		for _, way := range []string{"f32", "q8"} {
			run := func(g *GemmArgs) { Gemm(p, g) }
			if way == "q8" {
				if On(p.Set).dotBytes[d].dot == nil {
					continue
				}
				run = func(g *GemmArgs) { GemmRounded(p, g) }
			}
			each := func(f func(w []byte)) float64 {
				start := time.Now()
				for w := range slices.Chunk(memory, one) {
					f(w)
				}
				return time.Since(start).Seconds()
			}
			b.Run(fmt.Sprintf("%v/%s", d, way), func(b *testing.B) {
				var products, reads []float64
				for range b.N {
					products = append(products, each(func(w []byte) {
						run(
							&GemmArgs{M: 1, N: n, K: k, A: x, LDA: k, B: weightsIn(d, w), LDB: k, TransB: true, C: dst,
								LDC: n})
					}))
					reads = append(reads, each(func(w []byte) {
						p.Split(n, gemvStrip, func(lo, hi, _ int) { dst[lo] = readLines(w[lo*stride : hi*stride]) })
					}))
				}
				slices.Sort(products)
				slices.Sort(reads)
				b.ReportMetric(float64(len(memory))/products[b.N/2]/1e9, "GB/s")
				b.ReportMetric(100*reads[b.N/2]/products[b.N/2], "floor%")
			})
		}
	}
}

// BenchmarkFewRows measures products of few rows of rounded activations and weights that are read from memory, on all
// processors. row% is the time of a product with one row, in percent of the product's. Both are medians of alternating
// runs.
func BenchmarkFewRows(b *testing.B) {
	const k, n, bytes = 2048, 8192, 128 << 20
	p, err := pool.New(0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	x, dst := make([]float32, 64*k), make([]float32, 64*n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = rng.Float32() - 0.5
	}
	for _, d := range []dtype.DType{dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K} {
		one := n * k / d.Values() * d.Size() // bytes of a matrix
		memory := equalMatrices(rng, d, n*k, bytes/one)
		for _, m := range []int{2, 4, 8, 16, 32, 64} {
			each := func(m int) float64 {
				start := time.Now()
				for w := range slices.Chunk(memory, one) {
					GemmRounded(p, &GemmArgs{M: m, N: n, K: k, A: x, LDA: k, B: weightsIn(d, w), LDB: k, TransB: true,
						C: dst, LDC: n})
				}
				return time.Since(start).Seconds()
			}
			b.Run(fmt.Sprintf("%v/%d", d, m), func(b *testing.B) {
				var products, rows []float64
				for range b.N {
					products, rows = append(products, each(m)), append(rows, each(1))
				}
				slices.Sort(products)
				slices.Sort(rows)
				b.ReportMetric(float64(len(memory))/products[b.N/2]/1e9, "GB/s")
				b.ReportMetric(100*rows[b.N/2]/products[b.N/2], "row%")
			})
		}
	}
}

// BenchmarkMatrixRows measures products of the rows of a prompt and weights that are read from memory, on all
// processors: the linear layers of a Llama of 1B. GFLOP/s is the median, peak% the same in percent of the best rate of
// multiply-adds that was seen between the products.
func BenchmarkMatrixRows(b *testing.B) {
	const bytes = 64 << 20
	p, err := pool.New(0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range []dtype.DType{dtype.F32, dtype.F16, dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K} {
		for _, size := range []struct{ m, n, k int }{{128, 2048, 2048}, {128, 8192, 2048}, {128, 2048, 8192},
			{128, 512, 2048}, {512, 8192, 2048}} {
			x, dst := make([]float32, size.m*size.k), make([]float32, size.m*size.n)
			for i := range x {
				x[i] = rng.Float32() - 0.5
			}
			one := size.n * size.k / d.Values() * d.Size() // bytes of a matrix
			memory := equalMatrices(rng, d, size.n*size.k, max(1, bytes/one))
			b.Run(fmt.Sprintf("%v/%dx%dx%d", d, size.m, size.n, size.k), func(b *testing.B) {
				var products, peaks []float64
				next := 0
				for range b.N {
					w := memory[next*one:][:one]
					next = (next + 1) % (len(memory) / one)
					start := time.Now()
					Gemm(
						p, &GemmArgs{M: size.m, N: size.n, K: size.k, A: x, LDA: size.k, B: weightsIn(d, w),
							LDB: size.k, TransB: true, C: dst, LDC: size.n})
					products = append(
						products, 2*float64(size.m)*float64(size.n)*float64(size.k)/time.Since(start).Seconds())
					start = time.Now()
					peaks = append(peaks, FMAFlops(p, 20000)/time.Since(start).Seconds())
				}
				slices.Sort(products)
				slices.Sort(peaks)
				b.ReportMetric(products[b.N/2]/1e9, "GFLOP/s")
				b.ReportMetric(100*products[b.N/2]/slices.Max(peaks), "peak%")
			})
		}
	}
}

// readLines reads every cache line of w.
func readLines(w []byte) float32 {
	var sum byte
	for i := 0; i < len(w); i += 64 {
		sum += w[i]
	}
	return float32(sum)
}
