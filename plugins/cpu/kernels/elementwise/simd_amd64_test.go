//go:build goexperiment.simd

package elementwise

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"simd/archsimd"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/rlx-go/rlx/core/tensor"
)

// Routines of this package, written with Go's SIMD package for AVX2; docs/rationale.md has the results. Routines
// whose names end in Pointers have no bounds checks. They repeat the loops over slices, because a function of the
// common part is too long to be inlined.
//
//	GOEXPERIMENT=simd go test ./plugins/cpu/kernels/elementwise -run SIMD -bench SIMD

// simdCase is a routine in assembly and in Go. Each returns its result as bytes.
type simdCase struct {
	name      string
	asm, simd func() []byte
}

// simdCases returns the routines for operands of n elements: ordinary ones, or any bits.
func simdCases(n int, anyBits bool) []simdCase {
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = rand.Float32()*16-8, rand.Float32()*16-8
		if anyBits {
			x[i], y[i] = math.Float32frombits(rand.Uint32()), math.Float32frombits(rand.Uint32())
			if i%3 == 0 {
				x[i] = rand.Float32()*220 - 110
			}
		}
	}
	dst, blocks := make([]float32, n), n/8
	two := func(name string, asm func(dst, a, b *float32, blocks int), simd func(dst, a, b []float32)) simdCase {
		return simdCase{name, func() []byte { asm(&dst[0], &x[0], &y[0], blocks); return tensor.Bytes(dst) },
			func() []byte { simd(dst, x, y); return tensor.Bytes(dst) }}
	}
	one := func(name string, asm func(dst, src *float32, blocks int), simd func(dst, src []float32)) simdCase {
		return simdCase{name, func() []byte { asm(&dst[0], &x[0], blocks); return tensor.Bytes(dst) },
			func() []byte { simd(dst, x); return tensor.Bytes(dst) }}
	}
	truth := make([]byte, n)
	return []simdCase{
		two("add/slices", addIntoAVX2, simdAdd), two("add/arrays", addIntoAVX2, simdAddArrays),
		two("add/pointers", addIntoAVX2, simdAddPointers),
		one("relu/slices", reluAVX2, simdRelu), one("relu/pointers", reluAVX2, simdReluPointers),
		one("hardswish/slices", hardswishAVX2, simdHardswish),
		one("hardswish/pointers", hardswishAVX2, simdHardswishPointers),
		one("exp/slices", expAVX2, simdExp), one("exp/pointers", expAVX2, simdExpPointers),
		{"less/slices", func() []byte { ltBytesAVX2(&truth[0], &x[0], &y[0], blocks); return truth },
			func() []byte { simdLess(truth, x, y); return truth }},
	}
}

// TestSIMD checks that both give the same bits.
func TestSIMD(t *testing.T) {
	for range 50 {
		for _, c := range simdCases(4096, true) {
			if want, got := slices.Clone(c.asm()), c.simd(); !slices.Equal(got, want) {
				t.Fatalf("%s: other bits than the assembly", c.name)
			}
		}
	}
}

// BenchmarkSIMD reports the fastest of alternating calls for 1024 floats, in nanoseconds.
func BenchmarkSIMD(b *testing.B) {
	for _, c := range simdCases(1024, false) {
		b.Run(c.name, func(b *testing.B) {
			best := [2]time.Duration{time.Hour, time.Hour}
			for range b.N {
				for i, f := range []func() []byte{c.asm, c.simd} {
					const calls = 100
					start := time.Now()
					for range calls {
						f()
					}
					best[i] = min(best[i], time.Since(start)/calls)
				}
			}
			b.ReportMetric(float64(best[0].Nanoseconds()), "asm-ns")
			b.ReportMetric(float64(best[1].Nanoseconds()), "simd-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func simdAdd(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := 0; i+8 <= len(dst); i += 8 {
		x, y := archsimd.LoadFloat32x8Slice(a[i:]), archsimd.LoadFloat32x8Slice(b[i:])
		x.Add(y).StoreSlice(dst[i:])
	}
	archsimd.ClearAVXUpperBits()
}

// simdAddArrays is simdAdd with four vectors in an iteration, and slices that shrink.
func simdAddArrays(dst, a, b []float32) {
	for len(dst) >= 32 && len(a) >= 32 && len(b) >= 32 {
		d, x, y := (*[32]float32)(dst), (*[32]float32)(a), (*[32]float32)(b)
		x0, y0 := archsimd.LoadFloat32x8((*[8]float32)(x[0:])), archsimd.LoadFloat32x8((*[8]float32)(y[0:]))
		x0.Add(y0).Store((*[8]float32)(d[0:]))
		x1, y1 := archsimd.LoadFloat32x8((*[8]float32)(x[8:])), archsimd.LoadFloat32x8((*[8]float32)(y[8:]))
		x1.Add(y1).Store((*[8]float32)(d[8:]))
		x2, y2 := archsimd.LoadFloat32x8((*[8]float32)(x[16:])), archsimd.LoadFloat32x8((*[8]float32)(y[16:]))
		x2.Add(y2).Store((*[8]float32)(d[16:]))
		x3, y3 := archsimd.LoadFloat32x8((*[8]float32)(x[24:])), archsimd.LoadFloat32x8((*[8]float32)(y[24:]))
		x3.Add(y3).Store((*[8]float32)(d[24:]))
		dst, a, b = dst[32:], a[32:], b[32:]
	}
	archsimd.ClearAVXUpperBits()
}

func simdRelu(dst, src []float32) {
	src = src[:len(dst)]
	var zero archsimd.Float32x8
	for i := 0; i+8 <= len(dst); i += 8 {
		zero.Max(archsimd.LoadFloat32x8Slice(src[i:])).StoreSlice(dst[i:])
	}
	archsimd.ClearAVXUpperBits()
}

func simdHardswish(dst, src []float32) {
	src = src[:len(dst)]
	half, sixth := archsimd.BroadcastFloat32x8(0.5), archsimd.BroadcastFloat32x8(float32(1./6))
	var zero archsimd.Float32x8
	one := archsimd.BroadcastFloat32x8(1)
	for i := 0; i+8 <= len(dst); i += 8 {
		x := archsimd.LoadFloat32x8Slice(src[i:])
		s := x.MulAdd(sixth, half)
		one.Min(zero.Max(s)).Mul(x).StoreSlice(dst[i:])
	}
	archsimd.ClearAVXUpperBits()
}

func simdBits(u uint32) archsimd.Float32x8 {
	return archsimd.BroadcastFloat32x8(math.Float32frombits(u))
}

func simdExp(dst, src []float32) {
	src = src[:len(dst)]
	lo, hi := simdBits(0xc2d00000), simdBits(0x42b20000)
	shift, log2e := simdBits(0x4b400000), simdBits(0x3fb8aa3b)
	minusHi, minusLo := simdBits(0x3f317200^1<<31), simdBits(0x35bfbe8e^1<<31)
	p4, p3, p2 := simdBits(0x3ab68896), simdBits(0x3c0905c8), simdBits(0x3d2aaa8d)
	p1, p0 := simdBits(0x3e2aaa6e), simdBits(0x3f000000)
	one, least := simdBits(0x3f800000), simdBits(0xc2fa0000)
	bias, up := archsimd.BroadcastInt32x8(-0x4b3fff82), archsimd.BroadcastInt32x8(149)
	for i := 0; i+8 <= len(dst); i += 8 {
		x := archsimd.LoadFloat32x8Slice(src[i:])
		c := hi.Min(lo.Max(x))
		n := c.MulAdd(log2e, shift)
		shifted := n.AsInt32x8().Add(bias)
		n = n.Sub(shift)
		r := n.MulAdd(minusLo, n.MulAdd(minusHi, c))
		q := p4.MulAdd(r, p3).MulAdd(r, p2).MulAdd(r, p1).MulAdd(r, p0)
		q = q.MulAdd(r.Mul(r), r).Add(one)
		q = q.Add(q)
		small := n.Less(least)
		if small.ToBits() != 0 {
			y := q.Mul(shifted.Add(small.ToInt32x8().And(up)).ShiftAllLeft(23).AsFloat32x8())
			// rounds to nearest even before the conversion, which truncates
			b := y.RoundToEven().ConvertToInt32().AsFloat32x8()
			q = b.Merge(q.Mul(shifted.ShiftAllLeft(23).AsFloat32x8()), small)
		} else {
			q = q.Mul(shifted.ShiftAllLeft(23).AsFloat32x8())
		}
		q.StoreSlice(dst[i:])
	}
	archsimd.ClearAVXUpperBits()
}

// simdSpread has, for each bit of its index, a byte 1 or 0.
var simdSpread = func() (t [256]uint64) {
	for i := range t {
		for b := range 8 {
			t[i] |= uint64(i>>b&1) << (8 * b)
		}
	}
	return t
}()

// less stores a byte 1 or 0 for each comparison. The package has no VPACKSSWB, so masks become bytes by a table.
func simdLess(dst []uint8, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := 0; i+8 <= len(dst); i += 8 {
		m := archsimd.LoadFloat32x8Slice(a[i:]).Less(archsimd.LoadFloat32x8Slice(b[i:])).ToBits()
		binary.LittleEndian.PutUint64(dst[i:], simdSpread[m])
	}
	archsimd.ClearAVXUpperBits()
}

func simdAddPointers(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(dst))
	w := unsafe.Pointer(unsafe.SliceData(b))
	for n := len(dst) / 8; n > 0; n-- {
		x, y := archsimd.LoadFloat32x8((*[8]float32)(p)), archsimd.LoadFloat32x8((*[8]float32)(w))
		x.Add(y).Store((*[8]float32)(q))
		p, q = unsafe.Add(p, 32), unsafe.Add(q, 32)
		w = unsafe.Add(w, 32)
	}
	archsimd.ClearAVXUpperBits()
}

func simdReluPointers(dst, src []float32) {
	src = src[:len(dst)]
	var zero archsimd.Float32x8
	p, q := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst))
	for n := len(dst) / 8; n > 0; n-- {
		zero.Max(archsimd.LoadFloat32x8((*[8]float32)(p))).Store((*[8]float32)(q))
		p, q = unsafe.Add(p, 32), unsafe.Add(q, 32)
	}
	archsimd.ClearAVXUpperBits()
}

func simdHardswishPointers(dst, src []float32) {
	src = src[:len(dst)]
	half, sixth := archsimd.BroadcastFloat32x8(0.5), archsimd.BroadcastFloat32x8(float32(1./6))
	var zero archsimd.Float32x8
	one := archsimd.BroadcastFloat32x8(1)
	p, q := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst))
	for n := len(dst) / 8; n > 0; n-- {
		x := archsimd.LoadFloat32x8((*[8]float32)(p))
		s := x.MulAdd(sixth, half)
		one.Min(zero.Max(s)).Mul(x).Store((*[8]float32)(q))
		p, q = unsafe.Add(p, 32), unsafe.Add(q, 32)
	}
	archsimd.ClearAVXUpperBits()
}

func simdExpPointers(dst, src []float32) {
	src = src[:len(dst)]
	lo, hi := simdBits(0xc2d00000), simdBits(0x42b20000)
	shift, log2e := simdBits(0x4b400000), simdBits(0x3fb8aa3b)
	minusHi, minusLo := simdBits(0x3f317200^1<<31), simdBits(0x35bfbe8e^1<<31)
	p4, p3, p2 := simdBits(0x3ab68896), simdBits(0x3c0905c8), simdBits(0x3d2aaa8d)
	p1, p0 := simdBits(0x3e2aaa6e), simdBits(0x3f000000)
	one, least := simdBits(0x3f800000), simdBits(0xc2fa0000)
	bias, up := archsimd.BroadcastInt32x8(-0x4b3fff82), archsimd.BroadcastInt32x8(149)
	p, to := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst))
	for n := len(dst) / 8; n > 0; n-- {
		x := archsimd.LoadFloat32x8((*[8]float32)(p))
		c := hi.Min(lo.Max(x))
		k := c.MulAdd(log2e, shift)
		shifted := k.AsInt32x8().Add(bias)
		k = k.Sub(shift)
		r := k.MulAdd(minusLo, k.MulAdd(minusHi, c))
		q := p4.MulAdd(r, p3).MulAdd(r, p2).MulAdd(r, p1).MulAdd(r, p0)
		q = q.MulAdd(r.Mul(r), r).Add(one)
		q = q.Add(q)
		small := k.Less(least)
		if small.ToBits() != 0 {
			y := q.Mul(shifted.Add(small.ToInt32x8().And(up)).ShiftAllLeft(23).AsFloat32x8())
			// rounds to nearest even before the conversion, which truncates
			b := y.RoundToEven().ConvertToInt32().AsFloat32x8()
			q = b.Merge(q.Mul(shifted.ShiftAllLeft(23).AsFloat32x8()), small)
		} else {
			q = q.Mul(shifted.ShiftAllLeft(23).AsFloat32x8())
		}
		q.Store((*[8]float32)(to))
		p, to = unsafe.Add(p, 32), unsafe.Add(to, 32)
	}
	archsimd.ClearAVXUpperBits()
}
