package dtype_test

import (
	"math"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
)

// half is the definition of IEEE binary16, written from the standard: the oracle for both directions.
func half(h uint16) float64 {
	s, e, m := 1.0, int(h>>10&31), float64(h&1023)
	if h>>15 == 1 {
		s = -1
	}
	switch e {
	case 0:
		return s * math.Ldexp(m, -24)
	case 31:
		if m == 0 {
			return math.Inf(int(s))
		}
		return math.NaN()
	}
	return s * math.Ldexp(1024+m, e-25)
}

func TestHalfWidensExactly(t *testing.T) {
	for h := 0; h < 1<<16; h++ {
		got, want := float64(dtype.F16ToF32(uint16(h))), half(uint16(h))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) &&
			want == 0 {
			t.Fatalf("%#04x: %v, want %v", h, got, want)
		}
	}
}

// TestHalfRounds checks every half, and the points between neighbours: below, at and above the tie.
func TestHalfRounds(t *testing.T) {
	for h := 0; h < 0x7c00; h++ {
		lo, hi := half(uint16(h)), half(uint16(h+1))
		if math.IsInf(hi, 0) {
			hi = 65536
		}
		mid := float32((lo + hi) / 2)
		even := uint16(h + h&1)
		for _, c := range []struct {
			f    float32
			want uint16
		}{{float32(lo), uint16(h)}, {math.Nextafter32(mid, 0), uint16(h)}, {mid, even},
			{math.Nextafter32(mid, 1e9), uint16(h + 1)}} {
			if got := dtype.F32ToF16(c.f); got != c.want {
				t.Fatalf("%v rounds to %#04x, want %#04x", c.f, got, c.want)
			}
			if got := dtype.F32ToF16(-c.f); got != c.want|0x8000 {
				t.Fatalf("%v rounds to %#04x, want %#04x", -c.f, got, c.want|0x8000)
			}
		}
	}
	if got := dtype.F32ToF16(float32(math.NaN())); got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
		t.Errorf("NaN became %#04x", got)
	}
}

// TestDoubleRoundsOnce checks what float32 in between would round twice: a tie plus or minus less than a float32 tells.
func TestDoubleRoundsOnce(t *testing.T) {
	for h := 0; h < 0x7bff; h++ {
		mid := (half(uint16(h)) + half(uint16(h+1))) / 2
		for x, want := range map[float64]uint16{math.Nextafter(mid, 0): uint16(h), mid: uint16(h + h&1),
			math.Nextafter(mid, 1e9): uint16(h + 1)} {
			if got := dtype.F64ToF16(x); got != want {
				t.Fatalf("%v rounds to %#04x, want %#04x", x, got, want)
			}
			if got := dtype.F64ToF16(-x); got != want|0x8000 {
				t.Fatalf("%v rounds to %#04x, want %#04x", -x, got, want|0x8000)
			}
		}
	}
	for h := 0; h < 0x7f7f; h++ {
		mid := (float64(dtype.BF16ToF32(uint16(h))) + float64(dtype.BF16ToF32(uint16(h+1)))) / 2
		for x, want := range map[float64]uint16{math.Nextafter(mid, 0): uint16(h), mid: uint16(h + h&1),
			math.Nextafter(mid, 1e300): uint16(h + 1)} {
			if got := dtype.F64ToBF16(x); got != want {
				t.Fatalf("%v rounds to %#04x, want %#04x", x, got, want)
			}
		}
	}
	for x, want := range map[float64]uint16{math.Inf(1): 0x7c00, math.Inf(-1): 0xfc00, 1e300: 0x7c00, -1e-300: 0x8000,
		65519.999: 0x7bff, 65520: 0x7c00} {
		if got := dtype.F64ToF16(x); got != want {
			t.Errorf("%v rounds to %#04x, want %#04x", x, got, want)
		}
	}
	if got := dtype.F64ToF16(math.NaN()); got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
		t.Errorf("NaN became %#04x", got)
	}
	if got := dtype.F64ToBF16(1e300); got != 0x7f80 {
		t.Errorf("1e300 rounds to %#04x", got)
	}
}

func TestBF16Rounds(t *testing.T) {
	for h := 0; h < 0x7f80; h++ {
		lo := dtype.BF16ToF32(uint16(h))
		mid := math.Float32frombits(uint32(h)<<16 | 0x8000)
		for _, c := range []struct {
			f    float32
			want uint16
		}{{lo, uint16(h)}, {math.Float32frombits(uint32(h)<<16 | 0x7fff), uint16(h)}, {mid, uint16(h + h&1)},
			{math.Float32frombits(uint32(h)<<16 | 0x8001), uint16(h + 1)}} {
			if got := dtype.F32ToBF16(c.f); got != c.want {
				t.Fatalf("%v rounds to %#04x, want %#04x", c.f, got, c.want)
			}
		}
	}
	if f := dtype.BF16ToF32(dtype.F32ToBF16(float32(math.NaN()))); f == f {
		t.Error("NaN became a number")
	}
}

func TestNames(t *testing.T) {
	for _, d := range dtype.Known() {
		if got, ok := dtype.Parse(d.String()); !ok || got != d || d.Size() == 0 || d.IsPacked() != (d.Values() != 1) {
			t.Errorf("%v does not round trip", d)
		}
	}
	if _, ok := dtype.Parse("invalid"); ok {
		t.Error("invalid parses")
	}
}
