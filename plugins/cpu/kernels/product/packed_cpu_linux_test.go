package product

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// BenchmarkPackedRows measures products of the linear layers of a Llama of 1B with few rows and with those of a prompt,
// for all sets with vectors. It takes the processor time of one thread, which other processes disturb less. GB/s are
// those of weights that are read from memory. peak% is the rate of multiply-adds in percent of that of a loop of
// nothing else: for f32 of fused multiply-adds, for q8 of four times as many, which is what VPMADDUBSW and VPDPBUSD can
// do. Numbers are medians.
func BenchmarkPackedRows(b *testing.B) {
	const bytes = 48 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range isa.Available() {
		if On(s).fmaLoop == nil {
			continue
		}
		p, err := pool.NewFor(1, s.Name)
		if err != nil {
			b.Fatal(err)
		}
		for _, d := range []dtype.DType{dtype.F16, dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K} {
			for _, size := range [][2]int{{8192, 2048}, {2048, 8192}, {2048, 2048}, {512, 2048}} {
				n, k := size[0], size[1]
				one := n * k / d.Values() * d.Size() // bytes of a matrix
				memory := equalMatrices(rng, d, n*k, max(1, bytes/one))
				for _, m := range []int{1, 2, 3, 4, 5, 8, 12, 16, 32, 128} {
					for _, way := range []string{"f32", "q8"} {
						if way == "q8" && !d.IsPacked() {
							continue
						}
						x, c := make([]float32, m*k), make([]float32, m*n)
						for i := range x {
							x[i] = rng.Float32() - 0.5
						}
						b.Run(fmt.Sprintf("%s/%v/%dx%d/%d/%s", s.Name, d, n, k, m, way), func(b *testing.B) {
							var times, peaks []float64
							for i := range b.N {
								w := memory[i%(len(memory)/one)*one:][:one]
								g := GemmArgs{M: m, N: n, K: k, A: x, LDA: k, B: weightsIn(d, w), LDB: k, TransB: true,
									C: c, LDC: n}
								start := processorTime(b)
								if way == "q8" {
									GemmRounded(p, &g)
								} else {
									Gemm(p, &g)
								}
								end := processorTime(b)
								times = append(times, end-start)
								peaks = append(peaks, FMAFlops(p, 2000)/2/(processorTime(b)-end))
							}
							slices.Sort(times)
							slices.Sort(peaks)
							t, peak := times[b.N/2], peaks[b.N/2]
							if way == "q8" {
								peak *= 4
							}
							b.ReportMetric(float64(one)/t/1e9, "GB/s")
							b.ReportMetric(100*float64(m)*float64(n)*float64(k)/t/peak, "peak%")
							b.ReportMetric(t*1e6, "cpu-us")
							b.ReportMetric(0, "ns/op")
						})
					}
				}
			}
		}
		p.Close()
	}
}

// processorTime returns the seconds of processor time that the process has used.
func processorTime(b *testing.B) float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return float64(t.Nano()) / 1e9
}
