// Package safetensors reads the headers of safetensors files strictly, without reading tensors. Both commands use it,
// so they accept the same files.
//
// The package imports only core/diag, core/dtype and internal/strictjson.
package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/strictjson"
)

// Limits of a file.
const (
	MaxHeader  = 100_000_000 // bytes of a header, as in the reference implementation
	MaxTensors = 1 << 20     // tensors in a file
	maxRank    = 64          // more than any tensor needs; bounds the memory for a hostile header
)

// stored lists all element types of the format: the size of an element in bits, and our type, if we have one.
var stored = map[string]struct {
	bits  uint64
	dtype dtype.DType
}{
	"F64": {64, dtype.F64}, "F32": {32, dtype.F32}, "F16": {16, dtype.F16}, "BF16": {16, dtype.BF16},
	"I64": {64, dtype.I64}, "I32": {32, dtype.I32}, "I16": {16, dtype.I16}, "I8": {8, dtype.I8},
	"U32": {32, dtype.U32}, "U8": {8, dtype.U8}, "BOOL": {8, dtype.Bool},
	"U64": {64, dtype.Invalid}, "U16": {16, dtype.Invalid}, "C64": {64, dtype.Invalid},
	"F8_E5M2": {8, dtype.Invalid}, "F8_E4M3": {8, dtype.Invalid}, "F8_E8M0": {8, dtype.Invalid},
	"F8_E5M2FNUZ": {8, dtype.Invalid}, "F8_E4M3FNUZ": {8, dtype.Invalid},
	"F6_E2M3": {6, dtype.Invalid}, "F6_E3M2": {6, dtype.Invalid}, "F4": {4, dtype.Invalid},
}

// Tensor is an entry of a header.
type Tensor struct {
	Name   string
	DType  dtype.DType // Invalid if we have no such type, as for F8_E4M3
	Stored string      // type as the file names it, such as "BF16"
	Shape  []int64     // row-major; empty for a scalar
	Offset int64       // offset of the first byte in the file
	Size   int64       // bytes
}

// Codes are the error codes that Parse uses.
type Codes struct {
	Read   diag.Code // the file cannot be read
	Header diag.Code // the header is not valid
	Tensor diag.Code // an entry of the header is not valid
}

// Parse reads the header of a safetensors file of size bytes and checks that
//
//   - the header is at most 100 MB and inside the file, valid UTF-8, one JSON object, without duplicate keys;
//   - __metadata__ maps strings to strings;
//   - each tensor has a known dtype, a shape of whole numbers, and exactly as many bytes as these two say;
//   - in order of data_offsets the tensors follow one another without hole or overlap, from the end of the header to
//     the end of the file.
//
// As in the reference implementation, white space before the JSON and unknown fields of a tensor are accepted. Values
// are not checked: NaN and infinity are valid.
//
// Parse returns the tensors in the order of their offsets, and the metadata. Errors are *diag.Error about file.
func Parse(file string, r io.ReaderAt, size int64, codes Codes) ([]Tensor, map[string]string, error) {
	headerErr := func(format string, args ...any) error { return diag.New(codes.Header, file, format, args...) }
	var prefix [8]byte
	if size < 8 {
		return nil, nil, headerErr("has %d bytes; a safetensors file begins with 8 bytes that give the header's length",
			size)
	}
	if err := ReadAt(file, r, prefix[:], 0, codes.Read); err != nil {
		return nil, nil, err
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > MaxHeader || n > uint64(size-8) {
		e := diag.New(
			codes.Header, file,
			"is not a safetensors file: its header length is %d bytes; the file has %d bytes after it, and the limit is %d",
			n, size-8, MaxHeader)
		return nil, nil, sniff(e, prefix[:])
	}
	doc := make([]byte, n)
	if err := ReadAt(file, r, doc, 8, codes.Read); err != nil {
		return nil, nil, err
	}
	ts, meta, err := decodeHeader(doc)
	var te *tensorError
	if errors.As(err, &te) {
		return nil, nil, diag.New(codes.Tensor, file, "%w", te)
	} else if err != nil {
		return nil, nil, headerErr("the header %s", strings.TrimPrefix(err.Error(), "the header "))
	}
	if te := checkLayout(ts, size-8-int64(n)); te != nil {
		return nil, nil, diag.New(codes.Tensor, file, "%w", te)
	}
	for i := range ts {
		ts[i].Offset += 8 + int64(n) // no overflow: checkLayout ensures that both are at most size
	}
	return ts, meta, nil
}

// ReadAt fills b from offset off of a file. Errors have the given code.
func ReadAt(file string, r io.ReaderAt, b []byte, off int64, code diag.Code) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err // the subject names the path
	}
	return diag.New(code, file, "cannot be read at byte %d: %w", off+int64(n), err)
}

// sniff adds a hint with the probable format of the file to an error.
func sniff(e *diag.Error, prefix []byte) error {
	switch s := string(prefix); {
	case strings.HasPrefix(s, "PK\x03\x04"), strings.HasPrefix(s, "\x80\x02"):
		return e.WithHint("it looks like a PyTorch pickle (.pth, .pt, .bin); convert it to safetensors")
	case strings.HasPrefix(s, "\x8bRLX"):
		return e.WithHint("it is an artifact: already compiled, for rlxrun")
	case strings.HasPrefix(s, "GGUF"):
		return e.WithHint("it looks like a GGUF file; give it the ending .gguf")
	case strings.HasPrefix(s, "version "):
		return e.WithHint("it looks like a Git LFS pointer; fetch the file itself")
	}
	return e
}

// tensorError is an error in the entry of one tensor.
type tensorError struct{ name, msg string }

func (e *tensorError) Error() string { return fmt.Sprintf("tensor %q: %s", e.name, e.msg) }

func decodeHeader(doc []byte) (ts []Tensor, meta map[string]string, err error) {
	r, err := strictjson.New(doc)
	if err != nil {
		return nil, nil, err
	}
	err = r.Object("the header", func(key string) error {
		if key == "__metadata__" {
			meta, err = decodeMetadata(r)
			return err
		}
		if len(ts) == MaxTensors {
			return fmt.Errorf("has more than %d tensors", MaxTensors)
		}
		t, err := decodeTensor(r, key)
		ts = append(ts, t)
		return err
	})
	if err == nil {
		err = r.End()
	}
	return ts, meta, err
}

func decodeMetadata(r *strictjson.Reader) (map[string]string, error) {
	meta := map[string]string{}
	return meta, r.Object("__metadata__", func(key string) error {
		v, err := r.String(fmt.Sprintf("__metadata__ %q", key))
		meta[key] = v
		return err
	})
}

func decodeTensor(r *strictjson.Reader, name string) (Tensor, error) {
	t := Tensor{Name: name}
	var offsets []int64
	err := r.Object("the entry", func(key string) (err error) {
		switch key {
		case "dtype":
			t.Stored, err = r.String("dtype")
		case "shape":
			t.Shape, err = r.Ints("shape", maxRank)
		case "data_offsets":
			offsets, err = r.Ints("data_offsets", 2)
		default:
			err = r.Skip()
		}
		return err
	})
	if err != nil {
		return t, &tensorError{name, err.Error()}
	}
	bad := func(format string, args ...any) (Tensor, error) {
		return t, &tensorError{name, fmt.Sprintf(format, args...)}
	}
	kind, known := stored[t.Stored]
	switch {
	case t.Stored == "" || t.Shape == nil || offsets == nil:
		return bad("dtype, shape or data_offsets is missing")
	case !known:
		return bad("dtype %.40q is unknown", t.Stored)
	case len(offsets) != 2 || offsets[0] > offsets[1]:
		return bad("data_offsets %v; allowed is [begin,end] with begin <= end", offsets)
	}
	t.DType, t.Offset, t.Size = kind.dtype, offsets[0], offsets[1]-offsets[0]
	size, ok := sizeOf(t.Shape, kind.bits)
	if !ok {
		return bad("shape %v of %s has no size: it overflows, or is not a whole number of bytes", t.Shape, t.Stored)
	}
	if size != t.Size {
		return bad("shape %v of %s takes %d bytes, data_offsets [%d,%d] give %d", t.Shape, t.Stored, size, offsets[0],
			offsets[1], t.Size)
	}
	return t, nil
}

// sizeOf returns the number of bytes of a tensor. It multiplies the dims that are not zero and checks each step, so
// that a zero dim cannot hide an overflow.
func sizeOf(shape []int64, elemBits uint64) (int64, bool) {
	total, empty := elemBits, false
	for _, d := range shape {
		if d == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(total, uint64(d))
		if hi != 0 || lo >= 1<<63 {
			return 0, false
		}
		total = lo
	}
	if empty {
		return 0, true
	}
	return int64(total / 8), total%8 == 0
}

// checkLayout sorts the tensors by offset and checks that they cover the data section of size bytes exactly.
func checkLayout(ts []Tensor, size int64) *tensorError {
	slices.SortFunc(ts, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size), strings.Compare(a.Name, b.Name))
	})
	end, last := int64(0), ""
	for _, t := range ts {
		span := fmt.Sprintf("data_offsets [%d,%d]", t.Offset, t.Offset+t.Size)
		switch {
		case t.Offset < end:
			return &tensorError{t.Name, fmt.Sprintf("%s overlap with tensor %q, which ends at %d", span, last, end)}
		case t.Offset > end:
			return &tensorError{
				t.Name, fmt.Sprintf("%s leave a hole: the bytes from %d to %d belong to no tensor", span, end,
					t.Offset)}
		case t.Size > size-t.Offset:
			return &tensorError{
				t.Name, fmt.Sprintf("%s reach past the end of the file, which has %d bytes of data", span, size)}
		}
		end, last = t.Offset+t.Size, t.Name
	}
	if end != size {
		return &tensorError{
			last, fmt.Sprintf("the last tensor ends at %d, but the file has %d bytes of data", end, size)}
	}
	return nil
}
