package elementwise

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

var broadcasts = [][3][]int{
	{{}, {}, {}}, {{5}, {}, {1}}, {{7}, {7}, {7}}, {{3, 4}, {4}, {3, 1}}, {{3, 1, 5}, {2, 1}, {1, 1, 5}},
	{{2, 1, 3, 1}, {4, 1, 6}, {}},
	{{0, 3}, {1, 3}, {3}}, {{70, 300}, {300}, {70, 1}}, {{2, 3, 4, 5}, {2, 3, 4, 5}, {1, 3, 1, 5}},
	{{1, 129}, {200, 1}, {1}}, {{2, 500, 7}, {500, 1}, {2, 1, 1}}, {{2, 500, 1}, {2, 500, 9}, {9}},
	{{3, 700, 7}, {3, 1, 7}, {7}}, {{3, 1, 97}, {3, 90, 97}, {97}}, {{128}, {600, 128}, {}},
}

func binary64(op BinaryOp, x, y float64) float64 {
	switch op {
	case Max, Min:
		if x != x || y != y { // math.Max(NaN, +Inf) is +Inf; ours is NaN
			return math.NaN()
		}
	}
	switch op {
	case Add:
		return x + y
	case Sub:
		return x - y
	case Mul:
		return x * y
	case Div:
		return x / y
	case Max:
		return math.Max(x, y)
	case Min:
		return math.Min(x, y)
	case Pow:
		return math.Pow(x, y)
	}
	return binaries[op].f(x, y)
}

// floatBinaries returns the binary functions that take floats.
func floatBinaries() []BinaryOp {
	return slices.DeleteFunc(Binaries(), func(op BinaryOp) bool { return !op.TakesFloats() })
}

func TestBinaryFloat(t *testing.T) { kerneltest.EachPool(t, testBinaryFloat) }

func testBinaryFloat(t *testing.T, p *pool.Pool) {
	r := kerneltest.RNG(1)
	specials := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, -3, 2, 1e-40}
	for _, shapes := range broadcasts {
		for _, op := range floatBinaries() {
			a, b := kerneltest.Randoms(r, Elements(shapes[0])), kerneltest.Randoms(r, Elements(shapes[1]))
			for _, x := range [][]float32{a, b} {
				if len(x) > 0 {
					x[r.IntN(len(x))] = specials[r.IntN(len(specials))]
				}
			}
			out, _ := BroadcastShape(shapes[0], shapes[1])
			dst, check := kerneltest.Guarded(Elements(out))
			if err := Binary(p, op, dst, a, shapes[0], b, shapes[1]); err != nil {
				t.Fatal(err)
			}
			check(t, op.String())
			kerneltest.Each(out, func(n int, index []int) {
				x, y := a[kerneltest.At(shapes[0], index)], b[kerneltest.At(shapes[1], index)]
				want := float64(float32(binary64(op, float64(x), float64(y))))
				if !kerneltest.Near(dst[n], want, 0, 0) {
					t.Fatalf("%v of %v and %v: %v, %v gives %v, want %v", op, shapes[0], shapes[1], x, y, dst[n], want)
				}
			})
		}
	}
	x := []float64{3}
	if err := Binary(p, Pow, x, x, []int{1}, []float64{-2}, nil); err != nil || math.Abs(x[0]-1.0/9) > 1e-16 {
		t.Errorf("3^-2 = %v, %v", x, err)
	}
}

// TestBinaryRest checks that the functions of one instruction or two give the same bits in the last elements, which do
// not fill a vector, as in a whole vector, on special values, too. NaN may have any bits.
func TestBinaryRest(t *testing.T) {
	r := kerneltest.RNG(6)
	inf := float32(math.Inf(1))
	special := []float32{float32(math.NaN()), inf, -inf, 0, float32(math.Copysign(0, -1)), 1e-40, math.MaxFloat32}
	for _, name := range isa.Features()[1:] {
		p := kerneltest.NewPool(t, 1, name)
		for _, op := range []BinaryOp{Add, Sub, Mul, Div, Max, Min} {
			for n := 1; n < 40; n++ {
				a, b := kerneltest.Randoms(r, n), kerneltest.Randoms(r, n)
				for _, x := range [][]float32{a, b} {
					for range 1 + n/2 {
						x[r.IntN(n)] = special[r.IntN(len(special))]
					}
				}
				dst, check := kerneltest.Guarded(n)
				clear(dst)
				On(p.Set).Binary[op](dst, a, b)
				inPlace := slices.Clone(b)
				On(p.Set).Binary[op](inPlace, a, inPlace)
				for i, got := range dst {
					whole := make([]float32, 16)
					x, y := slices.Repeat(a[i:i+1], 16), slices.Repeat(b[i:i+1], 16)
					On(p.Set).Binary[op](whole, x, y)
					for _, got := range []float32{got, inPlace[i]} {
						if math.Float32bits(got) != math.Float32bits(whole[0]) && (got == got || whole[0] == whole[0]) {
							t.Fatalf("%s: %v of %v and %v is %v at %d of %d, %v in a vector", name, op, a[i], b[i], got,
								i, n, whole[0])
						}
					}
					if dst[i] != dst[i] {
						dst[i] = 0 // check takes NaN for missing elements
					}
				}
				check(t, op.String())
			}
		}
	}
}

// TestDoubles compares the binary functions of floats with their formulas, on all pairs of special values and on values
// of all magnitudes.
func TestDoubles(t *testing.T) {
	r := kerneltest.RNG(3)
	inf := float32(math.Inf(1))
	special := []float32{0, 1, 2, 3, 0.5, 1.5, 1 << 24, 1<<24 + 2, 1 << 30, 1e-45, 1e-38, math.MaxFloat32, inf,
		float32(math.NaN()), 0.99999994, 1.0000001}
	var a, b []float32
	for _, x := range special {
		for _, y := range special {
			a, b = append(a, x, -x, x, -x), append(b, y, y, -y, -y)
		}
	}
	for range 1 << 16 {
		x, y := math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
		switch r.IntN(4) {
		case 0:
			y = float32(r.IntN(40) - 20)
		case 1:
			x, y = 0.1+3*r.Float32(), 100*r.Float32()-50
		case 2: // a quotient close to an integer
			y = r.Float32() + 0.01
			x = math.Nextafter32(y*float32(r.IntN(1<<20)), float32(r.IntN(3)-1)*1e9)
		}
		a, b = append(a, x), append(b, y)
	}
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for _, op := range []BinaryOp{Pow, Remainder, Mod} {
			got := make([]float32, len(a))
			if err := Binary(p, op, got, a, []int{len(a)}, b, []int{len(a)}); err != nil {
				t.Fatal(err)
			}
			f := map[BinaryOp]func(x, y float64) float64{Pow: math.Pow, Remainder: math.Mod,
				Mod: func(x, y float64) float64 {
					m := math.Mod(x, y)
					if m != 0 && m < 0 != (y < 0) {
						m += y
					}
					return m
				}}[op]
			for i := range a {
				want := float32(f(float64(a[i]), float64(b[i])))
				ulp := math.Nextafter32(want, inf) - want
				if op != Pow {
					ulp = 0
				}
				same := math.Float32bits(got[i]) == math.Float32bits(want) || got[i] != got[i] && want != want
				if !same && !(math.Abs(float64(got[i]-want)) <= float64(ulp)) {
					t.Fatalf("%v of %g and %g is %g, want %g", op, a[i], b[i], got[i], want)
				}
			}
		}
	})
}

func TestBinaryInteger(t *testing.T) {
	p := kerneltest.NewPool(t, 2, "")
	a, b := []int32{7, -7, math.MinInt32, 5, -2, -1}, []int32{2, 2, -1, -3, 3, -3}
	for op, want := range map[BinaryOp][]int32{
		Add: {9, -5, math.MaxInt32, 2, 1, -4}, Sub: {5, -9, math.MinInt32 + 1, 8, -5, 2},
		Mul: {14, -14, math.MinInt32, -15, -6, 3},
		Div: {3, -3, math.MinInt32, -1, 0, 0}, Max: {7, 2, -1, 5, 3, -1}, Min: {2, -7, math.MinInt32, -3, -2, -3},
		Pow: {49, 49, 0, 0, -8, -1},
	} {
		got := make([]int32, len(a))
		if err := Binary(p, op, got, a, []int{6}, b, []int{6}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, %v; want %v", op, got, err, want)
		}
	}
	got := make([]int64, 3)
	for _, c := range []struct {
		op   BinaryOp
		a, b []int64
	}{{Div, []int64{1, 2, 3}, []int64{1, 0, 1}}, {Pow, []int64{0, 1, 1}, []int64{-1, 1, 1}}} {
		if err := Binary(p, c.op, got, c.a, []int{3}, c.b, []int{3}); !errors.Is(err, code.Division) {
			t.Errorf("%v of %v and %v: error %v; want code.Division", c.op, c.a, c.b, err)
		}
	}
	u := []uint8{200}
	if err := Binary(p, Add, u, u, []int{1}, []uint8{100}, []int{1}); err != nil || u[0] != 44 {
		t.Errorf("200 + 100 in uint8 is %v (%v); want 44", u, err)
	}
}

func TestCompareWhereExpand(t *testing.T) { kerneltest.EachPool(t, testCompareWhereExpand) }

func testCompareWhereExpand(t *testing.T, p *pool.Pool) {
	r := kerneltest.RNG(2)
	nan := float32(math.NaN())
	for _, shapes := range broadcasts {
		a, b := make([]float32, Elements(shapes[0])), make([]float32, Elements(shapes[1]))
		for _, x := range [][]float32{a, b} {
			for i := range x {
				x[i] = []float32{-1, 0, 1, nan}[r.IntN(4)]
			}
		}
		out, _ := BroadcastShape(shapes[0], shapes[1])
		for op := range compareCount {
			dst := make([]uint8, Elements(out)+1)
			dst[len(dst)-1] = 99
			Compare(p, op, dst[:len(dst)-1], a, shapes[0], b, shapes[1])
			kerneltest.Each(out, func(n int, index []int) {
				x, y := a[kerneltest.At(shapes[0], index)], b[kerneltest.At(shapes[1], index)]
				want := [compareCount]bool{x == y, x != y, x < y, x <= y, x > y, x >= y}[op]
				if (dst[n] == 1) != want || dst[n] > 1 {
					t.Fatalf("%v %v %v is %d", x, op, y, dst[n])
				}
			})
			if dst[len(dst)-1] != 99 {
				t.Fatal("overrun")
			}
		}
		all, ok := BroadcastShape(shapes[0], shapes[1], shapes[2])
		if !ok {
			continue
		}
		cond := make([]uint8, Elements(shapes[2]))
		for i := range cond {
			cond[i] = uint8(r.IntN(3))
		}
		dst := make([]float32, Elements(all))
		Where(p, dst, Condition{cond, shapes[2], dtype.Bool}, a, shapes[0], b, shapes[1])
		wide := make([]float32, Elements(all))
		Expand(p, wide, all, a, shapes[0])
		kerneltest.Each(all, func(n int, index []int) {
			want := b[kerneltest.At(shapes[1], index)]
			if cond[kerneltest.At(shapes[2], index)] != 0 {
				want = a[kerneltest.At(shapes[0], index)]
			}
			if !kerneltest.Near(dst[n], float64(want), 0, 0) || !kerneltest.Near(wide[n],
				float64(a[kerneltest.At(shapes[0], index)]), 0, 0) {
				t.Fatalf("where gives %v, want %v; expand %v", dst[n], want, wide[n])
			}
		})
	}
	if _, ok := BroadcastShape([]int{3}, []int{2}); ok {
		t.Error("3 and 2 broadcast")
	}
}

// castBig casts an exact value as Cast should; nil is NaN.
func castBig(to dtype.DType, x *big.Float, inf int) (f float64, i int64) {
	switch {
	case to == dtype.F32:
		v, _ := x.Float32()
		return float64(v), 0
	case to == dtype.F64:
		v, _ := x.Float64()
		return v, 0
	}
	lo, hi := to.IntRange()
	if inf != 0 || x.Cmp(new(big.Float).SetInt64(hi)) >= 0 && inf >= 0 {
		if inf < 0 {
			return 0, lo
		}
		return 0, hi
	}
	if x.Cmp(new(big.Float).SetInt64(lo)) <= 0 {
		return 0, lo
	}
	v, _ := x.Int64()
	return 0, v
}

func makeSlice(d dtype.DType, n int) any {
	switch d {
	case dtype.F32:
		return make([]float32, n)
	case dtype.F64:
		return make([]float64, n)
	case dtype.F16, dtype.BF16:
		return make([]uint16, n)
	case dtype.I8:
		return make([]int8, n)
	case dtype.I16:
		return make([]int16, n)
	case dtype.I32:
		return make([]int32, n)
	case dtype.I64:
		return make([]int64, n)
	case dtype.U32:
		return make([]uint32, n)
	}
	return make([]uint8, n)
}

// TestCastFloats compares casts of f64 to all types with exact arithmetic.
func TestCastFloats(t *testing.T) {
	p := kerneltest.NewPool(t, 2, "")
	r := kerneltest.RNG(3)
	src := []float64{0, 0.5, -0.5, 0.999, 1.5, -1.5, 127, 127.9, 128, -128.9, -129, 255.9, 256, 65504, 65519.99, 65520,
		1e9, 4294967295, 4294967296,
		-1, 9.3e18, -9.3e18, 9223372036854775807, 1e300, -1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1e-320, 1e-46,
		1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50,
		1 + 0x1p-9, 1 + 0x1p-9 + 0x1p-40, 3.3895313892515354e38, 3.39e38, 3.396e38, 0x1p-25, 0x1.8p-25, 6e-8}
	for range 3000 {
		src = append(src, math.Float64frombits(r.Uint64()), (r.Float64()*2-1)*math.Ldexp(1, r.IntN(70)))
	}
	for _, to := range dtype.All() {
		dst := makeSlice(to, len(src))
		Cast(p, to, dst, dtype.F64, src)
		for i, x := range src {
			switch d := dst.(type) {
			case []float32:
				if want := float32(x); !kerneltest.Near(d[i], float64(want), 0, 0) {
					t.Errorf("%v to f32: %v, want %v", x, d[i], want)
				}
			case []float64:
				if d[i] != x && x == x {
					t.Errorf("%v to f64: %v, want the same", x, d[i])
				}
			case []uint16:
				if got, want := half64(to, d[i]), roundHalf(to, x); got != want && !(got != got && want != want) {
					t.Errorf("%v to %v: %v, want %v", x, to, got, want)
				}
			default:
				var want int64
				switch {
				case to == dtype.Bool:
					if x != 0 {
						want = 1
					}
				case math.IsInf(x, 0):
					_, want = castBig(to, new(big.Float), int(math.Copysign(1, x)))
				case x == x:
					_, want = castBig(to, big.NewFloat(x), 0)
				}
				if got := intAt(dst, i); got != want {
					t.Errorf("%v to %v: %d, want %d", x, to, got, want)
				}
			}
		}
	}
}

func intAt(s any, i int) int64 {
	var x [1]int64
	loadInts(x[:], dtype.U8, s, i)
	return x[0]
}

func half64(d dtype.DType, h uint16) float64 {
	if d == dtype.BF16 {
		return float64(dtype.BF16ToF32(h))
	}
	return float64(dtype.F16ToF32(h))
}

// roundHalf rounds to the nearest 16-bit float by scaling, which is exact in float64.
func roundHalf(d dtype.DType, x float64) float64 {
	bits, lowest, top := 11, -24, 65520.0
	if d == dtype.BF16 {
		bits, lowest, top = 8, -133, 0x1.ffp127
	}
	switch {
	case x != x || x == 0:
		return x
	case math.Abs(x) >= top:
		return math.Inf(int(math.Copysign(1, x)))
	}
	e := max(math.Ilogb(x)-bits+1, lowest)
	return math.Ldexp(math.RoundToEven(math.Ldexp(x, -e)), e)
}

func TestCastIntegers(t *testing.T) {
	p := kerneltest.NewPool(t, 2, "")
	r := kerneltest.RNG(4)
	src := []int64{0, 1, -1, 127, 128, 255, 256, -129, 65519, 65520, 16777217, 1<<53 + 1, math.MaxInt64, math.MinInt64,
		1<<62 + 1<<54, 1<<62 + 1<<54 + 1, 1<<62 + 1<<54 - 1, 3<<61 + 5}
	for range 2000 {
		src = append(src, int64(r.Uint64())>>r.IntN(64))
	}
	for _, to := range dtype.All() {
		dst := makeSlice(to, len(src))
		Cast(p, to, dst, dtype.I64, src)
		for i, x := range src {
			ok := true
			switch d := dst.(type) {
			case []float32:
				w, _ := new(big.Float).SetInt64(x).Float32()
				ok = d[i] == w
			case []float64:
				w, _ := new(big.Float).SetInt64(x).Float64()
				ok = d[i] == w
			case []uint16:
				prec := uint(11)
				if to == dtype.BF16 {
					prec = 8
				}
				w, _ := new(big.Float).SetPrec(prec).SetMode(big.ToNearestEven).SetInt64(x).Float64()
				if to == dtype.F16 && math.Abs(w) > 65504 {
					w = math.Inf(int(math.Copysign(1, w)))
				}
				ok = half64(to, d[i]) == w
			case []int8:
				ok = d[i] == int8(x)
			case []int16:
				ok = d[i] == int16(x)
			case []int32:
				ok = d[i] == int32(x)
			case []int64:
				ok = d[i] == x
			case []uint32:
				ok = d[i] == uint32(x)
			case []uint8:
				ok = d[i] == uint8(x)
				if to == dtype.Bool {
					ok = d[i] == 1 && x != 0 || d[i] == 0 && x == 0
				}
			}
			if !ok {
				t.Errorf("%d to %v is wrong", x, to)
			}
		}
	}
	got := make([]float32, 3)
	Cast(p, dtype.F32, got, dtype.Bool, []uint8{0, 1, 7})
	if got[0] != 0 || got[1] != 1 || got[2] != 1 {
		t.Errorf("bools 0, 1 and 7 are %v as f32, want 0, 1, 1", got)
	}
}

// TestCastHalf widens and narrows every f16 and bf16 by the vector routines.
func TestCastHalf(t *testing.T) {
	src := make([]uint16, 1<<16+3)
	for i := range src {
		src[i] = uint16(i)
	}
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
			got := make([]float32, len(src))
			Cast(p, dtype.F32, got, d, src)
			back := make([]uint16, len(src))
			Cast(p, d, back, dtype.F32, got)
			for i, h := range src {
				if !kerneltest.Near(got[i], half64(d, h), 0, 0) || back[i] != h && got[i] == got[i] {
					t.Fatalf("%v %#04x is %v, and back %#04x", d, h, got[i], back[i])
				}
			}
		}
	})
}

// TestNarrow compares the vector routines with package dtype, on values of all magnitudes, ties, and NaNs.
func TestNarrow(t *testing.T) {
	r := kerneltest.RNG(5)
	src := make([]float32, 1<<16+5)
	for i := range src {
		bits := r.Uint32()
		if i%4 == 0 { // close to a tie of one of the types
			bits = bits&^0x1fff | []uint32{0x1000, 0x8000, 0xfff, 0x1001, 0x7fff, 0x8001}[r.IntN(6)]
		}
		if i%8 < 4 { // among the numbers of f16
			bits = bits&0x80ffffff | (100+r.Uint32N(46))<<23
		}
		src[i] = math.Float32frombits(bits)
	}
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for d, one := range map[dtype.DType]func(float32) uint16{dtype.F16: dtype.F32ToF16,
			dtype.BF16: dtype.F32ToBF16} {
			got := make([]uint16, len(src))
			Cast(p, d, got, dtype.F32, src)
			for i, x := range src {
				if got[i] != one(x) {
					t.Fatalf("%08x in %v is %04x, want %04x", math.Float32bits(x), d, got[i], one(x))
				}
			}
		}
	})
}

// TestRemainder compares remainder64 with math.Mod.
func TestRemainder(t *testing.T) {
	r := kerneltest.RNG(12)
	for range 300000 {
		x, y := math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
		if r.IntN(2) == 0 { // a quotient close to an integer
			y = r.Float32() + 0.01
			x = math.Nextafter32(y*float32(r.IntN(1<<20)), float32(r.IntN(3)-1)*1e9)
		}
		got, want := remainder64(float64(x), float64(y)), math.Mod(float64(x), float64(y))
		if math.Float64bits(got) != math.Float64bits(want) && want == want {
			t.Fatalf("%v mod %v is %v, want %v", x, y, got, want)
		}
	}
}
