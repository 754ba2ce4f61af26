package norm

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// BenchmarkNorms times norms, softmax and reductions on one thread.
func BenchmarkNorms(b *testing.B) {
	p, _ := pool.New(1)
	defer p.Close()
	x := kerneltest.Randoms(kerneltest.RNG(1), 4096*768)
	y := make([]float32, len(x))
	h, z := make([]uint16, len(x)), make([]uint16, len(x))
	stored.BF16(h).Put(p.Set, 0, append([]float32(nil), x...))
	run := func(name string, n int, f func()) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/elem")
		})
	}
	run(
		"softmax196", 2048*196,
		func() { Softmax(p, SoftmaxArgs{Dst: stored.F32(y), X: stored.F32(x), Outer: 2048, N: 196, Inner: 1}) })
	for _, n := range []int{2, 5, 12, 16, 21, 32, 33, 48, 64} {
		rows := 1 << 16 / n
		run(fmt.Sprint("softmax", n), rows*n, func() {
			Softmax(p, SoftmaxArgs{Dst: stored.F32(y), X: stored.F32(x), Outer: rows, N: n, Inner: 1})
		})
	}
	run(
		"softmax512", 2048*512,
		func() { Softmax(p, SoftmaxArgs{Dst: stored.F32(y), X: stored.F32(x), Outer: 2048, N: 512, Inner: 1}) })
	run(
		"softmaxCols", 64*4096,
		func() { Softmax(p, SoftmaxArgs{Dst: stored.F32(y), X: stored.F32(x), Outer: 1, N: 64, Inner: 4096}) })
	run("logsoftmax512", 2048*512,
		func() {
			Softmax(p, SoftmaxArgs{Dst: stored.F32(y), X: stored.F32(x), Outer: 2048, N: 512, Inner: 1, Log: true})
		})
	run(
		"softmaxBF16", 2048*512,
		func() { Softmax(p, SoftmaxArgs{Dst: stored.BF16(z), X: stored.BF16(h), Outer: 2048, N: 512, Inner: 1}) })
	run(
		"softmaxF16", 2048*512,
		func() { Softmax(p, SoftmaxArgs{Dst: stored.F16(z), X: stored.F16(h), Outer: 2048, N: 512, Inner: 1}) })
	run("max1", len(x), func() {
		reduce.Floats(p, reduce.Max, stored.F32(y), stored.F32(x), []int{4096, 768},
			[]int{1})
	})
	run("max0", len(x), func() {
		reduce.Floats(p, reduce.Max, stored.F32(y), stored.F32(x), []int{4096, 768},
			[]int{0})
	})
	run("maxAll", len(x), func() {
		reduce.Floats(p, reduce.Max, stored.F32(y), stored.F32(x), []int{4096, 768},
			[]int{0, 1})
	})
	run("sum0", len(x), func() {
		reduce.Floats(p, reduce.Sum, stored.F32(y), stored.F32(x), []int{4096, 768},
			[]int{0})
	})
	run("sum1", len(x), func() {
		reduce.Floats(p, reduce.Sum, stored.F32(y), stored.F32(x), []int{4096, 768},
			[]int{1})
	})
	run("prod0", len(x), func() {
		reduce.Floats(p, reduce.Prod, stored.F32(y), stored.F32(x), []int{4096, 768},
			[]int{0})
	})
	run("narrowF16", len(x), func() { vec.On(p.Set).NarrowF16(z, x) })
	run("norm", len(x), func() {
		Normalize(p, Args{Dst: stored.F32(y), X: stored.F32(x), Gamma: stored.F32(x), Beta: stored.F32(x), N: 768,
			Center: true}, 4096)
	})
}

// BenchmarkBatchNorm times batch norms of [1, channels, area] on one thread.
func BenchmarkBatchNorm(b *testing.B) {
	p, _ := pool.New(1)
	defer p.Close()
	for _, area := range []int{49, 196, 784, 3136} {
		c := 150528 / area
		r := kerneltest.RNG(1)
		x, dst, ones := kerneltest.Randoms(r, c*area), make([]float32, c*area), make([]float32, c)
		vec.Fill(ones, 1)
		g := BatchNormArgs{Dst: dst, X: x, Gamma: ones, Beta: ones, Mean: ones, Variance: ones, Batch: 1, Channels: c,
			Area: area, Eps: 1e-5, Kept: new(BatchNormKept)}
		b.Run(fmt.Sprint(area), func(b *testing.B) {
			b.SetBytes(int64(8 * len(x)))
			for b.Loop() {
				BatchNorm(p, &g)
			}
		})
	}
}
