package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
)

// value16 returns the value of a 16-bit float, computed from the definition.
func value16(d dtype.DType, h uint16) float64 {
	mant := 10
	if d == dtype.BF16 {
		mant = 7
	}
	exp, m := int(h&0x7fff)>>mant, float64(h&(1<<mant-1))
	top, bias := 1<<(15-mant)-1, 1<<(14-mant)-1
	v := math.Ldexp(1+m/float64(int(1)<<mant), exp-bias)
	switch {
	case exp == 0:
		v = math.Ldexp(m/float64(int(1)<<mant), 1-bias)
	case exp == top && m == 0:
		v = math.Inf(1)
	case exp == top:
		v = math.NaN()
	}
	if h>>15 == 1 {
		v = -v
	}
	return v
}

// nearest16 rounds by searching all values of the type.
func nearest16(d dtype.DType, x float64) uint16 {
	var sign uint16
	if math.Signbit(x) {
		sign, x = 0x8000, -x
	}
	inf := uint16(0x7c00)
	if d == dtype.BF16 {
		inf = 0x7f80
	}
	// Codes of non-negative values ascend with the value. The code of infinity stands for the value after the largest
	// finite one.
	at := func(i int) float64 {
		if i == int(inf) {
			return 2*value16(d, inf-1) - value16(d, inf-2)
		}
		return value16(d, uint16(i))
	}
	hi := sort.Search(int(inf), func(i int) bool { return at(i) >= x })
	if hi == 0 || at(hi) == x || hi == int(inf) && x >= at(hi) {
		return sign | uint16(hi)
	}
	lo, below, above := hi-1, x-at(hi-1), at(hi)-x
	if below < above || below == above && lo%2 == 0 {
		hi = lo
	}
	return sign | uint16(hi)
}

func TestWiden(t *testing.T) {
	for _, from := range []dtype.DType{dtype.F16, dtype.BF16} {
		src := make([]byte, 2<<16)
		for i := range 1 << 16 {
			binary.LittleEndian.PutUint16(src[2*i:], uint16(i))
		}
		dst, mid := make([]byte, 4<<16), make([]uint32, 1<<16)
		convert(dst, dtype.F32, src, from, mid)
		for i := range 1 << 16 {
			got, want := float64(math.Float32frombits(binary.LittleEndian.Uint32(dst[4*i:]))), value16(from, uint16(i))
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (i>>15 == 1) {
				t.Fatalf("%s %#04x widens to %v, want %v", from, i, got, want)
			}
		}
	}
}

// doubles returns float64 values that are hard to round: near all 16-bit values and the midpoints between them.
func doubles(to dtype.DType) []float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	var out []float64
	for range 20000 {
		h := uint16(rng.Uint32()) & 0x7fff
		v, next := value16(to, h), value16(to, h+1)
		if math.IsNaN(v) || math.IsInf(v, 0) || math.IsNaN(next) {
			continue
		}
		if math.IsInf(next, 0) {
			next = 2*v - value16(to, h-1)
		}
		mid := (v + next) / 2
		tiny := math.Abs(next-v) * 0x1p-40
		for _, x := range []float64{v, mid, mid + tiny, mid - tiny, v + (next-v)*rng.Float64()} {
			out = append(out, x, -x)
		}
	}
	return append(out, 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 65504, 65519.999999, 65520, 65536, 1e300,
		-1e300,
		math.MaxFloat32, math.MaxFloat32*(1+0x1p-25), 1e-300, math.SmallestNonzeroFloat64, 0x1p-25, 0x1p-24, 0x1.8p-24,
		0x1p-133, 0x1p-134)
}

func TestRound(t *testing.T) {
	for _, to := range []dtype.DType{dtype.F16, dtype.BF16} {
		for _, from := range []dtype.DType{dtype.F64, dtype.F32} {
			var src []byte
			var xs []float64
			var wantOver int64
			for _, x := range doubles(to) {
				if from == dtype.F32 {
					x = float64(float32(x))
					src = binary.LittleEndian.AppendUint32(src, math.Float32bits(float32(x)))
				} else {
					src = binary.LittleEndian.AppendUint64(src, math.Float64bits(x))
				}
				xs = append(xs, x)
			}
			dst := make([]byte, 2*len(xs))
			over := convert(dst, to, src, from, make([]uint32, len(xs)))
			for i, x := range xs {
				got, want := binary.LittleEndian.Uint16(dst[2*i:]), nearest16(to, x)
				if got != want {
					t.Fatalf("%s %x rounds to %s %#04x (%x), want %#04x (%x)", from, x, to, got, value16(to, got), want,
						value16(to, want))
				}
				if !math.IsInf(x, 0) && math.IsInf(value16(to, want), 0) {
					wantOver++
				}
			}
			if over != wantOver || over == 0 {
				t.Errorf("%s to %s: %d overflows, want %d", from, to, over, wantOver)
			}
		}
	}
}

func TestRoundF64ToF32(t *testing.T) {
	xs := append(doubles(dtype.BF16), math.MaxFloat32*(1+0x1p-24), 1+0x1p-24, 1+0x1.8p-23)
	var src []byte
	for _, x := range xs {
		src = binary.LittleEndian.AppendUint64(src, math.Float64bits(x))
	}
	dst := make([]byte, 4*len(xs))
	if over := convert(dst, dtype.F32, src, dtype.F64, make([]uint32, len(xs))); over < 2 {
		t.Errorf("%d overflows", over)
	}
	for i, x := range xs {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(dst[4*i:])); got != float32(x) {
			t.Fatalf("%x rounds to %x", x, got)
		}
	}
}

func TestNaNStaysNaN(t *testing.T) {
	for _, bits := range []uint64{0x7ff0000000000001, 0x7ff8000000000000, 0xffffffffffffffff, 0x7ff0000020000000} {
		src := binary.LittleEndian.AppendUint64(nil, bits)
		for _, to := range []dtype.DType{dtype.F16, dtype.BF16} {
			dst := make([]byte, 2)
			if over := convert(dst, to, src, dtype.F64, make([]uint32, 1)); over != 0 ||
				!math.IsNaN(value16(to, binary.LittleEndian.Uint16(dst))) {
				t.Errorf("NaN %#x becomes %s %x, %d overflows", bits, to, dst, over)
			}
		}
	}
	for _, bits := range []uint32{0x7f800001, 0xffffffff, 0x7fc00000} {
		src := binary.LittleEndian.AppendUint32(nil, bits)
		for _, to := range []dtype.DType{dtype.F16, dtype.BF16} {
			dst := make([]byte, 2)
			if over := convert(dst, to, src, dtype.F32, make([]uint32, 1)); over != 0 ||
				!math.IsNaN(value16(to, binary.LittleEndian.Uint16(dst))) {
				t.Errorf("NaN %#x becomes %s %x, %d overflows", bits, to, dst, over)
			}
		}
	}
}

// TestCopy checks a tensor longer than one chunk, and that equal types are copied bit by bit, NaN payloads included.
func TestCopy(t *testing.T) {
	const n = chunk*2 + 77
	data := make([]byte, 4*n)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], rng.Uint32())
	}
	f := file(`{"x":{"dtype":"F32","shape":[131149],"data_offsets":[0,524596]}}`, 0)
	c, err := Open(write(t, t.TempDir(), "m.safetensors", append(f, data...)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Bytes("x", dtype.F32); err != nil || !bytes.Equal(got, data) {
		t.Errorf("f32 to f32 is not a copy (%v)", err)
	}
	got, err := c.Bytes("x", dtype.BF16)
	if err != nil || len(got) != 2*n {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for i := range n {
		x := float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		if h := binary.LittleEndian.Uint16(got[2*i:]); !math.IsNaN(x) && h != nearest16(dtype.BF16, x) {
			t.Fatalf("element %d: %x became %#04x", i, x, h)
		}
	}
	full := errors.New("disk full")
	if _, err := c.Copy(failing{full}, "x", dtype.F16); !errors.Is(err, full) {
		t.Errorf("a failing writer gave %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestCopyRefused(t *testing.T) {
	f := file(
		`{"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"f8":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[8,10]},"x":{"dtype":"F16","shape":[],"data_offsets":[10,12]}}`,
		12)
	path := write(t, t.TempDir(), "m.safetensors", f)
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, want := range map[string]string{"i": `tensor "i": i64 cannot be converted to f32`,
		"f8": "element type F8_E4M3"} {
		if _, err := c.Copy(io.Discard, name, dtype.F32); !errors.Is(err, CodeDType) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if r, err := c.Open(name); err != nil || r.Size() == 0 {
			t.Errorf("%s: raw bytes: %v", name, err)
		}
	}
	if got, err := c.Bytes("i", dtype.I64); err != nil || len(got) != 8 {
		t.Errorf("i64 as it is: %v, %v", got, err)
	}
	if _, err := c.Copy(io.Discard, "x", dtype.F64); !errors.Is(err, CodeDType) {
		t.Errorf("f16 to f64: %v", err)
	}
	if _, err := c.Copy(io.Discard, "y", dtype.F32); !errors.Is(err, CodeMissing) {
		t.Errorf("missing: %v", err)
	}
	if _, err := c.Open("y"); !errors.Is(err, CodeMissing) {
		t.Errorf("missing: %v", err)
	}
}

func BenchmarkConvert(b *testing.B) {
	for _, from := range []dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16} {
		for _, to := range []dtype.DType{dtype.F32, dtype.F16, dtype.BF16} {
			b.Run(from.String()+"-"+to.String(), func(b *testing.B) {
				src, dst, mid := make([]byte, chunk*from.Size()), make([]byte, chunk*to.Size()), make([]uint32, chunk)
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					convert(dst, to, src, from, mid)
				}
			})
		}
	}
}
