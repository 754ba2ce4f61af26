package conv

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// BenchmarkLayers measures layers of networks for small images, on one thread.
func BenchmarkLayers(b *testing.B) {
	for _, c := range []struct{ n, cin, cout, size, kernel, stride, groups int }{
		{2, 3, 64, 64, 7, 2, 1}, {2, 64, 64, 16, 3, 1, 1}, {2, 64, 128, 16, 3, 2, 1}, {2, 128, 128, 8, 3, 1, 1},
		{2, 256, 256, 4, 3, 1, 1}, {2, 512, 512, 2, 3, 1, 1}, {2, 256, 512, 4, 1, 2, 1}, {2, 96, 24, 16, 1, 1, 1},
		{2, 480, 80, 4, 1, 1, 1}, {2, 1152, 192, 2, 1, 1, 1}, {2, 1152, 48, 1, 1, 1, 1}, {2, 96, 96, 32, 3, 2, 96},
		{2, 3, 64, 96, 7, 2, 1}, {2, 64, 64, 24, 1, 1, 1}, {2, 64, 192, 24, 3, 1, 1}, {2, 192, 64, 12, 1, 1, 1},
		{2, 96, 128, 12, 3, 1, 1}, {2, 16, 32, 12, 3, 1, 1}, {2, 480, 192, 6, 1, 1, 1}, {2, 96, 208, 6, 3, 1, 1},
		{2, 512, 24, 6, 1, 1, 1}, {2, 24, 64, 6, 3, 1, 1}, {2, 832, 384, 3, 1, 1, 1}, {2, 192, 384, 3, 3, 1, 1},
		{2, 64, 64, 15, 3, 1, 1}, {2, 128, 32, 16, 3, 1, 1}, {2, 128, 32, 4, 3, 1, 1}, {2, 1024, 128, 4, 1, 1, 1},
		{2, 64, 192, 27, 5, 1, 1}, {2, 384, 256, 13, 3, 1, 1}, {1, 64, 64, 56, 3, 1, 1}, {1, 256, 256, 14, 3, 1, 1},
		{1, 512, 512, 7, 3, 1, 1}, {1, 128, 128, 56, 3, 2, 1}, {1, 3, 64, 224, 7, 2, 1}, {1, 256, 64, 56, 1, 1, 1},
		{1, 1024, 512, 14, 1, 1, 1},
		{2, 480, 480, 4, 5, 1, 480}, {2, 1152, 1152, 2, 5, 1, 1152}, {2, 512, 512, 4, 3, 1, 32},
		{1, 576, 576, 2, 5, 1, 576}, {2, 576, 576, 2, 5, 1, 576}, {2, 480, 480, 4, 3, 2, 480}, {1, 3, 16, 64, 3, 2, 1},
	} {
		a := Args{N: c.n, Cin: c.cin, Cout: c.cout, Groups: c.groups, In: [3]int{1, c.size, c.size},
			Kernel: [3]int{1, c.kernel, c.kernel}, Stride: [3]int{1, c.stride, c.stride},
			Pad: [3]int{0, c.kernel / 2, c.kernel / 2}, Dilation: [3]int{1, 1, 1}}
		r, out := kerneltest.RNG(3), a.OutSize()
		a.X = kerneltest.Randoms(r, c.n*c.cin*c.size*c.size)
		w := kerneltest.Randoms(r, c.cout*c.cin/c.groups*c.kernel*c.kernel)
		a.Weight, a.Bias = stored.F32(w), kerneltest.Randoms(r, c.cout)
		a.Packed = new(Packed)
		a.Out = make([]float32, c.n*c.cout*out[1]*out[2])
		b.Run(fmt.Sprintf("%dx%dx%d-%d,k%d,s%d,g%d", c.n, c.cin, c.size, c.cout, c.kernel, c.stride, c.groups),
			func(b *testing.B) {
				p, err := pool.New(1)
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				for b.Loop() {
					Convolve(p, &a)
				}
				flops := 2 * float64(len(w)) * float64(c.n*out[1]*out[2])
				b.ReportMetric(flops*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
			})
	}
}

// BenchmarkTransposed measures the transposed convolutions of a small vocoder and one of images, on one thread.
func BenchmarkTransposed(b *testing.B) {
	for _, a := range []Args{
		{N: 2, Cin: 32, Cout: 16, In: [3]int{1, 1, 12}, Kernel: [3]int{1, 1, 8}, Stride: [3]int{1, 1, 4},
			Pad: [3]int{0, 0, 2}},
		{N: 2, Cin: 16, Cout: 8, In: [3]int{1, 1, 48}, Kernel: [3]int{1, 1, 4}, Stride: [3]int{1, 1, 2},
			Pad: [3]int{0, 0, 1}},
		{N: 1, Cin: 16, Cout: 8, In: [3]int{1, 8, 8}, Kernel: [3]int{1, 4, 4}, Stride: [3]int{1, 2, 2},
			Pad: [3]int{0, 1, 1}},
	} {
		a.Transposed, a.Groups, a.Dilation, a.Packed = true, 1, [3]int{1, 1, 1}, new(Packed)
		r, out := kerneltest.RNG(3), a.OutSize()
		a.X = kerneltest.Randoms(r, a.N*a.Cin*a.In[1]*a.In[2])
		a.Weight = stored.F32(kerneltest.Randoms(r, a.Cout*a.Cin*a.Kernel[1]*a.Kernel[2]))
		a.Bias, a.Out = kerneltest.Randoms(r, a.Cout), make([]float32, a.N*a.Cout*out[1]*out[2])
		b.Run(fmt.Sprintf("%dx%dx%v-%d,s%d", a.N, a.Cin, a.In, a.Cout, a.Stride[2]), func(b *testing.B) {
			p, err := pool.New(1)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			for b.Loop() {
				Convolve(p, &a)
			}
		})
	}
}
