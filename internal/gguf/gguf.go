// Package gguf reads the header of GGUF files of versions 2 and 3: the metadata and the location of the tensors. Files
// are not trusted: counts are compared with the remaining bytes, and tensors must follow one another as writers place
// them.
//
// Errors are plain. Their texts follow the name of the file.
package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// Bounds of a header. The largest published headers have 20 MB, mostly vocabulary.
const (
	maxHeader  = 512 << 20
	maxTensors = 1 << 17
	maxKeys    = 1 << 16
	maxKey     = 1 << 10
	maxName    = 1 << 10
	maxDims    = 4
	maxAlign   = 1 << 20
)

// maxMemory bounds the memory for the values of the metadata: a number takes 8 bytes, even if the file has a byte for
// it.
var maxMemory int64 = 1 << 30

// Header is everything before the tensors' bytes.
type Header struct {
	Version int
	// Meta has the metadata by key. Values are uint64, int64 (of signed types), float64, bool, string, []string, or for
	// other arrays []uint64, []int64, []float64 and []bool.
	Meta    map[string]any
	Tensors []Tensor
}

// Tensor is an entry of the header.
type Tensor struct {
	Name string
	Type Type
	// Dims are row-major, which is the reverse of their order in the file.
	Dims   []int64
	Offset int64 // byte offset in the file
	Size   int64 // bytes
}

// Type is an element type, by its number in the format.
type Type uint32

// types lists the types of known size: values per block and bytes per block.
var types = map[Type]struct {
	name         string
	values, size int64
}{
	0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22},
	7: {"Q5_1", 32, 24}, 8: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36},
	10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144}, 13: {"Q5_K", 256, 176},
	14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292},
	16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74}, 18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50},
	20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110},
	22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4},
	27: {"I64", 1, 8}, 28: {"F64", 1, 8}, 29: {"IQ1_M", 256, 56},
	30: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
}

// String returns the name in the format's documentation.
func (t Type) String() string {
	if e, ok := types[t]; ok {
		return e.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Values returns the number of values in a block.
func (t Type) Values() int64 { return types[t].values }

// Parse reads the header of a file of size bytes.
func Parse(f io.ReaderAt, size int64) (*Header, error) {
	p := &parser{r: bufio.NewReaderSize(io.NewSectionReader(f, 0, min(size, maxHeader)), 1<<16),
		left: min(size, maxHeader)}
	h, err := p.header(size)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if size > maxHeader {
			return nil, fmt.Errorf("has a header of more than %d bytes", maxHeader)
		}
		return nil, fmt.Errorf("is cut short: its header does not fit into %d bytes", size)
	}
	return nil, err
}

type parser struct {
	r    *bufio.Reader
	left int64 // upper bound of the remaining bytes of the header
	at   int64
	used int64 // bytes of memory for values
}

// take counts memory for values before it is allocated.
func (p *parser) take(bytes int64) error {
	if p.used += bytes; p.used > maxMemory {
		return fmt.Errorf("has metadata that takes more than %d bytes of memory, the limit", maxMemory)
	}
	return nil
}

func (p *parser) bytes(b []byte) error {
	n, err := io.ReadFull(p.r, b)
	p.at += int64(n)
	p.left -= int64(n)
	return err
}

func (p *parser) uint(size int) (uint64, error) {
	var b [8]byte
	err := p.bytes(b[:size])
	return binary.LittleEndian.Uint64(b[:]), err
}

// count reads a count of items that take at least least bytes each.
func (p *parser) count(what string, least, most int64) (int64, error) {
	n, err := p.uint(8)
	if err != nil {
		return 0, err
	}
	if n > uint64(most) {
		return 0, fmt.Errorf("has %d %s at byte %d; at most %d are allowed", n, what, p.at-8, most)
	}
	if int64(n) > p.left/least {
		return 0, io.ErrUnexpectedEOF
	}
	return int64(n), nil
}

func (p *parser) string(what string, most int64) (string, error) {
	n, err := p.count("bytes of "+what, 1, most)
	if err != nil {
		return "", err
	}
	if err := p.take(n); err != nil {
		return "", err
	}
	b := make([]byte, n)
	if err := p.bytes(b); err != nil {
		return "", err
	}
	return string(b), nil
}

func (p *parser) header(size int64) (*Header, error) {
	magic, err := p.uint(4)
	if err != nil {
		return nil, err
	}
	if magic != 0x46554747 {
		return nil, errors.New("does not begin with GGUF")
	}
	version, err := p.uint(4)
	switch {
	case err != nil:
		return nil, err
	case version == 2<<24 || version == 3<<24:
		return nil, errors.New("is big-endian; allowed are little-endian files")
	case version != 2 && version != 3:
		return nil, fmt.Errorf("is of version %d; allowed are 2 and 3", version)
	}
	tensors, err := p.count("tensors", 24, maxTensors)
	if err != nil {
		return nil, err
	}
	keys, err := p.count("metadata keys", 13, maxKeys)
	if err != nil {
		return nil, err
	}
	h := &Header{Version: int(version), Meta: map[string]any{}}
	for range keys {
		key, err := p.string("a metadata key", maxKey)
		if err != nil {
			return nil, err
		}
		if !utf8.ValidString(key) {
			return nil, fmt.Errorf("has the metadata key %.40q, which is not UTF-8", key)
		}
		if _, twice := h.Meta[key]; twice {
			return nil, fmt.Errorf("has the metadata key %.80q twice", key)
		}
		if h.Meta[key], err = p.value(); err != nil {
			return nil, fmt.Errorf("metadata %.80q: %w", key, err)
		}
	}
	seen := map[string]bool{}
	for range tensors {
		t, err := p.tensor()
		if err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("has the tensor %.80q twice", t.Name)
		}
		seen[t.Name] = true
		h.Tensors = append(h.Tensors, t)
	}
	return h, h.place(p.at, size)
}

// place checks that the tensors follow one another, each at the next multiple of the alignment, and converts their
// offsets to offsets in the file.
func (h *Header) place(at, size int64) error {
	align := uint64(32)
	if v, ok := h.Meta["general.alignment"]; ok {
		if align, ok = v.(uint64); !ok || align == 0 || align > maxAlign || align&(align-1) != 0 {
			return fmt.Errorf("general.alignment is %.40v; allowed are powers of two up to %d", v, maxAlign)
		}
	}
	up := func(n int64) int64 { return (n + int64(align) - 1) &^ (int64(align) - 1) }
	start, next := up(at), int64(0)
	for i := range h.Tensors {
		t := &h.Tensors[i]
		if t.Offset != next {
			return fmt.Errorf("tensor %.80q is at offset %d; want %d, after the previous tensor", t.Name, t.Offset,
				next)
		}
		if t.Size > size-start-next {
			return fmt.Errorf("is cut short: tensor %.80q ends at byte %d of %d", t.Name,
				uint64(start)+uint64(next)+uint64(t.Size), size)
		}
		t.Offset += start
		next = up(next + t.Size)
	}
	if over := size - start - next; len(h.Tensors) > 0 && over > 0 {
		return fmt.Errorf("has %d bytes after its last tensor", over)
	}
	return nil
}

func (p *parser) tensor() (t Tensor, err error) {
	if t.Name, err = p.string("a tensor's name", maxName); err != nil {
		return t, err
	}
	if t.Name == "" || !utf8.ValidString(t.Name) {
		return t, fmt.Errorf("has a tensor with the invalid name %.40q", t.Name)
	}
	n, err := p.uint(4)
	if err != nil {
		return t, err
	}
	if n > maxDims {
		return t, fmt.Errorf("tensor %.80q has %d dims; at most %d are allowed", t.Name, n, maxDims)
	}
	t.Dims = make([]int64, n)
	values := int64(1)
	for i := range t.Dims {
		d, err := p.uint(8)
		if err != nil {
			return t, err
		}
		if d == 0 || d > math.MaxInt64/8/uint64(values) {
			return t, fmt.Errorf("tensor %.80q has a dim of %d, which is out of range", t.Name, d)
		}
		values *= int64(d)
		t.Dims[len(t.Dims)-1-i] = int64(d)
	}
	kind, err := p.uint(4)
	if err != nil {
		return t, err
	}
	t.Type = Type(kind)
	offset, err := p.uint(8)
	if err != nil {
		return t, err
	}
	if offset > math.MaxInt64/4 {
		return t, fmt.Errorf("tensor %.80q is at offset %d", t.Name, offset)
	}
	t.Offset = int64(offset)
	block, ok := types[t.Type]
	if !ok {
		return t, fmt.Errorf("tensor %.80q has element %v, which this version does not know", t.Name, t.Type)
	}
	row := int64(1)
	if n > 0 {
		row = t.Dims[n-1]
	}
	if row%block.values != 0 {
		return t, fmt.Errorf("tensor %.80q has rows of %d values; %v has blocks of %d", t.Name, row, t.Type,
			block.values)
	}
	if values/block.values > math.MaxInt64/4/block.size {
		return t, fmt.Errorf("tensor %.80q is too large", t.Name)
	}
	t.Size = values / block.values * block.size
	return t, nil
}

// Value types of the metadata.
const (
	kindBool, kindString, kindArray = 7, 8, 9
)

// sizes has the bytes of each numeric metadata type; 0 if the type is not a number.
var sizes = [13]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

func (p *parser) value() (any, error) {
	kind, err := p.uint(4)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == kindString:
		return p.string("text", maxHeader)
	case kind != kindArray:
		return p.scalar(kind)
	}
	if kind, err = p.uint(4); err != nil {
		return nil, err
	}
	if kind == kindString {
		n, err := p.count("texts", 8, maxHeader)
		if err != nil {
			return nil, err
		}
		if err := p.take(16 * n); err != nil {
			return nil, err
		}
		out := make([]string, n)
		for i := range out {
			if out[i], err = p.string("text", maxHeader); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if kind >= uint64(len(sizes)) || sizes[kind] == 0 {
		return nil, fmt.Errorf("an array of type %d; allowed are texts, numbers and booleans", kind)
	}
	n, err := p.count("numbers", int64(sizes[kind]), maxHeader/8)
	if err != nil {
		return nil, err
	}
	if err := p.take(8 * n); err != nil {
		return nil, err
	}
	return p.array(kind, n)
}

func (p *parser) array(kind uint64, n int64) (any, error) {
	switch kind {
	case kindBool:
		return collect[bool](p, kind, n)
	case 1, 3, 5, 11:
		return collect[int64](p, kind, n)
	case 6, 12:
		return collect[float64](p, kind, n)
	}
	return collect[uint64](p, kind, n)
}

func collect[T any](p *parser, kind uint64, n int64) ([]T, error) {
	out := make([]T, n)
	for i := range out {
		v, err := p.scalar(kind)
		if err != nil {
			return nil, err
		}
		out[i] = v.(T)
	}
	return out, nil
}

func (p *parser) scalar(kind uint64) (any, error) {
	if kind >= uint64(len(sizes)) || sizes[kind] == 0 {
		return nil, fmt.Errorf("has the invalid type %d", kind)
	}
	u, err := p.uint(sizes[kind])
	if err != nil {
		return nil, err
	}
	switch kind {
	case 1:
		return int64(int8(u)), nil
	case 3:
		return int64(int16(u)), nil
	case 5:
		return int64(int32(u)), nil
	case 11:
		return int64(u), nil
	case 6:
		return float64(math.Float32frombits(uint32(u))), nil
	case 12:
		return math.Float64frombits(u), nil
	case kindBool:
		if u > 1 {
			return nil, fmt.Errorf("is the boolean %d; allowed are 0 and 1", u)
		}
		return u == 1, nil
	}
	return u, nil
}
