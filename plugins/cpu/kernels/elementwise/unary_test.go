package elementwise

import (
	"math"
	"math/big"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// ulps returns the distance of got from want in units in the last place of want as a float32.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	if math.IsNaN(want) || math.IsInf(float64(w), 0) {
		if math.IsNaN(want) == (got != got) && (math.IsNaN(want) || got == w) {
			return 0
		}
		if math.IsInf(float64(w), 0) && float64(got) == math.Copysign(math.MaxFloat32, want) {
			return 1
		}
		return math.Inf(1)
	}
	a := math.Abs(float64(w))
	ulp := math.Ldexp(1, max(math.Ilogb(max(a, 0x1p-149)), -126)-23)
	return math.Abs(float64(got)-want) / ulp
}

// otherFormulas holds formulas that differ from those in functions, as an independent check.
var otherFormulas = map[UnaryOp]func(float64) float64{
	Gelu: func(x float64) float64 {
		if math.IsInf(x, -1) {
			return math.NaN() // -Inf * 0
		}
		return x * 0.5 * math.Erfc(-x/math.Sqrt2)
	},
	GeluTanh: func(x float64) float64 {
		if math.IsInf(x, -1) {
			return math.NaN()
		}
		if x < -1 { // 1+tanh(u) as 2/(1+e^-2u), without cancellation
			return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	},
	Silu:    func(x float64) float64 { return x / (1 + math.Exp(-x)) },
	Relu:    func(x float64) float64 { return math.Max(x, 0) },
	Sigmoid: func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	Neg:     func(x float64) float64 { return 0 - x },
}

// allUnaries returns all functions, those with parameters for several values of them.
func allUnaries() (ops []UnaryOp) {
	values := map[UnaryOp][][]float64{
		Elu: {{1}, {0.3}, {-2}}, Celu: {{1}, {0.25}, {4}}, LeakyRelu: {{0.01}, {-0.5}, {3}},
		Clamp:       {{1, -1}, {math.Inf(1), 0.5}, {-1, 2}},
		Hardsigmoid: {{1. / 6, 0.5}, {0.2, 0.5}, {-3, 1}}, Softplus: {{1, 20}, {3, 20}, {0.5, math.Inf(1)}, {1, 0}},
	}
	for _, op := range Unaries() {
		if functions[op.id].params == 0 {
			ops = append(ops, op)
		}
		for _, v := range values[op] {
			ops = append(ops, op.With(v...))
		}
	}
	return ops
}

// reference64 computes a function in float64. The conformance suite compares kernels with the ops' definitions; the
// tests here compare routines with formulas.
func reference64(op UnaryOp, x float64) float64 {
	if f := otherFormulas[UnaryOp{id: op.id}]; f != nil {
		return f(x)
	}
	return functions[op.id].f(x, op.p)
}

// TestUnaryAccuracy checks each function at a million arguments, over all exponents of float32.
func TestUnaryAccuracy(t *testing.T) {
	var src []float32
	for b := uint64(0); b < 1<<32; b += 16411 * (100 / uint64(kerneltest.Some(100))) {
		src = append(src, math.Float32frombits(uint32(b)))
	}
	r := kerneltest.RNG(1)
	for range kerneltest.Some(300000) { // outside of this range most functions are constant or linear
		src = append(src, r.Float32()*40-20, r.Float32()*4-2)
	}
	for x := range 32 {
		src = append(src, float32(x)-16, float32(x)*8-128)
	}
	src = append(src, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 0,
		float32(math.Copysign(0, -1)))
	dst, want := make([]float32, len(src)), make([]float64, len(src))
	for _, op := range allUnaries() {
		for i, x := range src {
			want[i] = reference64(op, float64(x))
		}
		bound := functions[op.id]
		if bound.ulp == 0 {
			bound.ulp = 0.51
		}
		kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
			UnaryF32(p, op, dst, src)
			worst, at := 0.0, 0
			for i, y := range dst {
				if math.Abs(float64(y)-want[i]) <= bound.abs {
					continue
				}
				if u := ulps(y, want[i]); u > worst {
					worst, at = u, i
				}
			}
			t.Logf("%v: %.2f ulp at %v", op, worst, src[at])
			if worst > bound.ulp {
				t.Errorf("%v(%v) = %v, want %v: %.2f ulp, bound %v", op, src[at], dst[at], want[at], worst, bound.ulp)
			}
		})
	}
}

// TestUnarySpotValues checks published values.
func TestUnarySpotValues(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for _, c := range []struct {
			op      UnaryOp
			x, want float64
		}{{Gelu, 1, 0.841344746}, {GeluTanh, 1, 0.841191991}, {Silu, 1, 0.731058579}, {Gelu, -1, -0.158655254},
			{GeluTanh, 3, 2.996362608},
			{Gelu, 3, 2.995950306}, {Round, 0.5, 0}, {Round, 1.5, 2}, {Round, 2.5, 2}, {Erf, 0.5, 0.5204998778}} {
			x := []float32{float32(c.x)}
			UnaryF32(p, c.op, x, x)
			if !kerneltest.Near(x[0], c.want, 0, 2e-7) {
				t.Errorf("%v(%v) = %v, want %v", c.op, c.x, x[0], c.want)
			}
		}
		x := []float32{-0.5}
		UnaryF32(p, Round, x, x)
		if x[0] != 0 || !math.Signbit(float64(x[0])) {
			t.Errorf("round(-0.5) = %v, want -0", x[0])
		}
	})
}

// TestUnaryLengths checks that an element's value does not depend on its position, that nothing past the end is
// written, and that no element is computed twice in place, also if threads share the work.
func TestUnaryLengths(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		src := kerneltest.Randoms(kerneltest.RNG(2), 3*pool.Grain+77)
		for i, x := range []float32{angleLimit, -angleLimit, 1e30, 3e38, float32(math.Inf(1)), 1e-40, 0} {
			for j := i * i; j < len(src); j += 50 + 7*i { // large values: angles that must be reduced in float64
				src[j] = x
			}
		}
		for _, op := range allUnaries() {
			one := make([]float32, len(src))
			for i := range 200 {
				Apply(p.Set, op, one[i:i+1], src[i:i+1])
			}
			for _, n := range []int{0, 1, 7, 8, 9, 16, 17, 31, 33, 199} {
				dst, check := kerneltest.Guarded(n)
				UnaryF32(p, op, dst, src[:n])
				for i, x := range dst {
					if math.Float32bits(x) != math.Float32bits(one[i]) && x == x {
						t.Fatalf("%v of %d elements: element %d is %v, alone it is %v", op, n, i, x, one[i])
					}
				}
				in := append([]float32(nil), src[:n]...)
				Apply(p.Set, op, in, in)
				for i, x := range in {
					if math.Float32bits(x) != math.Float32bits(dst[i]) && x == x {
						t.Fatalf("%v of %d elements in place: element %d is %v, want %v", op, n, i, x, dst[i])
					}
				}
				if op != Log && op != Log2 && op != Log1p && op != Sqrt && op != Rsqrt {
					check(t, op.String())
				}
			}
			out := make([]float32, len(src))
			UnaryF32(p, op, out, src)
			in := append([]float32(nil), src...)
			UnaryF32(p, op, in, in)
			for i := range out {
				if math.Float32bits(in[i]) != math.Float32bits(out[i]) && in[i] == in[i] {
					t.Fatalf("%v in place: element %d is %v, want %v", op, i, in[i], out[i])
				}
			}
		}
	})
}

// TestAngles compares sine, cosine and tangent with series in extended precision, over all exponents and at the
// arguments that come closest to multiples of pi/2.
func TestAngles(t *testing.T) {
	const prec = 400
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }
	atanOfInverse := func(n float64) *big.Float { // 1/n - 1/(3 n^3) + ...
		sum, power := number(0), new(big.Float).SetPrec(prec).Quo(number(1), number(n))
		for k := 0; power.MantExp(nil) > -prec; k++ {
			term := new(big.Float).Quo(power, number(float64(2*k+1)))
			if k%2 == 1 {
				term.Neg(term)
			}
			sum.Add(sum, term)
			power.Quo(power, number(n*n))
		}
		return sum
	}
	half := new(big.Float).Mul(number(8), atanOfInverse(5)) // Machin: pi/4 = 4 atan(1/5) - atan(1/239)
	half.Sub(half, new(big.Float).Mul(number(2), atanOfInverse(239)))
	sinCos := func(x float32) (sin, cos float64) {
		n, _ := new(big.Float).Add(new(big.Float).Quo(number(float64(x)), half),
			number(math.Copysign(0.5, float64(x)))).Int(nil)
		r := new(big.Float).Mul(new(big.Float).SetPrec(prec).SetInt(n), half)
		r.Sub(number(float64(x)), r)
		s, c, term := number(0), number(0), number(1)
		for k := 0; k < 60; k++ {
			sum := []*big.Float{c, s}[k%2]
			if k%4 < 2 {
				sum.Add(sum, term)
			} else {
				sum.Sub(sum, term)
			}
			term.Mul(term, r)
			term.Quo(term, number(float64(k+1)))
		}
		fs, _ := s.Float64()
		fc, _ := c.Float64()
		switch new(big.Int).And(n, big.NewInt(3)).Int64() { // two's complement, also of negative numbers
		case 1:
			fs, fc = fc, -fs
		case 2:
			fs, fc = -fs, -fc
		case 3:
			fs, fc = -fc, fs
		}
		return fs, fc
	}
	src := []float32{16367173 * 0x1p72, -16367173 * 0x1p72, angleLimit, math.Nextafter32(angleLimit, 0),
		math.MaxFloat32}
	for k := 1; k < 1<<17; k = k*5/4 + 1 { // the closest float32 to k*pi/2 and the next ones
		x := float32(float64(k) * math.Pi / 2)
		src = append(src, x, math.Nextafter32(x, 0), -math.Nextafter32(x, 1e9))
	}
	r := kerneltest.RNG(8)
	for e := -20; e < 128; e++ {
		src = append(src, float32(math.Ldexp(1+r.Float64(), e)), -float32(math.Ldexp(1+r.Float64(), e)))
	}
	want := map[UnaryOp][]float64{}
	for _, x := range src {
		s, c := sinCos(x)
		want[Sin], want[Cos], want[Tan] = append(want[Sin], s), append(want[Cos], c), append(want[Tan], s/c)
	}
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for op, want := range want {
			got := make([]float32, len(src))
			UnaryF32(p, op, got, src)
			for i, x := range src {
				if u := ulps(got[i], want[i]); u > functions[op.id].ulp {
					t.Errorf("%v(%v) = %v, want %v: %.2f ulp, bound %v", op, x, got[i], want[i], u,
						functions[op.id].ulp)
				}
			}
		}
	})
}

// TestLogLimits checks special values of the logarithms, which the error in ulps does not cover.
func TestLogLimits(t *testing.T) {
	inf := math.Inf(1)
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for x, want := range map[float64]float64{0: -inf, math.Copysign(0, -1): -inf, 0x1p-149: -149 * math.Ln2,
			inf: inf, 1: 0, -1: math.NaN(), -inf: math.NaN(), -0x1p-149: math.NaN()} {
			got := []float32{float32(x)}
			UnaryF32(p, Log, got, got)
			if !kerneltest.Near(got[0], want, 0, 1e-7) {
				t.Errorf("log(%v) = %v, want %v", x, got[0], want)
			}
		}
	})
}

func TestUnaryOtherTypes(t *testing.T) {
	p := kerneltest.NewPool(t, 2, "")
	x := []float64{-2, -0.5, 0, 0.3, 3}
	for _, op := range allUnaries() {
		got := make([]float64, len(x))
		UnaryF64(p, op, got, x)
		for i, v := range x {
			want := reference64(op, v)
			if d := math.Abs(got[i] - want); d > 1e-14*max(1, math.Abs(want)) ||
				math.IsNaN(got[i]) != math.IsNaN(want) {
				t.Errorf("%v(%v) = %v, want %v", op, v, got[i], want)
			}
		}
	}
}

// TestErfcReference checks math.Erfc, our reference, against the series of erf in extended precision.
func TestErfcReference(t *testing.T) {
	for _, x := range []float64{0.1, 0.7, 1.3, 2.2} {
		sum, term := new(big.Float).SetPrec(200), new(big.Float).SetPrec(200).SetFloat64(x)
		x2 := new(big.Float).SetPrec(200).SetFloat64(-x)
		x2.Mul(x2, new(big.Float).SetFloat64(x))
		for n := range 200 {
			part := new(big.Float).SetPrec(200).Quo(term, big.NewFloat(float64(2*n+1)))
			sum.Add(sum, part)
			term.Mul(term, x2)
			term.Quo(term, big.NewFloat(float64(n+1)))
		}
		s, _ := sum.Float64()
		if want := 1 - 2/math.Sqrt(math.Pi)*s; math.Abs(math.Erfc(x)-want) > 4e-16 {
			t.Errorf("erfc(%v) = %v, want %v", x, math.Erfc(x), want)
		}
	}
}

func BenchmarkUnary(b *testing.B) {
	for _, name := range isa.Features() {
		p := kerneltest.NewPool(b, 1, name)
		for _, op := range allUnaries() {
			b.Run(name+"/"+op.String(), func(b *testing.B) {
				x := kerneltest.Randoms(kerneltest.RNG(1), 1<<14)
				dst := make([]float32, len(x))
				b.SetBytes(int64(4 * len(x)))
				for b.Loop() {
					UnaryF32(p, op, dst, x)
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(len(x)), "ns/element")
			})
		}
	}
}
