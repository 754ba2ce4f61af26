// Package npy reads and writes NumPy's .npy files, dense little-endian tensors in C order, and .npz files, which are
// zip files of them.
//
// It imports only core/dtype, core/tensor, core/diag, internal/atomicfile, internal/ctxio and internal/regular.
package npy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// Codes of this package.
var (
	CodeRead   = code.NpyRead
	CodeFormat = code.NpyFormat
	CodeDType  = code.NpyDType
)

const (
	magic     = "\x93NUMPY"
	maxHeader = 1 << 16 // bytes; a header is one short dict, though version 2 allows 4 GiB
	maxRank   = 32      // NumPy's limit
	maxBytes  = 1 << 42
	growth    = 1 << 20 // if the header states a wrong size, memory exceeds the file's data by at most this many bytes
)

var descrs = map[string]dtype.DType{
	"<f4": dtype.F32, "<f8": dtype.F64, "<f2": dtype.F16,
	"|i1": dtype.I8, "<i2": dtype.I16, "<i4": dtype.I32, "<i8": dtype.I64,
	"|u1": dtype.U8, "<u4": dtype.U32, "|b1": dtype.Bool,
}

func descrOf(d dtype.DType) (string, bool) {
	for s, have := range descrs {
		if have == d {
			return s, true
		}
	}
	return "", false
}

// ReadFile reads the file path. ctx ends opening and reading. accept, if not nil, is called with the type in the header
// before the data is read; ReadFile returns its error unchanged.
func ReadFile(ctx context.Context, path string, accept func(dtype.DType, []int) error) (tensor.Tensor, error) {
	f, err := ctxio.Open(ctx, path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the subject names the path
		}
		return tensor.Tensor{}, diag.New(CodeRead, path, "cannot be opened: %w", err)
	}
	defer f.Close()
	return Read(path, ctxio.NewReader(ctx, f), accept)
}

// Read reads one tensor up to the end of r. name identifies it in errors. Memory use is bounded by the data in r. The
// data of the result is aligned to 64 bytes. accept is as for ReadFile.
func Read(name string, r io.Reader, accept func(dtype.DType, []int) error) (tensor.Tensor, error) {
	t, err := read(r, accept)
	if err == nil {
		return t, nil
	}
	switch err := err.(type) {
	case formatError:
		return tensor.Tensor{}, diag.New(CodeFormat, name, "%w", err)
	case refusal:
		return tensor.Tensor{}, err.error
	}
	return tensor.Tensor{}, diag.New(CodeRead, name, "cannot be read: %w", err)
}

// formatError is an error in the file's contents rather than in reading them.
type formatError string

func (e formatError) Error() string { return string(e) }

// refusal wraps an error of the caller's accept.
type refusal struct{ error }

func bad(format string, args ...any) error { return formatError(fmt.Sprintf(format, args...)) }

func read(r io.Reader, accept func(dtype.DType, []int) error) (t tensor.Tensor, err error) {
	header, err := readHeader(r)
	if err != nil {
		return t, err
	}
	if t.DType, t.Shape, err = parseHeader(header); err != nil {
		return t, err
	}
	size, ok := uint64(t.DType.Size()), true
	for _, d := range t.Shape {
		if d != 0 {
			hi, lo := bits.Mul64(size, uint64(d))
			ok, size = ok && hi == 0 && lo <= maxBytes, min(lo, maxBytes)
		}
	}
	if !ok {
		return t, bad("shape %v of %s takes more than %d bytes", t.Shape, t.DType, int64(maxBytes))
	}
	if accept != nil {
		if err := accept(t.DType, t.Shape); err != nil {
			return t, refusal{err}
		}
	}
	n := t.DType.Size() * tensor.Numel(t.Shape)
	t.Data = tensor.AlignedBytes(min(n, growth))
	for have := 0; have < n; {
		got, err := io.ReadFull(r, t.Data[have:])
		have += got
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return t, bad("ends after %d bytes of data; shape %v of %s takes %d", have, t.Shape, t.DType, n)
		} else if err != nil {
			return t, err
		}
		if have < n {
			more := tensor.AlignedBytes(min(n, 4*have))
			copy(more, t.Data)
			t.Data = more
		}
	}
	if extra, err := io.CopyN(io.Discard, r, 1); extra > 0 {
		return t, bad("has more bytes than shape %v of %s takes (%d)", t.Shape, t.DType, n)
	} else if err != io.EOF {
		return t, err
	}
	return t, nil
}

func readHeader(r io.Reader) (string, error) {
	var b [12]byte
	if n, err := io.ReadFull(r, b[:10]); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return "", err
	} else if n < 10 || string(b[:6]) != magic {
		return "", bad("is not a .npy file: it does not begin with \\x93NUMPY")
	}
	size := uint32(binary.LittleEndian.Uint16(b[8:]))
	switch b[6] {
	case 1:
	case 2:
		if _, err := io.ReadFull(r, b[10:]); err != nil {
			return "", short(err)
		}
		size = binary.LittleEndian.Uint32(b[8:])
	default:
		return "", bad("has version %d.%d; allowed are 1 and 2", b[6], b[7])
	}
	if size > maxHeader {
		return "", bad("has a header of %d bytes; the limit is %d", size, maxHeader)
	}
	h := make([]byte, size)
	if _, err := io.ReadFull(r, h); err != nil {
		return "", short(err)
	}
	return string(h), nil
}

func short(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return bad("ends inside its header")
	}
	return err
}

// parseHeader reads the header, a Python dict such as
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }
func parseHeader(h string) (d dtype.DType, shape []int, err error) {
	p := parser{h}
	seen := map[string]bool{}
	if !p.eat("{") {
		return 0, nil, bad("header is not a dict: %.80q", h)
	}
	for !p.eat("}") {
		key, ok := p.quoted()
		if !ok || !p.eat(":") || seen[key] {
			return 0, nil, bad("header is not a dict of descr, fortran_order and shape, each once: %.80q", h)
		}
		seen[key] = true
		switch key {
		case "descr":
			if d, err = p.descr(); err != nil {
				return 0, nil, err
			}
		case "fortran_order":
			if p.eat("True") {
				return 0, nil, bad("is in Fortran order; save numpy.ascontiguousarray(a)")
			} else if !p.eat("False") {
				return 0, nil, bad("fortran_order is neither True nor False")
			}
		case "shape":
			if shape, err = p.tuple(); err != nil {
				return 0, nil, err
			}
		default:
			return 0, nil, bad("header has the unknown key %.40q", key)
		}
		if !p.eat(",") && !strings.HasPrefix(p.space(), "}") {
			return 0, nil, bad("header is not a dict: %.80q", h)
		}
	}
	if p.space() != "" {
		return 0, nil, bad("header has more after the dict: %.80q", p.rest)
	}
	if len(seen) != 3 {
		return 0, nil, bad("header must have descr, fortran_order and shape: %.80q", h)
	}
	return d, shape, nil
}

type parser struct{ rest string }

func (p *parser) space() string {
	p.rest = strings.TrimLeft(p.rest, " \t\n\r")
	return p.rest
}

func (p *parser) eat(word string) bool {
	rest, ok := strings.CutPrefix(p.space(), word)
	p.rest = rest
	return ok
}

func (p *parser) quoted() (string, bool) {
	for _, q := range []string{"'", `"`} {
		if p.eat(q) {
			s, rest, ok := strings.Cut(p.rest, q)
			p.rest = rest
			return s, ok && !strings.Contains(s, `\`)
		}
	}
	return "", false
}

func (p *parser) descr() (dtype.DType, error) {
	s, ok := p.quoted()
	if !ok {
		return 0, bad("descr is not a string; structured arrays cannot be read")
	}
	if d, ok := descrs[s]; ok {
		return d, nil
	}
	if strings.HasPrefix(s, ">") {
		return 0, bad("is big-endian (%.20q); save a.astype(a.dtype.newbyteorder('<'))", s)
	}
	return 0, bad("element type %.20q cannot be read; allowed are <f4 <f8 <f2 |i1 <i2 <i4 <i8 |u1 <u4 |b1", s)
}

func (p *parser) tuple() ([]int, error) {
	if !p.eat("(") {
		return nil, bad("shape is not a tuple")
	}
	shape := []int{}
	for !p.eat(")") {
		end := strings.IndexAny(p.space(), ",) ")
		if end < 0 {
			return nil, bad("shape is not a tuple")
		}
		v, err := strconv.ParseUint(p.rest[:end], 10, 62)
		if err != nil {
			return nil, bad("shape holds %.40q; allowed are whole numbers below 2^62", p.rest[:end])
		}
		if len(shape) == maxRank {
			return nil, bad("shape has more than %d dimensions", maxRank)
		}
		shape = append(shape, int(v))
		p.rest = p.rest[end:]
		if comma := p.eat(","); !comma && (len(shape) == 1 || !strings.HasPrefix(p.space(), ")")) {
			return nil, bad("shape is not a tuple") // in Python (3) is a number; (3,) is a tuple
		}
	}
	return shape, nil
}

// Write writes t in version 1, aligned as NumPy does. bf16 has no .npy form.
func Write(w io.Writer, t tensor.Tensor) error {
	descr, ok := descrOf(t.DType)
	if !ok {
		return diag.New(CodeDType, "", "element type %s has no .npy form; allowed are f32, f64, f16, integers and bool",
			t.DType).WithHint("widen it to f32")
	}
	if len(t.Data) != tensor.Numel(t.Shape)*t.DType.Size() {
		panic(fmt.Sprintf("BUG: npy: shape %v of %s with %d bytes", t.Shape, t.DType, len(t.Data)))
	}
	var h bytes.Buffer
	fmt.Fprintf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr)
	for i, d := range t.Shape {
		if i > 0 {
			h.WriteByte(' ')
		}
		fmt.Fprintf(&h, "%d,", d)
	}
	if len(t.Shape) > 1 {
		h.Truncate(h.Len() - 1)
	}
	h.WriteString("), }")
	for (10+h.Len()+1)%64 != 0 {
		h.WriteByte(' ')
	}
	h.WriteByte('\n')
	head := binary.LittleEndian.AppendUint16([]byte(magic+"\x01\x00"), uint16(h.Len()))
	for _, b := range [][]byte{head, h.Bytes(), t.Data} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes the file path atomically.
func WriteFile(ctx context.Context, path string, t tensor.Tensor) error {
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return Write(w, t) })
}
