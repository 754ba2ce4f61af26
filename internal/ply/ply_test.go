package ply

import (
	"bytes"
	"strings"
	"testing"
)

const good = "ply\nformat binary_little_endian 1.0\ncomment by hand\nelement vertex 2\nproperty float x\n" +
	"property float32 y\nend_header\n"

func TestParse(t *testing.T) {
	file := good + strings.Repeat("abcd", 4)
	h, err := Parse(strings.NewReader(file), int64(len(file)))
	if err != nil || h.Vertices != 2 || strings.Join(h.Properties, ",") != "x,y" || h.Offset != int64(len(good)) {
		t.Fatalf("%+v, %v", h, err)
	}
	for name, c := range map[string][2]string{
		"truncated":   {file[:len(file)-1], "has 15 bytes after the header; 2 vertices of 8 bytes are 16"},
		"long":        {file + "x", "has 17 bytes after the header"},
		"not ply":     {"play\n" + file, "does not begin with the line ply"},
		"empty":       {"", "does not end"},
		"no end":      {good[:40], "does not end"},
		"ascii":       {strings.Replace(file, "binary_little_endian", "ascii", 1), "want format binary_little_endian"},
		"no format":   {strings.Replace(file, "format binary_little_endian 1.0\n", "", 1), "no line format"},
		"no vertices": {strings.Replace(file, "vertex 2", "vertex 0", 1), "has 0 vertices; want 1"},
		"too many":    {strings.Replace(file, "vertex 2", "vertex 999999999999", 1), "has 999999999999 vertices"},
		"negative":    {strings.Replace(file, "vertex 2", "vertex -2", 1), "has -2 vertices"},
		"uchar":       {strings.Replace(file, "float x", "uchar x", 1), "want properties of type float"},
		"list":        {strings.Replace(file, "float x", "list uchar int x", 1), "want properties of type float"},
		"twice":       {strings.Replace(file, "float32 y", "float x", 1), `property "x" appears twice`},
		"early":       {strings.Replace(file, "element vertex 2\n", "", 1), "belongs to no element"},
		"chunks":      {strings.Replace(file, "element vertex", "element chunk", 1), "has chunks, but no vertices"},
		"faces": {strings.Replace(file, "end_header", "element face 3\nend_header", 1),
			"want the element vertex alone"},
		"unknown line": {strings.Replace(file, "comment", "remark", 1), "which is unknown"},
		"endless": {good[:len(good)-11] + strings.Repeat("comment x\n", 1<<13),
			"does not end within the first 65536"},
	} {
		_, err := Parse(strings.NewReader(c[0]), int64(len(c[0])))
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: error is %v; want %q", name, err, c[1])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good + strings.Repeat("abcd", 4)))
	f.Add([]byte("ply\nelement vertex 1\n"))
	f.Add(packed(9, 18))
	f.Add(packed(0, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Parse(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if h.Offset > 0 && h.Offset+h.Vertices*h.Stride() != int64(len(b)) {
			t.Errorf("%+v for %d bytes", h, len(b))
		}
		n := min(h.Vertices*h.Stride(), 1<<20)
		if _, err := h.Values.ReadAt(make([]byte, n), h.Offset); err != nil {
			t.Error(err)
		}
	})
}
