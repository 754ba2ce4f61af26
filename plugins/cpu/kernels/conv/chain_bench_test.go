package conv

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// BenchmarkChain measures chains of twenty small convolutions, each of which reads the result of the one before, on one
// thread and on two. With two, transfers of cache lines from core to core take much of the time. On one virtual machine
// two such transfers took 50 ns at some times and 300 ns at others, so compare results of the same minutes. The
// shortest time is that of runs whose second thread had a processor.
func BenchmarkChain(b *testing.B) {
	const length = 20
	for _, c := range []struct{ n, c, size, kernel, groups int }{
		{2, 24, 16, 1, 1}, {2, 48, 16, 3, 48}, {2, 72, 8, 5, 72}, {2, 96, 8, 1, 1}, {2, 240, 4, 5, 240},
		{2, 240, 4, 1, 1}, {2, 32, 15, 3, 1}, {2, 64, 16, 3, 1}, {2, 64, 32, 3, 1}, {2, 576, 2, 5, 576},
	} {
		r := kerneltest.RNG(3)
		var chain [length]Args
		x := kerneltest.Randoms(r, c.n*c.c*c.size*c.size)
		for i := range chain {
			a := &chain[i]
			*a = Args{N: c.n, Cin: c.c, Cout: c.c, Groups: c.groups, In: [3]int{1, c.size, c.size},
				Kernel: [3]int{1, c.kernel, c.kernel}, Stride: [3]int{1, 1, 1}, X: x,
				Pad: [3]int{0, c.kernel / 2, c.kernel / 2}, Dilation: [3]int{1, 1, 1}, Packed: new(Packed)}
			w := kerneltest.Randoms(r, c.c*c.c/c.groups*c.kernel*c.kernel)
			for j := range w {
				w[j] /= float32(c.c / c.groups * c.kernel)
			}
			a.Weight, a.Bias = stored.F32(w), kerneltest.Randoms(r, c.c)
			a.Out = make([]float32, len(x))
			x = a.Out
		}
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dx%dx%d,k%d,g%d,threads%d", c.n, c.c, c.size, c.kernel, c.groups, threads),
				func(b *testing.B) {
					p, err := pool.New(threads)
					if err != nil {
						b.Fatal(err)
					}
					defer p.Close()
					var times []time.Duration
					for b.Loop() {
						start := time.Now()
						for i := range chain {
							Convolve(p, &chain[i])
						}
						times = append(times, time.Since(start))
					}
					slices.Sort(times)
					b.ReportMetric(float64(times[0].Nanoseconds())/1e3/length, "min-us/conv")
					b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3/length, "median-us/conv")
					b.ReportMetric(0, "ns/op")
				})
		}
	}
}
