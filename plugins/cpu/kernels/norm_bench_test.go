package kernels

import "testing"

// BenchmarkNorms times norms, softmax and reductions on one thread.
func BenchmarkNorms(b *testing.B) {
	p, _ := NewPool(1)
	defer p.Close()
	x := randoms(rng(1), 4096*768)
	y := make([]float32, len(x))
	h, z := make([]uint16, len(x)), make([]uint16, len(x))
	BF16(h).put(p.Set, 0, append([]float32(nil), x...))
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
		func() { Softmax(p, SoftmaxArgs{Dst: F32(y), X: F32(x), Outer: 2048, N: 196, Inner: 1}) })
	run(
		"softmax512", 2048*512,
		func() { Softmax(p, SoftmaxArgs{Dst: F32(y), X: F32(x), Outer: 2048, N: 512, Inner: 1}) })
	run(
		"softmaxCols", 64*4096,
		func() { Softmax(p, SoftmaxArgs{Dst: F32(y), X: F32(x), Outer: 1, N: 64, Inner: 4096}) })
	run("logsoftmax512", 2048*512,
		func() { Softmax(p, SoftmaxArgs{Dst: F32(y), X: F32(x), Outer: 2048, N: 512, Inner: 1, Log: true}) })
	run(
		"softmaxBF16", 2048*512,
		func() { Softmax(p, SoftmaxArgs{Dst: BF16(z), X: BF16(h), Outer: 2048, N: 512, Inner: 1}) })
	run(
		"softmaxF16", 2048*512,
		func() { Softmax(p, SoftmaxArgs{Dst: F16(z), X: F16(h), Outer: 2048, N: 512, Inner: 1}) })
	run("max1", len(x), func() { ReduceFloats(p, ReduceMax, F32(y), F32(x), []int{4096, 768}, []int{1}) })
	run("max0", len(x), func() { ReduceFloats(p, ReduceMax, F32(y), F32(x), []int{4096, 768}, []int{0}) })
	run("maxAll", len(x), func() { ReduceFloats(p, ReduceMax, F32(y), F32(x), []int{4096, 768}, []int{0, 1}) })
	run("sum0", len(x), func() { ReduceFloats(p, Sum, F32(y), F32(x), []int{4096, 768}, []int{0}) })
	run("sum1", len(x), func() { ReduceFloats(p, Sum, F32(y), F32(x), []int{4096, 768}, []int{1}) })
	run("prod0", len(x), func() { ReduceFloats(p, Prod, F32(y), F32(x), []int{4096, 768}, []int{0}) })
	run("narrowF16", len(x), func() { vecOn(p.Set).narrowF16(z, x) })
	run("norm", len(x), func() {
		Norm(p, NormArgs{Dst: F32(y), X: F32(x), Gamma: F32(x), Beta: F32(x), N: 768, Center: true}, 4096)
	})
}
