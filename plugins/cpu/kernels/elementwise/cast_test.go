package elementwise

import (
	"math"
	"math/big"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestCastVectors compares the routines of casts with exact arithmetic, for special values, ties and random bits, at
// all lengths modulo a vector. It also checks that nothing past the end is written.
func TestCastVectors(t *testing.T) {
	r := kerneltest.RNG(7)
	floats := []float32{0, float32(math.Copysign(0, -1)), 0.5, -0.5, 0.99999994, -0.99999994, 1.5, -1.5, 126.99999, 127,
		127.9, 128, -128, -128.9, -129, 255, 255.9, 256,
		2147483520, 2147483648, -2147483648, -2147483904, 4294967296, 1e30, -1e30, 1e-40, float32(math.Inf(1)),
		float32(math.Inf(-1)), float32(math.NaN()),
		-float32(math.NaN()), math.Float32frombits(0x7f800001), 16777217, -16777219}
	for range kerneltest.Some(2000) {
		floats = append(floats, math.Float32frombits(r.Uint32()), (r.Float32()*2-1)*float32(math.Ldexp(1, r.IntN(34))))
	}
	integer := func(d dtype.DType, x float32) (want int64) {
		switch {
		case d == dtype.Bool:
			want = int64(Bit(x != 0))
		case math.IsInf(float64(x), 0):
			_, want = castBig(d, new(big.Float), int(math.Copysign(1, float64(x))))
		case x == x:
			_, want = castBig(d, big.NewFloat(float64(x)), 0)
		}
		return want
	}
	words := []int32{0, 1, -1, 16777217, -16777217, 16777219, math.MaxInt32, math.MinInt32, 2147483583, 2147483584}
	for range kerneltest.Some(500) {
		words = append(words, int32(r.Uint32())>>r.IntN(32))
	}
	bytes := make([]uint8, 300)
	for i := range bytes {
		bytes[i] = uint8(i)
	}
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for n := range kerneltest.Some(70) {
			src := floats[n:]
			if n > 2 {
				src = floats[:n]
			}
			for _, to := range []dtype.DType{dtype.I8, dtype.U8, dtype.Bool, dtype.I32, dtype.U32, dtype.I16,
				dtype.I64} {
				dst := makeSlice(to, len(src)+1)
				storeInts(to, dst, len(src), []int64{1})
				Cast(p, to, dst, dtype.F32, src)
				for i, x := range src {
					if got, want := intAt(dst, i), integer(to, x); got != want {
						t.Fatalf("%v to %v: %d, want %d", x, to, got, want)
					}
				}
				if intAt(dst, len(src)) != 1 {
					t.Fatalf("%d elements to %v: one past the end was written", len(src), to)
				}
			}
		}
		check := func(from dtype.DType, src any, at func(i int) int64) {
			got, guards := kerneltest.Guarded(lenOf(src))
			Cast(p, dtype.F32, got, from, src)
			guards(t, from.String())
			for i, x := range got {
				if want, _ := new(big.Float).SetInt64(at(i)).Float32(); x != want {
					t.Fatalf("%v %d is %v, want %v", from, at(i), x, want)
				}
			}
		}
		for n := range kerneltest.Some(40) {
			check(dtype.I32, words[n:], func(i int) int64 { return int64(words[n+i]) })
			check(dtype.U8, bytes[n:], func(i int) int64 { return int64(bytes[n+i]) })
			check(dtype.Bool, bytes[n:], func(i int) int64 { return int64(Bit(bytes[n+i] != 0)) })
			signed := pool.ElementsOf[int8](bytes[n:])
			check(dtype.I8, signed, func(i int) int64 { return int64(signed[i]) })
		}
	})
}

// TestIntegerVectors compares the routines of 32-bit integers with 64-bit arithmetic, for divisors and shift counts of
// all sizes.
func TestIntegerVectors(t *testing.T) {
	r := kerneltest.RNG(8)
	special := []int64{0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, -31, 100, 1 << 30, math.MaxInt32, math.MinInt32,
		math.MaxInt32 - 1, math.MinInt32 + 1}
	var a, b []int32
	for _, x := range special {
		for _, y := range special {
			a, b = append(a, int32(x)), append(b, int32(y))
		}
	}
	for range kerneltest.Some(5000) {
		a, b = append(a, int32(r.Uint32())>>r.IntN(32)), append(b, int32(r.Uint32())>>r.IntN(32))
	}
	want := func(op BinaryOp, x, y int64) int64 {
		switch op {
		case ShiftLeft:
			if y < 0 || y > 31 {
				return 0
			}
			return x << y
		case ShiftRight:
			if y < 0 || y > 31 {
				y = 32
			}
			return x >> y
		case Div:
			return x / y
		case Remainder:
			return x % y
		}
		return ((x % y) + y) % y
	}
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		for _, op := range []BinaryOp{ShiftLeft, ShiftRight, Div, Remainder, Mod} {
			y := b
			if op.divides() {
				y = make([]int32, len(b))
				for i, v := range b {
					y[i] = max(v, 1)
					if v < 0 {
						y[i] = v
					}
				}
			}
			got := make([]int32, len(a))
			if err := Binary(p, op, got, a, []int{len(a)}, y, []int{len(y)}); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if w := int32(want(op, int64(a[i]), int64(y[i]))); got[i] != w {
					t.Fatalf("%v of %d and %d is %d, want %d", op, a[i], y[i], got[i], w)
				}
			}
			for zero := range 40 { // a zero in a vector, or in the elements after the last one
				x, y := make([]int32, 40), SpreadTo(make([]int32, 40), 5, 40)
				y[zero] = 0
				if err := Binary(p, op, x, x, []int{40}, y, []int{40}); (err != nil) != op.divides() {
					t.Fatalf("%v with a 0 in operand 1: error %v; want one: %v", op, err, op.divides())
				}
			}
			if op.divides() {
				continue
			}
			u, v := make([]uint32, len(a)), make([]uint32, len(a))
			for i := range a {
				u[i], v[i] = uint32(a[i]), uint32(b[i])
			}
			if err := Binary(p, op, u, u, []int{len(u)}, v, []int{len(v)}); err != nil {
				t.Fatal(err)
			}
			for i := range u {
				if w := uint32(want(op, int64(uint32(a[i])), int64(v[i]))); u[i] != w {
					t.Fatalf("%v of %d and %d is %d, want %d", op, uint32(a[i]), v[i], u[i], w)
				}
			}
		}
	})
}
