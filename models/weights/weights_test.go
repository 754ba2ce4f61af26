package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
)

// file assembles a safetensors file from a header and a number of data bytes 0, 1, 2, ...
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range data {
		b = append(b, byte(i))
	}
	return b
}

func write(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

const two = `{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}}`

func TestAccepted(t *testing.T) {
	for name, f := range map[string][]byte{
		"plain":              file(two, 12),
		"leading space":      file(" \n\t"+two, 12),
		"trailing space":     file(two+"   ", 12),
		"metadata":           file(`{"__metadata__":{"format":"pt"},`+two[1:], 12),
		"unknown field":      file(strings.Replace(two, `"shape":[2],`, `"shape":[2],"note":{"deep":[1,{"x":null}]},`, 1), 12),
		"empty tensor first": file(`{"z":{"dtype":"F32","shape":[4,0],"data_offsets":[0,0]},`+two[1:], 12),
		"empty tensor last":  file(`{"z":{"dtype":"F32","shape":[0],"data_offsets":[12,12]},`+two[1:], 12),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Open(write(t, t.TempDir(), "m.safetensors", f))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got := slices.DeleteFunc(slices.Clone(c.Names()), func(s string) bool { return s == "z" }); !slices.Equal(got, []string{"a", "b"}) {
				t.Fatalf("names %v", got)
			}
			info, ok := c.Info("a")
			if !ok || info.DType != dtype.BF16 || !slices.Equal(info.Shape, []int64{2, 1}) || info.Size != 4 || info.File != "m.safetensors" {
				t.Errorf("info %+v %v", info, ok)
			}
			r, err := c.Open("a")
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := io.ReadAll(r); err != nil || string(raw) != "\x08\x09\x0a\x0b" {
				t.Errorf("bytes %v, %v", raw, err)
			}
			if name == "metadata" && c.Metadata()["format"] != "pt" {
				t.Errorf("metadata %v", c.Metadata())
			}
		})
	}
	empty, err := Open(write(t, t.TempDir(), "m.safetensors", file("{}", 0)))
	if err != nil || len(empty.Names()) != 0 {
		t.Errorf("a file without tensors: %v", err)
	}
}

// one is a header with a single tensor.
func one(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"x":{"dtype":%q,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
}

func TestRefused(t *testing.T) {
	lie := func(n uint64) []byte {
		f := file(two, 12)
		binary.LittleEndian.PutUint64(f, n)
		return f
	}
	overlap := `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`
	hole := `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}`
	for _, tc := range []struct {
		name string
		file []byte
		code diag.Code
		want string // part of the message
	}{
		{"empty file", nil, CodeHeader, "has 0 bytes"},
		{"seven bytes", make([]byte, 7), CodeHeader, "has 7 bytes"},
		{"header length zero", lie(0), CodeHeader, "not valid JSON"},
		{"header length one short", lie(uint64(len(two) - 1)), CodeHeader, "not valid JSON"},
		{"header length one long", lie(uint64(len(two) + 1)), CodeHeader, "UTF-8|after the JSON"},
		{"header longer than the file", lie(uint64(len(two) + 13)), CodeHeader, "header length"},
		{"header length max", lie(1<<64 - 1), CodeHeader, "header length is 18446744073709551615"},
		{"header length wraps", lie(1<<64 - 8), CodeHeader, "header length"},
		{"pickle", append([]byte("PK\x03\x04"), make([]byte, 60)...), CodeHeader, "PyTorch"},
		{"truncated data", file(two, 11), CodeTensor, `tensor "a": data_offsets [8,12] reach past the end`},
		{"trailing byte", file(two, 13), CodeTensor, "the last tensor ends at 12, but the file has 13"},
		{"data without tensors", file("{}", 1), CodeTensor, "ends at 0"},
		{"overlap", file(overlap, 12), CodeTensor, `tensor "x": data_offsets [4,12] overlap with tensor "a", which ends at 8`},
		{"same bytes twice", file(strings.Replace(overlap, "[4,12]", "[0,8]", 1), 8), CodeTensor, "overlap"},
		{"hole", file(hole, 16), CodeTensor, "hole: the bytes from 8 to 12"},
		{"hole at the start", file(one("F32", "[1]", "[4,8]"), 8), CodeTensor, "from 0 to 4"},
		{"begin after end", file(one("F32", "[1]", "[4,0]"), 4), CodeTensor, "begin <= end"},
		{"offsets past 2^63", file(one("F32", "[1]", "[18446744073709551612,18446744073709551616]"), 4), CodeTensor, "whole numbers"},
		{"offsets near 2^63", file(one("U8", "[9223372036854775807]", "[0,9223372036854775807]"), 4), CodeTensor, "size"},
		{"one offset", file(one("F32", "[1]", "[4]"), 4), CodeTensor, "begin <= end"},
		{"three offsets", file(one("F32", "[1]", "[0,4,4]"), 4), CodeTensor, "more than 2"},
		{"size too small", file(one("F32", "[2]", "[0,4]"), 4), CodeTensor, "takes 8 bytes, data_offsets [0,4] give 4"},
		{"size too large", file(one("F32", "[]", "[0,8]"), 8), CodeTensor, "takes 4 bytes"},
		{"negative dim", file(one("F32", "[-1]", "[0,4]"), 4), CodeTensor, "shape holds -1"},
		{"minus zero", file(one("F32", "[-0]", "[0,0]"), 0), CodeTensor, "shape holds -0"},
		{"fractional dim", file(one("F32", "[1.5]", "[0,4]"), 4), CodeTensor, "shape holds 1.5"},
		{"float dim", file(one("F32", "[1.0]", "[0,4]"), 4), CodeTensor, "shape holds 1.0"},
		{"1e30", file(one("F32", "[1e30]", "[0,4]"), 4), CodeTensor, "shape holds 1e30"},
		{"NaN dim", file(one("F32", "[NaN]", "[0,4]"), 4), CodeTensor, "not valid JSON"},
		{"null dim", file(one("F32", "[null]", "[0,4]"), 4), CodeTensor, "null"},
		{"text dim", file(one("F32", `["1"]`, "[0,4]"), 4), CodeTensor, "a string"},
		{"shape is a number", file(one("F32", "1", "[0,4]"), 4), CodeTensor, "shape is the number 1"},
		{"product wraps to 4 bytes", file(one("F32", "[4294967296,4294967296]", "[0,0]"), 0), CodeTensor, "overflows"},
		{"overflow behind a zero", file(one("F32", "[0,4294967296,4294967296]", "[0,0]"), 0), CodeTensor, "overflows"},
		{"overflow before a zero", file(one("F32", "[4294967296,4294967296,0]", "[0,0]"), 0), CodeTensor, "overflows"},
		{"half a byte", file(one("F4", "[3]", "[0,1]"), 1), CodeTensor, "whole number of bytes"},
		{"rank", file(one("U8", "["+strings.Repeat("1,", 64)+"1]", "[0,1]"), 1), CodeTensor, "more than 64"},
		{"unknown dtype", file(one("F31", "[1]", "[0,4]"), 4), CodeTensor, `dtype "F31" is unknown`},
		{"dtype in lower case", file(one("f32", "[1]", "[0,4]"), 4), CodeTensor, `dtype "f32"`},
		{"dtype missing", file(`{"x":{"shape":[1],"data_offsets":[0,4]}}`, 4), CodeTensor, "missing"},
		{"shape missing", file(`{"x":{"dtype":"F32","data_offsets":[0,4]}}`, 4), CodeTensor, "missing"},
		{"offsets missing", file(`{"x":{"dtype":"F32","shape":[1]}}`, 4), CodeTensor, "missing"},
		{"key of another case", file(`{"x":{"dtype":"F32","Shape":[1],"data_offsets":[0,4]}}`, 4), CodeTensor, "missing"},
		{"duplicate tensor", file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), CodeHeader, `key "x" twice`},
		{"duplicate tensor, escaped", file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\u0078":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), CodeHeader, `key "x" twice`},
		{"duplicate field", file(`{"x":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,4]}}`, 4), CodeTensor, `key "shape" twice`},
		{"duplicate metadata", file(`{"__metadata__":{},"__metadata__":{}}`, 0), CodeHeader, "twice"},
		{"duplicate metadata key", file(`{"__metadata__":{"a":"1","a":"2"}}`, 0), CodeHeader, "twice"},
		{"metadata number", file(`{"__metadata__":{"a":1}}`, 0), CodeHeader, `__metadata__ "a" is the number 1, not a string`},
		{"metadata list", file(`{"__metadata__":[]}`, 0), CodeHeader, "not an object"},
		{"top-level list", file(`[]`, 0), CodeHeader, "not an object"},
		{"entry is null", file(`{"x":null}`, 0), CodeTensor, "null"},
		{"two documents", file(`{}{}`, 0), CodeHeader, "after the JSON"},
		{"trailing comma", file(`{"__metadata__":{},}`, 0), CodeHeader, "JSON"},
		{"byte order mark", file("\ufeff{}", 0), CodeHeader, "JSON"},
		{"bad UTF-8", file("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4), CodeHeader, "UTF-8"},
		{"deep unknown field", file(`{"x":{"note":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}}`, 0), CodeTensor, "nested deeper"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, t.TempDir(), "m.safetensors", tc.file)
			_, err := Open(path)
			if !errors.Is(err, tc.code) {
				t.Fatalf("error %v, want code %s", err, tc.code)
			}
			if !slices.ContainsFunc(strings.Split(tc.want, "|"), func(w string) bool { return strings.Contains(err.Error(), w) }) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
			if !strings.HasPrefix(err.Error(), path) || diag.ExitCode(err) != 3 {
				t.Errorf("error %q must begin with the file and exit with 3, not %d", err, diag.ExitCode(err))
			}
		})
	}
}

// Every truncation of a good file is refused, and so is every file that is one byte longer.
func TestTruncated(t *testing.T) {
	dir, good := t.TempDir(), file(two, 12)
	for n := range good {
		if c, err := Open(write(t, dir, "m.safetensors", good[:n])); err == nil {
			c.Close()
			t.Errorf("%d of %d bytes accepted", n, len(good))
		}
	}
}

func TestHeaderCap(t *testing.T) {
	path := write(t, t.TempDir(), "m.safetensors", binary.LittleEndian.AppendUint64(nil, maxHeader+1))
	if err := os.Truncate(path, maxHeader+100); err != nil { // sparse: the header is inside the file
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, CodeHeader) || !strings.Contains(err.Error(), "limit") {
		t.Errorf("error %v", err)
	}
}

func TestOpenPaths(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, CodeRead) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(dir); !errors.Is(err, CodeRead) || !strings.Contains(err.Error(), "neither") {
		t.Errorf("empty directory: %v", err)
	}
	write(t, dir, singleName, file(two, 12))
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Files(); len(got) != 1 || got[0] != (SourceFile{singleName, int64(8 + len(two) + 12)}) {
		t.Errorf("files %v", got)
	}
	write(t, dir, indexName, []byte(`{"weight_map":{"a":"model.safetensors","b":"model.safetensors"}}`))
	if _, err := Open(dir); !errors.Is(err, CodeRead) || !strings.Contains(err.Error(), "both") {
		t.Errorf("two candidates: %v", err)
	}
}

// Any number of readers at once see the same bytes (run with -race too).
func TestConcurrentReaders(t *testing.T) {
	c, err := Open("../../demo/sam-nano.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n := len(c.Names()); n < 100 {
		t.Fatalf("%d tensors", n)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, name := range c.Names()[:40] {
				r, err := c.Open(name)
				if err != nil {
					t.Error(err)
					return
				}
				whole, err := io.ReadAll(r)
				if err != nil {
					t.Error(err)
				}
				same, err := c.Bytes(name, dtype.F16)
				if err != nil || string(whole) != string(same) {
					t.Errorf("%s: read twice, not the same (%v)", name, err)
				}
			}
		})
	}
	wg.Wait()
}
