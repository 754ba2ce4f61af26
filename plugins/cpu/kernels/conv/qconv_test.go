package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/quad"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

func checkQConv[T, U int8 | uint8](t *testing.T, p *pool.Pool, r *rand.Rand) {
	g := randomConv(r, false)
	g.Last, g.Epilogue = false, Epilogue{}
	in, weights := make([]int, g.N*g.Cin*elementwise.Volume(g.In)), make([]int, g.Weight.Len())
	x, w := kerneltest.RandomBytes[T](r, len(in)), kerneltest.RandomBytes[U](r, len(weights))
	q := ConvolveIntegers[T]{Size: Args{N: g.N, Cin: g.Cin, Cout: g.Cout, In: g.In, Kernel: g.Kernel, Stride: g.Stride,
		Pad: g.Pad, Dilation: g.Dilation, Groups: g.Groups},
		X: x, W: pool.BytesOf(w), WSigned: quad.Signed[U](), Mult: kerneltest.Multipliers(r, g.Cout),
		Bias:  kerneltest.Biases(r, g.Cout),
		XZero: kerneltest.RandomZero[T](r), WZero: kerneltest.RandomZero[U](r),
		YZero: kerneltest.RandomZero[T](r), Keep: &Kept{Fixed: r.IntN(2) == 0}}
	// The definition in float64 is exact.
	g.Bias, g.X, g.Weight = nil, make([]float32, len(in)), stored.F32(make([]float32, len(weights)))
	for i, v := range x {
		g.X[i] = float32(int(v) - q.XZero)
	}
	for i, v := range w {
		g.Weight.Floats[i] = float32(int(v) - q.WZero)
	}
	sums, area := conv64(g), elementwise.Volume(g.OutSize())
	what := fmt.Sprintf("%s, zeros %d %d %d", describeConv(g), q.XZero, q.WZero, q.YZero)
	for range 2 {
		q.Dst = make([]T, len(sums))
		q.Run(p)
		for i, got := range q.Dst {
			o := i / area % g.Cout
			acc := int32(sums[i])
			if q.Bias != nil {
				acc += q.Bias[o]
			}
			if want := kerneltest.Finished[T](acc, q.Mult[o%len(q.Mult)], q.YZero); got != want {
				t.Fatalf("%s: element %d is %d, want %d (sum %d)", what, i, got, want, acc)
			}
		}
	}
}

func TestQConv(t *testing.T) {
	kerneltest.EachSet(t, 3, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(32)
		for range kerneltest.Some(15) {
			checkQConv[int8, int8](t, p, r)
			checkQConv[int8, uint8](t, p, r)
			checkQConv[uint8, int8](t, p, r)
			checkQConv[uint8, uint8](t, p, r)
		}
	}, quad.WithoutVNNI()...)
}

// TestQConvScratch checks that convolutions of integers need no more memory than QConvScratch says.
func TestQConvScratch(t *testing.T) {
	r := kerneltest.RNG(33)
	for range kerneltest.Some(30) {
		g := randomConv(r, false)
		g.Last = false
		larger := *g
		larger.N, larger.In[2] = g.N+r.IntN(2), g.In[2]+r.IntN(2)*40
		x, w, dst := kerneltest.RandomBytes[uint8](r, g.N*g.Cin*elementwise.Volume(g.In)),
			kerneltest.RandomBytes[uint8](r, g.Weight.Len()),
			make([]uint8, g.N*g.Cout*elementwise.Volume(g.OutSize()))
		kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
			need := larger.QConvScratch(p)
			kerneltest.Reserve(t, p, need)
			size := *g
			size.X, size.Weight, size.Bias = nil, stored.Values{}, nil
			q := ConvolveIntegers[uint8]{Size: size, X: x, Dst: dst, W: w, Mult: []float32{1e-3}, XZero: 7, WZero: 3,
				Keep: &Kept{}}
			q.Run(p)
			kerneltest.Fits(t, p, need, 0, fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(),
				describeConv(g)))
		})
	}
}

func BenchmarkConvolveIntegers(b *testing.B) {
	r := kerneltest.RNG(1)
	g := conv2D(56, 64, 64, 3, 1, 1, 1, false)
	q := ConvolveIntegers[uint8]{Size: g, X: kerneltest.RandomBytes[uint8](r, 64*56*56),
		W: kerneltest.RandomBytes[uint8](r, 64*64*9), WSigned: true,
		Dst: make([]uint8, 64*56*56), Mult: []float32{1e-3}, Keep: &Kept{Fixed: true}}
	p := kerneltest.NewPool(b, 0, "")
	for b.Loop() {
		q.Run(p)
	}
	b.ReportMetric(2*float64(b.N)*64*64*9*56*56/b.Elapsed().Seconds()/1e9, "GOP/s")
}
