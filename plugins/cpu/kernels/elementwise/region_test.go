package elementwise

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// regionCase is a random region of operations whose results are exact or rounded once. So it can be evaluated in
// float64 one element at a time, with a rounding after each step.
type regionCase struct {
	bools []bool
	steps []RegionStep
}

func randomRegion(r *rand.Rand, inputs, steps int) regionCase {
	c := regionCase{}
	for range inputs {
		c.bools = append(c.bools, r.IntN(4) == 0)
	}
	c.bools[0] = false
	bit := make([]bool, 0, steps)
	pick := func(want bool) RegionRef {
		for range 40 {
			switch i := r.IntN(8); {
			case i < 4:
				if k := r.IntN(inputs); c.bools[k] == want {
					return RegionRef{Kind: RegionInput, Index: k}
				}
			case i < 7 && len(bit) > 0:
				k := len(bit) - 1 - r.IntN(min(3, len(bit)))
				if bit[k] == want {
					return RegionRef{Kind: RegionResult, Index: k}
				}
			case i == 7 && !want:
				return RegionRef{Kind: RegionNumber, Value: float32(r.IntN(5)) - 2}
			}
		}
		return RegionRef{Kind: RegionInput, Index: -1}
	}
	ops := []string{"where", "where"}
	for _, op := range Unaries() {
		if f := functions[op.id]; f.ulp == 0 && f.params == 0 {
			ops = append(ops, op.String())
		}
	}
	for _, op := range Binaries() {
		if op.TakesFloats() {
			ops = append(ops, op.String())
		}
	}
	for _, op := range Compares() {
		ops = append(ops, op.String())
	}
	for len(c.steps) < steps {
		st := RegionStep{Op: ops[r.IntN(len(ops))]}
		isBool := false
		switch _, binary := ParseBinary(st.Op); {
		case st.Op == "where":
			isBool = r.IntN(3) == 0
			st.In = []RegionRef{pick(r.IntN(4) > 0), pick(isBool), pick(isBool)}
		case binary:
			st.In = []RegionRef{pick(false), pick(false)}
		default:
			if _, relation := ParseCompare(st.Op); relation {
				of := r.IntN(3) == 0
				isBool, st.In = true, []RegionRef{pick(of), pick(of)}
			} else {
				st.In = []RegionRef{pick(false)}
			}
		}
		ok := true
		for _, ref := range st.In {
			ok = ok && ref.Index >= 0
		}
		if ok {
			c.steps, bit = append(c.steps, st), append(bit, isBool)
		}
	}
	return c
}

func (c regionCase) types() (types []dtype.DType) {
	for _, isBool := range c.bools {
		types = append(types, regionTypes[Bit(isBool)])
	}
	return types
}

// eval computes element i by definition; bools are 0 and 1.
func (c regionCase) eval(in []RegionValue, i int) float64 {
	results := make([]float64, len(c.steps))
	for s, st := range c.steps {
		var x [3]float64
		for k, ref := range st.In {
			switch ref.Kind {
			case RegionInput:
				v := in[ref.Index]
				if v.Bytes != nil {
					if v.Bytes[i%len(v.Bytes)] != 0 {
						x[k] = 1
					}
				} else {
					x[k] = float64(v.F32[i%len(v.F32)])
				}
			case RegionResult:
				x[k] = results[ref.Index]
			case RegionNumber:
				x[k] = float64(ref.Value)
			}
		}
		b, binary := ParseBinary(st.Op)
		switch u, unary := ParseUnary(st.Op); {
		case unary:
			results[s] = float64(float32(reference64(u, x[0])))
		case binary:
			results[s] = float64(float32(binary64(b, x[0], x[1])))
		case st.Op == "where" && x[0] != 0:
			results[s] = x[1]
		case st.Op == "where":
			results[s] = x[2]
		default:
			if st.Op == "eq" && x[0] == x[1] || st.Op == "ne" && x[0] != x[1] || st.Op == "lt" && x[0] < x[1] ||
				st.Op == "le" && x[0] <= x[1] ||
				st.Op == "gt" && x[0] > x[1] || st.Op == "ge" && x[0] >= x[1] {
				results[s] = 1
			}
		}
	}
	return results[len(results)-1]
}

func (c regionCase) values(r *rand.Rand, n int, periods []int) []RegionValue {
	in := make([]RegionValue, len(c.bools))
	for i, isBool := range c.bools {
		m := n
		if p := periods[r.IntN(len(periods))]; i > 0 && n%p == 0 && r.IntN(2) == 0 {
			m = p
		}
		if isBool {
			in[i].Bytes, in[i].Type = make([]uint8, m), dtype.Bool
			for j := range in[i].Bytes {
				in[i].Bytes[j] = uint8(max(0, r.IntN(4)-1))
			}
			continue
		}
		in[i].F32 = kerneltest.Randoms(r, m)
		for range 1 + m/10 {
			in[i].F32[r.IntN(m)] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0,
				1e-40}[r.IntN(5)]
		}
	}
	return in
}

func TestRegion(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(1)
		for _, n := range []int{1, 3, 17, 300, regionBlock, regionBlock + 1, 3 * 7 * 2500, 4 * pool.Grain} {
			for try := range kerneltest.Some(4 + 20000/(n+1000)) {
				c := randomRegion(r, 1+r.IntN(5), []int{1, 2, 5, 12, 32}[r.IntN(5)])
				region, err := NewRegion(c.types(), c.steps)
				if err != nil {
					t.Fatal(err)
				}
				in := c.values(r, n, []int{1, 3, 7, 256, 2500, 4 * regionBlock})
				want := make([]float64, n)
				for i := range want {
					want[i] = c.eval(in, i)
				}
				what := fmt.Sprintf("%d elements, try %d: %v", n, try, c)
				if region.steps[len(c.steps)-1].typ == dtype.Bool {
					dst := make([]uint8, n+1)
					dst[n] = 99
					region.Run(p, RegionValue{Bytes: dst[:n], Type: dtype.Bool}, in)
					for i, w := range want {
						if (dst[i] != 0) != (w != 0) {
							t.Fatalf("%s: element %d is %d, want %v", what, i, dst[i], w)
						}
					}
					if dst[n] != 99 {
						t.Fatal("overrun")
					}
					continue
				}
				dst, check := kerneltest.Guarded(n)
				region.Run(p, RegionValue{F32: dst}, in)
				check(t, what)
				kerneltest.Compare(t, what, dst, want, 0, 0)
				// The same with an input as dst.
				region.Run(p, in[0], in)
				kerneltest.Compare(t, what+", in place", in[0].F32, want, 0, 0)
			}
		}
	})
}

func TestRegionActivation(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(2)
		region, err := NewRegion([]dtype.DType{dtype.F32, dtype.F32}, []RegionStep{
			{Op: "add", In: []RegionRef{{Index: 0}, {Index: 1}}}, {Op: "gelu", In: []RegionRef{{Kind: RegionResult}}},
			{Op: "mul", In: []RegionRef{{Kind: RegionResult, Index: 1}, {Kind: RegionNumber, Value: 2}}}})
		if err != nil {
			t.Fatal(err)
		}
		x, b := kerneltest.Randoms(r, 70*768), kerneltest.Randoms(r, 768)
		dst := make([]float32, len(x))
		region.Run(p, RegionValue{F32: dst}, []RegionValue{{F32: x}, {F32: b}})
		want := make([]float64, len(x))
		for i := range want {
			want[i] = 2 * reference64(Gelu, float64(x[i])+float64(b[i%768]))
		}
		kerneltest.Compare(t, "gelu", dst, want, 1e-6, 1e-6)
	})
}

func TestRegionThreads(t *testing.T) {
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		c := regionCase{bools: []bool{false, false},
			steps: []RegionStep{{Op: "exp", In: []RegionRef{{Index: 0}}},
				{Op: "mul", In: []RegionRef{{Kind: RegionResult}, {Index: 1}}}}}
		region, err := NewRegion(c.types(), c.steps)
		if err != nil {
			t.Fatal(err)
		}
		r := kerneltest.RNG(3)
		dst := make([]float32, 9*10007)
		region.Run(p, RegionValue{F32: dst}, []RegionValue{{F32: kerneltest.Randoms(r, len(dst))},
			{F32: kerneltest.Randoms(r, 10007)}})
		return dst
	})
}

func TestRegionRefusesUnknown(t *testing.T) {
	for _, st := range []RegionStep{{Op: "gather", In: []RegionRef{{}}},
		{Op: "add", In: []RegionRef{{Index: 1}, {Index: 1}}}, {Op: "gelu", In: []RegionRef{{Index: 1}}},
		{Op: "where", In: []RegionRef{{}, {}, {Index: 1}}}} {
		if _, err := NewRegion([]dtype.DType{dtype.F32, dtype.Bool}, []RegionStep{st}); err == nil ||
			!strings.Contains(err.Error(), st.Op) {
			t.Errorf("step %v: error %v; want one that names the op", st, err)
		}
	}
}

func BenchmarkRegion(b *testing.B) {
	p := kerneltest.NewPool(b, 0, "")
	region, err := NewRegion([]dtype.DType{dtype.F32, dtype.F32, dtype.F32}, []RegionStep{
		{Op: "add", In: []RegionRef{{Index: 0}, {Index: 1}}},
		{Op: "mul", In: []RegionRef{{Kind: RegionResult}, {Index: 2}}},
		{Op: "relu", In: []RegionRef{{Kind: RegionResult, Index: 1}}}})
	if err != nil {
		b.Fatal(err)
	}
	r := kerneltest.RNG(1)
	n := 4096 * 768
	dst, x, y, z := make([]float32, n), kerneltest.Randoms(r, n), kerneltest.Randoms(r, n), kerneltest.Randoms(r, 768)
	for b.Loop() {
		region.Run(p, RegionValue{F32: dst}, []RegionValue{{F32: x}, {F32: y}, {F32: z}})
	}
	b.SetBytes(int64(n) * 12)
}

// TestRegionHalves compares binary functions of f16 and bf16, which a set may compute in one pass, with the formula
// rounded once.
func TestRegionHalves(t *testing.T) {
	r := kerneltest.RNG(32)
	input := func(i int) RegionRef { return RegionRef{RegionInput, i, 0} }
	result := func(i int) RegionRef { return RegionRef{RegionResult, i, 0} }
	for d, one := range map[dtype.DType]func(float32) uint16{dtype.F16: dtype.F32ToF16, dtype.BF16: dtype.F32ToBF16} {
		random := func(n int) []uint16 {
			x := make([]uint16, n)
			for i := range x {
				x[i] = uint16(r.Uint32())
				if i%3 > 0 { // arbitrary bits, or else ordinary numbers
					x[i] = one(r.Float32()*8 - 4)
				}
			}
			return x
		}
		for _, op := range floatBinaries() {
			twice := []RegionStep{{Op: "f32", In: []RegionRef{input(0)}},
				{Op: op.String(), In: []RegionRef{result(0), result(0)}}, {Op: d.String(), In: []RegionRef{result(1)}}}
			both := []RegionStep{twice[0], {Op: "f32", In: []RegionRef{input(1)}},
				{Op: op.String(), In: []RegionRef{result(1), result(0)}}, {Op: d.String(), In: []RegionRef{result(2)}}}
			for _, steps := range [][]RegionStep{twice, both} {
				region, err := NewRegion([]dtype.DType{d, d}, steps)
				if err != nil {
					t.Fatal(err)
				}
				if op == Add && region.half == nil {
					t.Errorf("%v of %v is not a function of halves", op, d)
				}
				kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
					for _, n := range []int{1, 15, 16, 33, 2049, 2 * 3 * 5 * 700} {
						for _, m := range []int{n, (n + 1) / 2} { // the second operand may repeat
							if n%m > 0 {
								continue
							}
							x, y := random(n), random(m)
							want := make([]float32, n)
							for i, v := range x {
								a, b := half64(d, v), half64(d, v)
								if len(steps) == 4 {
									a = half64(d, y[i%m])
								}
								want[i] = float32(half64(d, one(float32(binary64(op, a, b)))))
							}
							region.Run(p, RegionValue{Bytes: bytesOfHalves(x), Type: d},
								[]RegionValue{{Bytes: bytesOfHalves(x), Type: d}, {Bytes: bytesOfHalves(y), Type: d}})
							for i, v := range x {
								if got := float32(half64(d, v)); got != want[i] && (got == got || want[i] == want[i]) {
									t.Fatalf("%v of %v, %d and %d elements: element %d is %v, want %v", op, d, n, m, i,
										got, want[i])
								}
							}
						}
					}
				})
			}
		}
	}
}

// TestRegionHalvesAndFloats compares binary functions of f16 or bf16, and f32 or a number, with the formula rounded
// once. The f32 may repeat.
func TestRegionHalvesAndFloats(t *testing.T) {
	r := kerneltest.RNG(33)
	half, number := RegionRef{RegionResult, 0, 0}, RegionRef{RegionNumber, 0, -0.3}
	for d, one := range map[dtype.DType]func(float32) uint16{dtype.F16: dtype.F32ToF16, dtype.BF16: dtype.F32ToBF16} {
		special := []uint16{one(float32(math.Inf(1))), one(float32(math.Inf(-1))), one(float32(math.NaN())), 0, 0x8000,
			1}
		for _, op := range floatBinaries() {
			for _, other := range []RegionRef{{RegionInput, 1, 0}, number} {
				for _, in := range [][]RegionRef{{half, other}, {other, half}} {
					types := []dtype.DType{d, dtype.F32}[:2-int(Bit(other == number))]
					region, err := NewRegion(
						types, []RegionStep{{Op: "f32", In: []RegionRef{{RegionInput, 0, 0}}},
							{Op: op.String(), In: in}, {Op: d.String(), In: []RegionRef{{RegionResult, 1, 0}}}})
					if err != nil {
						t.Fatal(err)
					}
					if region.half == nil {
						t.Errorf("%v of %v and f32 is not a function of halves", op, d)
					}
					kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
						for _, n := range []int{1, 15, 16, 33, 2049, 2 * 3 * 5 * 700} {
							for _, m := range []int{n, (n + 1) / 2, n / 5, n / 700, n / 3000, 1} {
								if m == 0 || n%m > 0 {
									continue
								}
								x, y := make([]uint16, n), kerneltest.Randoms(r, m)
								for i := range x {
									x[i] = one(r.Float32()*8 - 4)
									if i%3 == 0 {
										x[i] = special[r.IntN(len(special))]
									}
								}
								y[m/2] = []float32{float32(math.Inf(1)), float32(math.NaN()), 0, 1e-40, 3e38}[r.IntN(5)]
								want := make([]float32, n)
								for i, v := range x {
									a, b := half64(d, v), float64(y[i%m])
									if other == number {
										b = float64(number.Value)
									}
									if in[1] == half {
										a, b = b, a
									}
									want[i] = float32(half64(d, one(float32(binary64(op, a, b)))))
								}
								region.Run(p, RegionValue{Bytes: bytesOfHalves(x), Type: d},
									[]RegionValue{{Bytes: bytesOfHalves(x), Type: d}, {F32: y}}[:len(types)])
								for i, v := range x {
									if got := float32(half64(d, v)); got != want[i] &&
										(got == got || want[i] == want[i]) {
										t.Fatalf("%v of %v and f32, %d and %d elements: element %d is %v, want %v", op,
											d, n, m, i, got, want[i])
									}
								}
							}
						}
					})
				}
			}
		}
	}
}

// TestRegionCasts compares (x - zero) * scale of 8-bit integers, and casts of f16 and bf16, in regions with the same
// one element at a time. The result may overwrite an operand.
func TestRegionCasts(t *testing.T) {
	r := kerneltest.RNG(31)
	input := func(i int) RegionRef { return RegionRef{RegionInput, i, 0} }
	result := func(i int) RegionRef { return RegionRef{RegionResult, i, 0} }
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range []int{1, 15, 16, 33, 2047, 2049, 5001} {
			for _, d := range []dtype.DType{dtype.I8, dtype.U8} {
				for _, zero := range []float32{0, 3, 128} {
					steps := []RegionStep{{Op: "f32", In: []RegionRef{input(0)}},
						{Op: "mul", In: []RegionRef{result(0), input(1)}}}
					if zero != 0 {
						steps = []RegionStep{steps[0], {Op: "sub", In: []RegionRef{result(0), {RegionNumber, 0, zero}}},
							{Op: "mul", In: []RegionRef{result(1), input(1)}}}
					}
					region, err := NewRegion([]dtype.DType{d, dtype.F32}, steps)
					if err != nil || len(region.steps) != 1 {
						t.Fatalf("%d steps, %v", len(region.steps), err)
					}
					x, scale := make([]uint8, n), kerneltest.Randoms(r, n)
					for i := range x {
						x[i] = uint8(r.IntN(256))
					}
					scale[n/2] = float32(math.NaN())
					want := make([]float64, n)
					for i, v := range x {
						y := float32(v)
						if d == dtype.I8 {
							y = float32(int8(v))
						}
						want[i] = float64((y - zero) * scale[i])
					}
					dst, check := kerneltest.Guarded(n)
					region.Run(p, RegionValue{F32: dst}, []RegionValue{{Bytes: x, Type: d}, {F32: scale}})
					check(t, "region")
					kerneltest.Compare(t, "affine", dst, want, 0, 0)
					region.Run(p, RegionValue{F32: scale}, []RegionValue{{Bytes: x, Type: d}, {F32: scale}})
					kerneltest.Compare(t, "affine in place", scale, want, 0, 0)
				}
			}
			for d, one := range map[dtype.DType]func(float32) uint16{dtype.F16: dtype.F32ToF16,
				dtype.BF16: dtype.F32ToBF16} {
				region, err := NewRegion([]dtype.DType{d, dtype.F32},
					[]RegionStep{{Op: "f32", In: []RegionRef{input(0)}},
						{Op: "add", In: []RegionRef{result(0), input(1)}},
						{Op: d.String(), In: []RegionRef{result(1)}}})
				if err != nil {
					t.Fatal(err)
				}
				x, y := kerneltest.Randoms(r, n), []float32{0.3}
				halves, want := make([]uint16, n), make([]uint16, n)
				for i, v := range x {
					halves[i] = one(v)
					want[i] = one(float32(half64(d, halves[i])) + y[0])
				}
				region.Run(p, RegionValue{Bytes: bytesOfHalves(halves), Type: d},
					[]RegionValue{{Bytes: bytesOfHalves(halves), Type: d}, {F32: y}})
				if !slices.Equal(halves, want) {
					t.Fatalf("%d numbers of %v differ", n, d)
				}
			}
		}
	})
}

func bytesOfHalves(x []uint16) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(&x[0])), 2*len(x))
}
