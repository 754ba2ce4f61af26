package gguf_test

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/internal/gguf"
	"github.com/rlx-go/rlx/internal/gguftest"
)

var sample = gguftest.File(3, gguftest.Meta{
	"general.architecture", "llama", "a.u8", uint8(200), "a.u32", uint32(7), "a.i32", int32(-7), "a.f32", float32(0.5),
	"a.bool", true,
	"a.texts", []string{"x", "", "é"}, "a.ints", []int32{1, -2}, "a.floats", []float32{1.5}, "a.u64", uint64(1) << 60,
}, gguftest.T("w", 1, make([]byte, 12), 2, 3), gguftest.T("q", 2, make([]byte, 72), 2, 64), gguftest.T("n", 0,
	make([]byte, 12), 3))

func parse(b []byte) (*gguf.Header, error) { return gguf.Parse(bytes.NewReader(b), int64(len(b))) }

func TestParse(t *testing.T) {
	for _, version := range []byte{2, 3} {
		b := slices.Clone(sample)
		b[4] = version
		h, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]any{
			"general.architecture": "llama", "a.u8": uint64(200), "a.u32": uint64(7), "a.i32": int64(-7), "a.f32": 0.5,
			"a.bool":  true,
			"a.texts": []string{"x", "", "é"}, "a.ints": []int64{1, -2}, "a.floats": []float64{1.5},
			"a.u64": uint64(1) << 60,
		}; !reflect.DeepEqual(h.Meta, want) {
			t.Errorf("metadata %v; want %v", h.Meta, want)
		}
		start := int64(len(b) - 32 - 96 - 32)
		if want := []gguf.Tensor{
			{Name: "w", Type: 1, Dims: []int64{2, 3}, Offset: start, Size: 12},
			{Name: "q", Type: 2, Dims: []int64{2, 64}, Offset: start + 32, Size: 36 * 2},
			{Name: "n", Type: 0, Dims: []int64{3}, Offset: start + 128, Size: 12},
		}; !reflect.DeepEqual(h.Tensors, want) {
			t.Errorf("tensors %v; want %v", h.Tensors, want)
		}
	}
}

// TestTruncated checks that every proper prefix of a file is refused, unless it lacks only padding after the last
// tensor.
func TestTruncated(t *testing.T) {
	for n := range len(sample) - 20 {
		if _, err := parse(sample[:n]); err == nil {
			t.Fatalf("the first %d bytes of %d are accepted", n, len(sample))
		} else if n >= 4 && !strings.Contains(err.Error(), "is cut short") {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func TestHostile(t *testing.T) {
	u32 := func(b []byte, at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }
	u64 := func(b []byte, at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }
	tensor := func(name string) int { // offset of its number of dims
		return bytes.Index(
			sample, append(binary.LittleEndian.AppendUint64(nil, uint64(len(name))), name+"\x02\x00\x00\x00"...)) + 8 +
			len(name)
	}
	w, q := tensor("w"), tensor("q")
	for _, c := range []struct {
		name, want string
		change     func(b []byte)
	}{
		{"magic", "does not begin with GGUF", func(b []byte) { b[0] = 'g' }},
		{"version", "is of version 1; allowed are 2 and 3", func(b []byte) { u32(b, 4, 1) }},
		{"big-endian", "is big-endian", func(b []byte) { u32(b, 4, 3<<24) }},
		{"tensors", "has 1099511627776 tensors", func(b []byte) { u64(b, 8, 1<<40) }},
		{"tensors that do not fit", "is cut short", func(b []byte) { u64(b, 8, 1<<16) }},
		{"keys", "has 4294967296 metadata keys", func(b []byte) { u64(b, 16, 1<<32) }},
		{"key", "bytes of a metadata key at byte 24; at most 1024", func(b []byte) { u64(b, 24, 1<<62) }},
		{"key that is not UTF-8", "which is not UTF-8", func(b []byte) { b[32] = 0xff }},
		{"value type", "has the invalid type 13", func(b []byte) { u32(b, 52, 13) }},
		{"text", "bytes of text", func(b []byte) { u64(b, 56, 1<<40) }},
		{"key twice", `has the metadata key "a.u8" twice`, func(b []byte) {
			copy(b[bytes.Index(b, []byte("a.u8")):], "a.u8")
			i := bytes.Index(b, []byte("a.u32"))
			copy(b[i-8:], "\x04\x00\x00\x00\x00\x00\x00\x00a.u8")
		}},
		{"array of arrays", "an array of type 9", func(b []byte) { u32(b, bytes.Index(b, []byte("a.ints"))+10, 9) }},
		{"array that does not fit", "is cut short",
			func(b []byte) { u64(b, bytes.Index(b, []byte("a.ints"))+14, 1<<20) }},
		{"boolean", "is the boolean 2", func(b []byte) { b[bytes.Index(b, []byte("a.bool"))+10] = 2 }},
		{"dims", "has 5 dims; at most 4", func(b []byte) { u32(b, w, 5) }},
		{"dim 0", "has a dim of 0", func(b []byte) { u64(b, w+4, 0) }},
		{"huge dims", "which is out of range", func(b []byte) { u64(b, w+4, 1<<40); u64(b, w+12, 1<<40) }},
		{"element type", "has element type 4, which this version does not know", func(b []byte) { u32(b, w+20, 4) }},
		{"rows and blocks", "Q4_0 has blocks of 32", func(b []byte) { u64(b, q+4, 63) }},
		{"offset", "is at offset 64; want 32", func(b []byte) { u64(b, q+24, 64) }},
		{"large tensor", "is cut short: tensor", func(b []byte) { u64(b, w+12, 1<<30) }},
		{"same name", `has the tensor "w" twice`, func(b []byte) { b[q-1] = 'w' }},
	} {
		b := slices.Clone(sample)
		c.change(b)
		if _, err := parse(b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
	if _, err := parse(append(slices.Clone(sample), make([]byte, 32)...)); err == nil ||
		!strings.Contains(err.Error(), "has 32 bytes after its last tensor") {
		t.Error(err)
	}
	if _, err := parse(gguftest.File(3, gguftest.Meta{"general.alignment", uint32(48)})); err == nil ||
		!strings.Contains(err.Error(), "allowed are powers of two") {
		t.Error(err)
	}
}

// FuzzParse looks for files that make Parse panic or allocate much more than their size, and for accepted tensors that
// overlap, lie outside the file or have parts of blocks.
func FuzzParse(t *testing.F) {
	f := campaign.New(t)
	f.Add(sample)
	f.Add(gguftest.File(2, nil))
	f.Add(gguftest.File(3, gguftest.Meta{"general.alignment", uint32(64)}, gguftest.T("x", 0, make([]byte, 4))))
	f.Add(gguftest.File(2, gguftest.Meta{"general.alignment", uint32(64)}, gguftest.T("a", 0, make([]byte, 64), 4, 4),
		gguftest.T("b", 8, make([]byte, 68), 2, 32)))
	for _, kind := range []uint32{0, 1, 6, 7, 8, 9, 12, 13} { // a value of each kind that claims a large count
		b := gguftest.File(3, gguftest.Meta{"k", "v"})
		b = append(b[:4+4+8+8+8+1], binary.LittleEndian.AppendUint32(nil, kind)...)
		f.Add(append(b, bytes.Repeat([]byte{0xff}, 24)...))
	}
	f.Fuzz(func(t testing.TB, b []byte) {
		h, err := parse(b)
		if err != nil {
			return
		}
		at := int64(0)
		for _, x := range h.Tensors {
			if x.Offset < at || x.Size < 0 || x.Offset > int64(len(b)) || x.Size > int64(len(b))-x.Offset {
				t.Fatalf("tensor %q has %d bytes at %d of %d; the one before it ends at %d", x.Name, x.Size, x.Offset,
					len(b), at)
			}
			at = x.Offset + x.Size
			values := int64(1)
			for _, d := range x.Dims {
				values *= d
			}
			if n := x.Type.Values(); n < 1 || values < 1 || values%n != 0 {
				t.Fatalf("tensor %q has dims %v in blocks of %d", x.Name, x.Dims, n)
			}
		}
	})
}

// TestMetadataMemory checks that small numbers, which become larger in memory, count with that size.
func TestMetadataMemory(t *testing.T) {
	const n = 1 << 10
	defer gguf.SetMaxMemory(3*8*n - 1)()
	b := []byte("GGUF\x03\x00\x00\x00")
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint64(b, 3)
	for _, key := range []string{"a", "b", "c"} {
		b = binary.LittleEndian.AppendUint64(b, 1)
		b = append(b, key...)
		b = binary.LittleEndian.AppendUint32(b, 9)
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, n)
		b = append(b, make([]byte, n)...)
	}
	if _, err := parse(b); err == nil || !strings.Contains(err.Error(), "bytes of memory") {
		t.Error(err)
	}
}
