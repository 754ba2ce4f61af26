package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// eachIntegerPool is eachSet, and also runs f with AVX-512 without VNNI and AMX, which multiplies integers of 16 bits.
func eachIntegerPool(t *testing.T, f func(t *testing.T, p *Pool)) {
	eachSet(t, 3, f)
	if !slices.Contains(isa.Features(), "avx512") {
		return
	}
	t.Run("16 bits", func(t *testing.T) {
		p := newPool(t, 3, "avx512")
		p.Set = withoutQuads()
		f(t, p)
	})
}

func randomBytes[T int8 | uint8](r *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		if x[i] = T(r.IntN(256)); r.IntN(4) == 0 { // the ends of the range, whose products are the largest
			x[i] = T([...]int{0, 127, 128, 255}[r.IntN(4)])
		}
	}
	return x
}

// finished turns a sum of products into a result, by the definition.
func finished[T int8 | uint8](acc int32, mult float32, zero int) T {
	least, most := 0.0, 255.0
	if signed[T]() {
		least, most = -128, 127
	}
	v := math.RoundToEven(float64(float32(acc)*mult)) + float64(zero)
	if v != v {
		return 0
	}
	return T(int(min(max(v, least), most)))
}

func randomZero[T int8 | uint8](r *rand.Rand) int {
	if r.IntN(2) == 0 {
		return 0
	}
	return int(T(r.IntN(256)))
}

// multipliers returns either one or n scales. Some are special values.
func multipliers(r *rand.Rand, n int) []float32 {
	m := make([]float32, []int{1, n}[r.IntN(2)])
	for i := range m {
		m[i] = r.Float32() * 0.001
		if r.IntN(12) == 0 {
			m[i] = [...]float32{0, -0.01, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e30,
				1e-40}[r.IntN(7)]
		}
	}
	return m
}

func biases(r *rand.Rand, n int) []int32 {
	if r.IntN(2) == 0 {
		return nil
	}
	b := make([]int32, n)
	for i := range b {
		b[i] = int32(r.Uint32()) >> r.IntN(32)
	}
	return b
}

func checkQGemm[T, U int8 | uint8](t *testing.T, p *Pool, r *rand.Rand) {
	q := QGemm[T]{M: r.IntN(70), N: r.IntN(90), K: r.IntN(300), TransB: r.IntN(2) == 0, XZero: randomZero[T](r),
		YZero: randomZero[T](r), WZero: randomZero[U](r),
		Keep: &QKept{Fixed: r.IntN(2) == 0}}
	w := randomBytes[U](r, q.K*q.N)
	q.X, q.Mult, q.Bias = randomBytes[T](r, q.M*q.K), multipliers(r, max(1, q.N)), biases(r, q.N)
	if q.W = U8(bytesOf(w)); signed[U]() {
		q.W = I8(bytesOf(w))
	}
	for range 2 { // the second time, with the memory that the first run kept
		const guard = 32
		all := make([]T, q.M*q.N+2*guard)
		for i := range all {
			all[i] = 0x55
		}
		q.Dst = all[guard:][:q.M*q.N]
		q.Multiply(p)
		for i, v := range all {
			if want := T(0x55); (i < guard || i >= guard+q.M*q.N) && v != want {
				t.Fatalf("%s: wrote outside of the result", p.Features())
			}
		}
		for i, got := range q.Dst {
			row, col, acc := i/q.N, i%q.N, int32(0)
			for l := range q.K {
				at := l*q.N + col
				if q.TransB {
					at = col*q.K + l
				}
				acc += (int32(q.X[row*q.K+l]) - int32(q.XZero)) * (int32(w[at]) - int32(q.WZero))
			}
			if q.Bias != nil {
				acc += q.Bias[col]
			}
			if want := finished[T](acc, q.Mult[col%len(q.Mult)], q.YZero); got != want {
				t.Fatalf("%s: %d x %d x %d, zeros %d %d %d: element %d, %d is %d, want %d (sum %d)", p.Features(), q.M,
					q.N, q.K, q.XZero, q.WZero, q.YZero, row, col, got, want, acc)
			}
		}
	}
}

func TestQGemm(t *testing.T) {
	eachIntegerPool(t, func(t *testing.T, p *Pool) {
		r := rng(31)
		for range some(40) {
			checkQGemm[int8, int8](t, p, r)
			checkQGemm[int8, uint8](t, p, r)
			checkQGemm[uint8, int8](t, p, r)
			checkQGemm[uint8, uint8](t, p, r)
		}
	})
}

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
	eachIntegerPool(t, func(t *testing.T, p *Pool) {
		r := rng(32)
		for range some(15) {
			checkQConv[int8, int8](t, p, r)
			checkQConv[int8, uint8](t, p, r)
			checkQConv[uint8, int8](t, p, r)
			checkQConv[uint8, uint8](t, p, r)
		}
	})
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
			fits(t, p, need, fmt.Sprintf("%s with %d threads: %s", p.Features(), p.Threads(), describeConv(g)))
		})
	}
}

func BenchmarkIntegers(b *testing.B) {
	r := rng(1)
	report := func(b *testing.B, products int) {
		b.ReportMetric(2*float64(b.N)*float64(products)/b.Elapsed().Seconds()/1e9, "GOP/s")
	}
	b.Run("qmatmul", func(b *testing.B) {
		const m, k, n = 512, 768, 768
		q := QGemm[int8]{M: m, N: n, K: k, X: randomBytes[int8](r, m*k), W: I8(randomBytes[uint8](r, k*n)),
			Dst: make([]int8, m*n), TransB: true, Mult: []float32{1e-3}, Keep: &QKept{Fixed: true}}
		p := newPool(b, 0, "")
		for b.Loop() {
			q.Multiply(p)
		}
		report(b, m*k*n)
	})
	b.Run("qconv2d", func(b *testing.B) {
		g := conv2D(56, 64, 64, 3, 1, 1, 1, false)
		q := QConv[uint8]{Size: g, X: randomBytes[uint8](r, 64*56*56), W: randomBytes[uint8](r, 64*64*9), WSigned: true,
			Dst: make([]uint8, 64*56*56), Mult: []float32{1e-3}, Keep: &QConvKept{Fixed: true}}
		p := newPool(b, 0, "")
		for b.Loop() {
			q.Run(p)
		}
		report(b, 64*64*9*56*56)
	})
}
