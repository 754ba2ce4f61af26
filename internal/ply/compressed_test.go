package ply

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// packed returns a compressed file of 300 random splats.
func packed(harmonics, ranges int) []byte {
	const n = 300
	var b bytes.Buffer
	fmt.Fprintf(&b, "ply\nformat binary_little_endian 1.0\nelement chunk 2\n")
	for _, p := range chunkRanges[:ranges] {
		fmt.Fprintf(&b, "property float %s\n", p)
	}
	fmt.Fprintf(&b, "element vertex %d\n", n)
	for _, p := range packedWords {
		fmt.Fprintf(&b, "property uint %s\n", p)
	}
	if harmonics > 0 {
		fmt.Fprintf(&b, "element sh %d\n", n)
		for k := range harmonics {
			fmt.Fprintf(&b, "property uchar f_rest_%d\n", k)
		}
	}
	b.WriteString("end_header\n")
	rng := rand.New(rand.NewPCG(6, uint64(harmonics)))
	for range 2 * ranges {
		binary.Write(&b, binary.LittleEndian, float32(rng.Float64()))
	}
	for range 4 * n {
		binary.Write(&b, binary.LittleEndian, rng.Uint32())
	}
	for range harmonics * n {
		b.WriteByte(byte(rng.Uint32()))
	}
	return b.Bytes()
}

// read returns the properties and all values of a file.
func read(t *testing.T, path string) (*Header, []float32) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return h, rowsOf(t, h)
}

func rowsOf(t *testing.T, h *Header) []float32 {
	t.Helper()
	raw := make([]byte, h.Vertices*h.Stride())
	if _, err := h.Values.ReadAt(raw, h.Offset); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

// TestCompressed compares files with the result of expanding them by PlayCanvas' splat-transform. It wrote them, too,
// from random splats (testdata/compressed.py).
func TestCompressed(t *testing.T) {
	for _, name := range []string{"plain", "harmonics"} {
		h, got := read(t, "testdata/"+name+".compressed.ply")
		ref, want := read(t, "testdata/"+name+".ply")
		if h.Vertices != ref.Vertices {
			t.Fatalf("%d vertices; want %d", h.Vertices, ref.Vertices)
		}
		for k, p := range h.Properties {
			column := slices.Index(ref.Properties, p)
			if column < 0 {
				t.Fatalf("the reference has no property %s", p)
			}
			for i := range int(h.Vertices) {
				x, y := got[i*len(h.Properties)+k], want[i*len(ref.Properties)+column]
				if math.Abs(float64(x-y)) > 2e-6*max(1, math.Abs(float64(y))) {
					t.Fatalf("%s: %s of splat %d is %v; want %v", name, p, i, x, y)
				}
			}
		}
	}
}

// TestParts checks that reading in parts gives the same rows.
func TestParts(t *testing.T) {
	b := packed(24, 12)
	h, err := Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(io.NewSectionReader(h.Values, 0, math.MaxInt32))
	if err != nil || int64(len(all)) != h.Vertices*h.Stride() {
		t.Fatalf("%d bytes, %v", len(all), err)
	}
	for _, r := range [][2]int{{0, 1}, {3, 5}, {255, 700}, {len(all) - 9, 9}, {40000, 5000}, {len(all), 0}} {
		part := make([]byte, r[1])
		if _, err := h.Values.ReadAt(part, int64(r[0])); err != nil || !bytes.Equal(part, all[r[0]:][:r[1]]) {
			t.Errorf("%d bytes at %d differ: %v", r[1], r[0], err)
		}
	}
	if n, err := h.Values.ReadAt(make([]byte, 8), int64(len(all)-3)); n != 3 || err != io.EOF {
		t.Errorf("%d bytes, %v at the end", n, err)
	}
}

// TestBadCompressed checks the messages about damaged files.
func TestBadCompressed(t *testing.T) {
	good := string(packed(9, 18))
	for what, c := range map[string][2]string{
		"truncated":   {good[:len(good)-1], "its elements have"},
		"chunks":      {strings.Replace(good, "chunk 2", "chunk 3", 1), "has 3 chunks; 300 vertices have 2"},
		"a range":     {strings.Replace(good, "min_scale_y", "min_scale_q", 1), "element chunk has the properties"},
		"no sh":       {strings.Replace(good, "element sh 300\n", "", 1), "want properties of type float"},
		"few sh":      {strings.Replace(good, "element sh 300", "element sh 299", 1), "has 299 rows of 9"},
		"sh names":    {strings.Replace(good, "f_rest_3", "f_rest_9", 1), "want f_rest_3"},
		"words":       {strings.Replace(good, "packed_scale", "packed_size", 1), "element vertex has the properties"},
		"float words": {strings.Replace(good, "uint packed_color", "float packed_color", 1), "type float"},
		"order":       {strings.Replace(good, "element vertex", "element sh", 1), "want the element vertex alone"},
	} {
		_, err := Parse(strings.NewReader(c[0]), int64(len(c[0])))
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: error is %v; want %q", what, err, c[1])
		}
	}
}
