package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/campaign"
)

var codes = Codes{Read: "RLX3991", Header: "RLX3992", Tensor: "RLX3993"}

// file returns a safetensors file with a header and some data bytes.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

const two = `{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}}`

// one returns a header with one tensor.
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
		{"empty file", nil, codes.Header, "has 0 bytes"},
		{"seven bytes", make([]byte, 7), codes.Header, "has 7 bytes"},
		{"header length zero", lie(0), codes.Header, "not valid JSON"},
		{"header length one short", lie(uint64(len(two) - 1)), codes.Header, "not valid JSON"},
		{"header length one long", lie(uint64(len(two) + 1)), codes.Header, "UTF-8|after the JSON"},
		{"header longer than the file", lie(uint64(len(two) + 13)), codes.Header, "header length"},
		{"header length max", lie(1<<64 - 1), codes.Header, "header length is 18446744073709551615"},
		{"header length wraps", lie(1<<64 - 8), codes.Header, "header length"},
		{"pickle", append([]byte("PK\x03\x04"), make([]byte, 60)...), codes.Header, "PyTorch"},
		{"truncated data", file(two, 11), codes.Tensor, `tensor "a": data_offsets [8,12] reach past the end`},
		{"trailing byte", file(two, 13), codes.Tensor, "the last tensor ends at 12, but the file has 13"},
		{"data without tensors", file("{}", 1), codes.Tensor, "ends at 0"},
		{"overlap", file(overlap, 12), codes.Tensor,
			`tensor "x": data_offsets [4,12] overlap with tensor "a", which ends at 8`},
		{"same bytes twice", file(strings.Replace(overlap, "[4,12]", "[0,8]", 1), 8), codes.Tensor, "overlap"},
		{"hole", file(hole, 16), codes.Tensor, "hole: the bytes from 8 to 12"},
		{"hole at the start", file(one("F32", "[1]", "[4,8]"), 8), codes.Tensor, "from 0 to 4"},
		{"begin after end", file(one("F32", "[1]", "[4,0]"), 4), codes.Tensor, "begin <= end"},
		{"offsets past 2^63", file(one("F32", "[1]", "[18446744073709551612,18446744073709551616]"), 4), codes.Tensor,
			"whole numbers"},
		{"offsets near 2^63", file(one("U8", "[9223372036854775807]", "[0,9223372036854775807]"), 4), codes.Tensor,
			"size"},
		{"one offset", file(one("F32", "[1]", "[4]"), 4), codes.Tensor, "begin <= end"},
		{"three offsets", file(one("F32", "[1]", "[0,4,4]"), 4), codes.Tensor, "more than 2"},
		{"size too small", file(one("F32", "[2]", "[0,4]"), 4), codes.Tensor,
			"takes 8 bytes, data_offsets [0,4] give 4"},
		{"size too large", file(one("F32", "[]", "[0,8]"), 8), codes.Tensor, "takes 4 bytes"},
		{"negative dim", file(one("F32", "[-1]", "[0,4]"), 4), codes.Tensor, "shape holds -1"},
		{"minus zero", file(one("F32", "[-0]", "[0,0]"), 0), codes.Tensor, "shape holds -0"},
		{"fractional dim", file(one("F32", "[1.5]", "[0,4]"), 4), codes.Tensor, "shape holds 1.5"},
		{"float dim", file(one("F32", "[1.0]", "[0,4]"), 4), codes.Tensor, "shape holds 1.0"},
		{"1e30", file(one("F32", "[1e30]", "[0,4]"), 4), codes.Tensor, "shape holds 1e30"},
		{"NaN dim", file(one("F32", "[NaN]", "[0,4]"), 4), codes.Tensor, "not valid JSON"},
		{"null dim", file(one("F32", "[null]", "[0,4]"), 4), codes.Tensor, "null"},
		{"text dim", file(one("F32", `["1"]`, "[0,4]"), 4), codes.Tensor, "a string"},
		{"shape is a number", file(one("F32", "1", "[0,4]"), 4), codes.Tensor, "shape is the number 1"},
		{"product wraps to 4 bytes", file(one("F32", "[4294967296,4294967296]", "[0,0]"), 0), codes.Tensor,
			"overflows"},
		{"overflow behind a zero", file(one("F32", "[0,4294967296,4294967296]", "[0,0]"), 0), codes.Tensor,
			"overflows"},
		{"overflow before a zero", file(one("F32", "[4294967296,4294967296,0]", "[0,0]"), 0), codes.Tensor,
			"overflows"},
		{"half a byte", file(one("F4", "[3]", "[0,1]"), 1), codes.Tensor, "whole number of bytes"},
		{"rank", file(one("U8", "["+strings.Repeat("1,", 64)+"1]", "[0,1]"), 1), codes.Tensor, "more than 64"},
		{"unknown dtype", file(one("F31", "[1]", "[0,4]"), 4), codes.Tensor, `dtype "F31" is unknown`},
		{"dtype in lower case", file(one("f32", "[1]", "[0,4]"), 4), codes.Tensor, `dtype "f32"`},
		{"dtype missing", file(`{"x":{"shape":[1],"data_offsets":[0,4]}}`, 4), codes.Tensor, "missing"},
		{"shape missing", file(`{"x":{"dtype":"F32","data_offsets":[0,4]}}`, 4), codes.Tensor, "missing"},
		{"offsets missing", file(`{"x":{"dtype":"F32","shape":[1]}}`, 4), codes.Tensor, "missing"},
		{"key of another case", file(`{"x":{"dtype":"F32","Shape":[1],"data_offsets":[0,4]}}`, 4), codes.Tensor,
			"missing"},
		{"duplicate tensor",
			file(
				`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`,
				8), codes.Header, `key "x" twice`},
		{"duplicate tensor, escaped",
			file(
				`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\u0078":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`,
				8), codes.Header, `key "x" twice`},
		{"duplicate field", file(`{"x":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,4]}}`, 4), codes.Tensor,
			`key "shape" twice`},
		{"duplicate metadata", file(`{"__metadata__":{},"__metadata__":{}}`, 0), codes.Header, "twice"},
		{"duplicate metadata key", file(`{"__metadata__":{"a":"1","a":"2"}}`, 0), codes.Header, "twice"},
		{"metadata number", file(`{"__metadata__":{"a":1}}`, 0), codes.Header,
			`__metadata__ "a" is the number 1, not a string`},
		{"metadata list", file(`{"__metadata__":[]}`, 0), codes.Header, "not an object"},
		{"top-level list", file(`[]`, 0), codes.Header, "not an object"},
		{"entry is null", file(`{"x":null}`, 0), codes.Tensor, "null"},
		{"two documents", file(`{}{}`, 0), codes.Header, "after the JSON"},
		{"trailing comma", file(`{"__metadata__":{},}`, 0), codes.Header, "JSON"},
		{"byte order mark", file("\ufeff{}", 0), codes.Header, "JSON"},
		{"bad UTF-8", file("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4), codes.Header,
			"UTF-8"},
		{"deep unknown field", file(`{"x":{"note":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}}`, 0),
			codes.Tensor, "nested deeper"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Parse("m.safetensors", bytes.NewReader(tc.file), int64(len(tc.file)), codes)
			if !errors.Is(err, tc.code) {
				t.Fatalf("error %v, want code %s", err, tc.code)
			}
			if !slices.ContainsFunc(strings.Split(tc.want, "|"),
				func(w string) bool { return strings.Contains(err.Error(), w) }) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
			if !strings.HasPrefix(err.Error(), "m.safetensors: ") {
				t.Errorf("error %q does not begin with the file", err)
			}
		})
	}
}

func TestHeaderCap(t *testing.T) {
	// claims a header inside the file, judging by the size given to Parse
	prefix := binary.LittleEndian.AppendUint64(nil, MaxHeader+1)
	if _, _, err := Parse("f", bytes.NewReader(prefix), MaxHeader+100, codes); !errors.Is(err, codes.Header) ||
		!strings.Contains(err.Error(), "limit") {
		t.Errorf("error %v", err)
	}
}

// TestReadError checks that an error of the disk is not reported as an error in the file.
func TestReadError(t *testing.T) {
	f := file(two, 12)
	for n := range len(f) - 12 {
		_, _, err := Parse("f", cut{bytes.NewReader(f), int64(n)}, int64(len(f)), codes)
		if !errors.Is(err, codes.Read) || !errors.Is(err, iotest.ErrTimeout) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// cut is a reader that fails after n bytes.
type cut struct {
	r io.ReaderAt
	n int64
}

func (c cut) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) <= c.n {
		return c.r.ReadAt(b, off)
	}
	n, _ := c.r.ReadAt(b[:max(0, c.n-off)], off)
	return n, &os.PathError{Op: "read", Path: "f", Err: iotest.ErrTimeout}
}

// FuzzParse checks that the tensors of an accepted file cover it exactly.
func FuzzParse(t *testing.F) {
	f := campaign.New(t)
	f.Add(file(two, 12))
	f.Add(file(`{"__metadata__":{"a":"b"},"x":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]}}`, 0))
	f.Add(file(one("F4", "[2]", "[0,1]"), 1))
	f.Add(file(one("F32", "[4294967296,4294967296]", "[0,0]"), 0))
	f.Add(file("{}", 0))
	f.Add([]byte("PK\x03\x04aaaaaaaa"))
	if demo, err := os.ReadFile("../../demo/sam-nano.safetensors"); err == nil {
		f.Add(demo[:26392]) // its header
	}
	f.Fuzz(func(t testing.TB, data []byte) {
		ts, _, err := Parse("f", bytes.NewReader(data), int64(len(data)), codes)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f: ") {
				t.Errorf("error %q does not name the file", err)
			}
			return
		}
		end := int64(len(data))
		for i := len(ts) - 1; i >= 0; i-- {
			if ts[i].Offset+ts[i].Size != end {
				t.Fatalf("tensor %q ends at %d, not %d", ts[i].Name, ts[i].Offset+ts[i].Size, end)
			}
			end = ts[i].Offset
		}
	})
}
