package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func checkQConv[T, U int8 | uint8](t *testing.T, p *Pool, r *rand.Rand) {
	g := randomConv(r, false)
	g.Last = false
	in, weights := make([]int, g.N*g.Cin*volume(g.In)), make([]int, g.Weight.Len())
	x, w := randomBytes[T](r, len(in)), randomBytes[U](r, len(weights))
	q := QConv[T]{Size: ConvArgs{N: g.N, Cin: g.Cin, Cout: g.Cout, In: g.In, Kernel: g.Kernel, Stride: g.Stride,
		Pad: g.Pad, Dilation: g.Dilation, Groups: g.Groups},
		X: x, W: bytesOf(w), WSigned: signed[U](), Mult: multipliers(r, g.Cout), Bias: biases(r, g.Cout),
		XZero: randomZero[T](r), WZero: randomZero[U](r),
		YZero: randomZero[T](r), Keep: &QConvKept{Fixed: r.IntN(2) == 0}}
	// The definition in float64 is exact.
	g.Bias, g.X, g.Weight = nil, make([]float32, len(in)), F32(make([]float32, len(weights)))
	for i, v := range x {
		g.X[i] = float32(int(v) - q.XZero)
	}
	for i, v := range w {
		g.Weight.f32[i] = float32(int(v) - q.WZero)
	}
	sums, area := conv64(g), volume(g.OutSize())
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
			if want := finished[T](acc, q.Mult[o%len(q.Mult)], q.YZero); got != want {
				t.Fatalf("%s: element %d is %d, want %d (sum %d)", what, i, got, want, acc)
			}
		}
	}
}

func TestQConv(t *testing.T) {
	eachSet(t, 3, func(t *testing.T, p *Pool) {
		r := rng(32)
		for range some(15) {
			checkQConv[int8, int8](t, p, r)
			checkQConv[int8, uint8](t, p, r)
			checkQConv[uint8, int8](t, p, r)
			checkQConv[uint8, uint8](t, p, r)
		}
	}, WithoutVNNI()...)
}

// TestQConvScratch checks that convolutions of integers need no more memory than QConvScratch says.
func TestQConvScratch(t *testing.T) {
	r := rng(33)
	for range some(30) {
		g := randomConv(r, false)
		g.Last = false
		larger := *g
		larger.N, larger.In[2] = g.N+r.IntN(2), g.In[2]+r.IntN(2)*40
		x, w, dst := randomBytes[uint8](r, g.N*g.Cin*volume(g.In)), randomBytes[uint8](r, g.Weight.Len()),
			make([]uint8, g.N*g.Cout*volume(g.OutSize()))
		eachNewPool(t, func(t *testing.T, p *Pool) {
			need := larger.QConvScratch(p)
			reserve(t, p, need)
			size := *g
			size.X, size.Weight, size.Bias = nil, Weights{}, nil
			q := QConv[uint8]{Size: size, X: x, Dst: dst, W: w, Mult: []float32{1e-3}, XZero: 7, WZero: 3,
				Keep: &QConvKept{}}
			q.Run(p)
			fits(t, p, need, 0, fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(), describeConv(g)))
		})
	}
}

func BenchmarkConvolveIntegers(b *testing.B) {
	r := rng(1)
	g := conv2D(56, 64, 64, 3, 1, 1, 1, false)
	q := QConv[uint8]{Size: g, X: randomBytes[uint8](r, 64*56*56), W: randomBytes[uint8](r, 64*64*9), WSigned: true,
		Dst: make([]uint8, 64*56*56), Mult: []float32{1e-3}, Keep: &QConvKept{Fixed: true}}
	p := newPool(b, 0, "")
	for b.Loop() {
		q.Run(p)
	}
	b.ReportMetric(2*float64(b.N)*64*64*9*56*56/b.Elapsed().Seconds()/1e9, "GOP/s")
}
