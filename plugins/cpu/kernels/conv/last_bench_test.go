package conv

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// BenchmarkLayersLast measures layers of networks with channels first and last, on one thread.
func BenchmarkLayersLast(b *testing.B) {
	type layer struct{ n, cin, cout, size, kernel, stride, groups int }
	for _, net := range []struct {
		name   string
		layers []layer
	}{
		{"mnasnet0_5", []layer{
			{2, 3, 16, 64, 3, 2, 1}, {2, 16, 16, 32, 3, 1, 16}, {2, 16, 8, 32, 1, 1, 1},
			{2, 8, 24, 32, 1, 1, 1}, {2, 24, 24, 32, 3, 2, 24}, {2, 24, 16, 16, 1, 1, 1},
			{2, 16, 48, 16, 1, 1, 1}, {2, 48, 48, 16, 3, 1, 48}, {2, 48, 16, 16, 1, 1, 1},
			{2, 48, 48, 16, 5, 2, 48}, {2, 48, 24, 8, 1, 1, 1}, {2, 24, 72, 8, 1, 1, 1},
			{2, 72, 72, 8, 5, 1, 72}, {2, 144, 144, 8, 5, 2, 144}, {2, 240, 40, 4, 1, 1, 1},
			{2, 240, 240, 4, 5, 1, 240}, {2, 288, 288, 4, 5, 2, 288}, {2, 576, 96, 2, 1, 1, 1},
			{2, 96, 576, 2, 1, 1, 1}, {2, 576, 576, 2, 5, 1, 576}, {2, 160, 1280, 2, 1, 1, 1},
		}},
		{"squeezenet1_1", []layer{
			{2, 3, 64, 64, 3, 2, 1}, {2, 64, 16, 15, 1, 1, 1}, {2, 16, 64, 15, 1, 1, 1},
			{2, 16, 64, 15, 3, 1, 1}, {2, 128, 32, 7, 1, 1, 1}, {2, 32, 128, 7, 3, 1, 1},
			{2, 48, 192, 3, 1, 1, 1}, {2, 48, 192, 3, 3, 1, 1}, {2, 64, 256, 3, 3, 1, 1},
			{2, 512, 1000, 3, 1, 1, 1},
		}},
		{"resnet18", []layer{
			{2, 3, 64, 64, 7, 2, 1}, {2, 64, 64, 16, 3, 1, 1}, {2, 64, 128, 16, 3, 2, 1},
			{2, 64, 128, 16, 1, 2, 1}, {2, 128, 128, 8, 3, 1, 1}, {2, 256, 256, 4, 3, 1, 1},
			{2, 512, 512, 2, 3, 1, 1},
		}},
		{"efficientnet_b0", []layer{
			{2, 3, 32, 64, 3, 2, 1}, {2, 32, 32, 32, 3, 1, 32}, {2, 32, 16, 32, 1, 1, 1},
			{2, 16, 96, 32, 1, 1, 1}, {2, 96, 96, 32, 3, 2, 96}, {2, 144, 144, 16, 3, 1, 144},
			{2, 144, 24, 16, 1, 1, 1}, {2, 240, 240, 8, 5, 1, 240}, {2, 240, 40, 8, 1, 1, 1},
			{2, 480, 480, 4, 5, 1, 480}, {2, 80, 480, 4, 1, 1, 1}, {2, 1152, 1152, 2, 5, 1, 1152},
			{2, 192, 1152, 2, 1, 1, 1}, {2, 1152, 48, 1, 1, 1, 1},
		}},
		{"unet", []layer{
			{1, 3, 16, 40, 3, 1, 1}, {1, 16, 16, 40, 3, 1, 1}, {1, 16, 32, 20, 3, 1, 1},
			{1, 32, 32, 20, 3, 1, 1}, {1, 32, 64, 10, 3, 1, 1}, {1, 64, 64, 10, 3, 1, 1},
			{1, 128, 128, 5, 3, 1, 1}, {1, 16, 1, 40, 1, 1, 1},
		}},
		{"resnet50", []layer{
			{1, 3, 64, 224, 7, 2, 1}, {1, 64, 64, 56, 3, 1, 1}, {1, 64, 256, 56, 1, 1, 1},
			{1, 256, 64, 56, 1, 1, 1}, {1, 128, 128, 56, 3, 2, 1}, {1, 512, 128, 28, 1, 1, 1},
			{1, 128, 128, 28, 3, 1, 1}, {1, 256, 512, 56, 1, 2, 1}, {1, 256, 256, 14, 3, 1, 1},
			{1, 256, 1024, 14, 1, 1, 1}, {1, 512, 512, 7, 3, 1, 1}, {1, 2048, 512, 7, 1, 1, 1},
		}},
		{"others", []layer{
			{2, 512, 512, 4, 3, 1, 32}, {1, 3, 192, 224, 16, 16, 1}, {1, 1, 32, 64, 4, 4, 1},
		}},
	} {
		for _, l := range net.layers {
			for _, last := range []bool{false, true} {
				name := fmt.Sprintf("%s/%dx%dx%d-%d,k%d,s%d,g%d,last=%v", net.name, l.n, l.cin, l.size, l.cout,
					l.kernel, l.stride, l.groups, last)
				pad := l.kernel / 2
				if l.stride == l.kernel {
					pad = 0
				}
				a := Args{N: l.n, Cin: l.cin, Cout: l.cout, Groups: l.groups, In: [3]int{1, l.size, l.size},
					Kernel: [3]int{1, l.kernel, l.kernel}, Stride: [3]int{1, l.stride, l.stride},
					Pad: [3]int{0, pad, pad}, Dilation: [3]int{1, 1, 1}, Last: last, Packed: new(Packed)}
				b.Run(name, func(b *testing.B) { measureLayer(b, a) })
			}
		}
	}
}

// BenchmarkTransposedLast measures transposed convolutions with channels first and last, on one thread.
func BenchmarkTransposedLast(b *testing.B) {
	for _, l := range []struct{ cin, cout, size, kernel, pad int }{
		{128, 64, 5, 2, 0}, {64, 32, 10, 2, 0}, {32, 16, 20, 2, 0}, {64, 32, 16, 4, 1}, {256, 64, 64, 2, 0},
	} {
		for _, last := range []bool{false, true} {
			a := Args{Transposed: true, N: 1, Cin: l.cin, Cout: l.cout, Groups: 1, In: [3]int{1, l.size, l.size},
				Kernel: [3]int{1, l.kernel, l.kernel}, Stride: [3]int{1, 2, 2}, Pad: [3]int{0, l.pad, l.pad},
				Dilation: [3]int{1, 1, 1}, Last: last, Packed: new(Packed)}
			b.Run(fmt.Sprintf("%dx%d-%d,k%d,last=%v", l.cin, l.size, l.cout, l.kernel, last),
				func(b *testing.B) { measureLayer(b, a) })
		}
	}
}

// measureLayer measures a convolution on one thread, whose weights are packed. It reports the fastest call, since other
// programs disturb the rest.
func measureLayer(b *testing.B, a Args) {
	p, err := pool.New(1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	r, out := kerneltest.RNG(3), a.OutSize()
	a.X = kerneltest.Randoms(r, a.N*a.Cin*elementwise.Volume(a.In))
	w := kerneltest.Randoms(r, a.Cout*a.Cin/a.Groups*elementwise.Volume(a.Kernel))
	a.Weight, a.Bias = stored.F32(w), kerneltest.Randoms(r, a.Cout)
	a.Out = make([]float32, a.N*a.Cout*elementwise.Volume(out))
	Convolve(p, &a)
	best := time.Hour
	for b.Loop() {
		begin := time.Now()
		Convolve(p, &a)
		best = min(best, time.Since(begin))
	}
	if a.Transposed {
		out = a.In
	}
	flops := 2 * float64(len(w)) * float64(a.N*elementwise.Volume(out))
	b.ReportMetric(flops/float64(best.Nanoseconds()), "GFLOP/s")
}
