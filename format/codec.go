package format

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/rlx-go/rlx/core/ir"
)

// encoder writes the rlx-msgpack profile, each value in its shortest form. The caller writes keys in ascending order,
// as walk requires.
type encoder struct {
	b    []byte
	sink func([]byte)      // gets b from time to time, so that it stays small; nil if b is the result
	dims map[ir.Dim]string // texts of dims with symbols
}

// encoded returns the bytes that encode writes.
func encoded(encode func(*encoder)) []byte {
	var e encoder
	encode(&e)
	return e.b
}

// differs returns the first offset at which encode writes something other than b, or -1. It does not store the output.
func differs(b []byte, encode func(*encoder)) int {
	at, first := 0, -1
	compare := func(part []byte) {
		if first < 0 {
			if i := firstDifference(b[min(at, len(b)):min(at+len(part), len(b))], part); i >= 0 {
				first = at + i
			}
		}
		at += len(part)
	}
	e := encoder{b: make([]byte, 0, min(len(b), flushSize)+64), sink: compare}
	encode(&e)
	compare(e.b)
	if first < 0 && at < len(b) {
		return at
	}
	return first
}

const flushSize = 4 << 10

// flush empties a full buffer into the sink.
func (e *encoder) flush() {
	if e.sink != nil && len(e.b) >= flushSize {
		e.sink(e.b)
		e.b = e.b[:0]
	}
}

// head writes the first byte of a value and its length, with form8 0 if the value has no form with one byte of length.
func (e *encoder) head(n int, fix, fixMax, form8, form16, form32 byte) {
	switch {
	case n <= int(fixMax):
		e.b = append(e.b, fix|byte(n))
	case n <= math.MaxUint8 && form8 != 0:
		e.b = append(e.b, form8, byte(n))
	case n <= math.MaxUint16:
		e.b = append(e.b, form16, byte(n>>8), byte(n))
	default:
		e.b = binary.BigEndian.AppendUint32(append(e.b, form32), uint32(n))
	}
}

func (e *encoder) object(fields int) {
	e.flush()
	e.head(fields, mpFixMap, 15, 0, mpMap16, mpMap32)
}

func (e *encoder) list(n int) {
	e.flush()
	e.head(n, mpFixArray, 15, 0, mpArray16, mpArray32)
}

func (e *encoder) key(name string) { e.str(name) }

func (e *encoder) str(s string) {
	e.flush()
	e.head(len(s), mpFixStr, 31, mpStr8, mpStr8+1, mpStr32)
	e.b = append(e.b, s...)
}

func (e *encoder) bytes(b []byte) {
	e.flush()
	if len(b) <= math.MaxUint8 {
		e.b = append(e.b, mpBin8, byte(len(b)))
	} else {
		e.head(len(b), 0, 0, 0, mpBin8+1, mpBin32)
	}
	e.b = append(e.b, b...)
}

func (e *encoder) boolean(b bool) {
	if b {
		e.b = append(e.b, mpTrue)
	} else {
		e.b = append(e.b, mpFalse)
	}
}

func (e *encoder) float(f float64) {
	e.b = binary.BigEndian.AppendUint64(append(e.b, mpFloat64), math.Float64bits(f))
}

func (e *encoder) integer(n int64) {
	switch u := uint64(n); {
	case n >= -32 && n <= math.MaxInt8:
		e.b = append(e.b, byte(n))
	case n >= 0 && u <= math.MaxUint8:
		e.b = append(e.b, mpUint8, byte(n))
	case n >= 0 && u <= math.MaxUint16:
		e.b = append(e.b, mpUint8+1, byte(n>>8), byte(n))
	case n >= 0 && u <= math.MaxUint32:
		e.b = binary.BigEndian.AppendUint32(append(e.b, mpUint8+2), uint32(n))
	case n >= 0:
		e.b = binary.BigEndian.AppendUint64(append(e.b, mpUint64), u)
	case n >= math.MinInt8:
		e.b = append(e.b, mpInt8, byte(n))
	case n >= math.MinInt16:
		e.b = append(e.b, mpInt8+1, byte(n>>8), byte(n))
	case n >= math.MinInt32:
		e.b = binary.BigEndian.AppendUint32(append(e.b, mpInt8+2), uint32(n))
	default:
		e.b = binary.BigEndian.AppendUint64(append(e.b, mpInt64), u)
	}
}

func (e *encoder) keyInt(k string, n int64) { e.key(k); e.integer(n) }
func (e *encoder) keyStr(k, s string)       { e.key(k); e.str(s) }

// decoder decodes bytes that walk has accepted. It keeps the first error; reads after it return zero values and empty
// lists. Each method looks at the first byte of a value before it reads the value.
type decoder struct {
	section string
	b       []byte
	pos     int // of the next value
	err     error
	words   map[string]string // see word
	dims    map[string]ir.Dim // dims with symbols, by their text
	types   map[string]ir.Type
}

func newDecoder(section string, b []byte) *decoder { return &decoder{section: section, b: b} }

// at returns the offset of the next value in the section.
func (d *decoder) at() int64 { return int64(d.pos) }

// left returns the number of bytes that follow.
func (d *decoder) left() int { return len(d.b) - d.pos }

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fail(checkSchema, d.section, d.at(), format, args...)
	}
}

func (d *decoder) check(err error) {
	if err != nil {
		d.fail("%w", err)
	}
}

// uint reads a big-endian number of n bytes.
func (d *decoder) uint(n int) (v uint64) {
	if d.left() < n {
		d.fail("ends inside a value")
		return 0
	}
	for _, c := range d.b[d.pos:][:n] {
		v = v<<8 | uint64(c)
	}
	d.pos += n
	return v
}

// length reads the first byte of a map, list or string, or of bytes, and its length.
func (d *decoder) length() int {
	switch c := d.uint(1); {
	case c < mpFixStr:
		return int(c & 15)
	case c < 0xc0:
		return int(c & 31)
	case c == mpBin8 || c == mpStr8:
		return int(d.uint(1))
	case c == mpBin32 || c == mpStr32 || c == mpArray32 || c == mpMap32:
		return int(d.uint(4))
	}
	return int(d.uint(2))
}

type valueKind string

const (
	kindBool  valueKind = "a bool"
	kindInt   valueKind = "an integer"
	kindFloat valueKind = "a float"
	kindStr   valueKind = "a string"
	kindBin   valueKind = "bytes"
	kindList  valueKind = "a list"
	kindMap   valueKind = "a map"
	kindOther valueKind = "nothing"
)

func kindOf(c byte) valueKind {
	switch {
	case c < mpFixMap || c >= mpNegFix || c >= mpUint8 && c <= mpInt64:
		return kindInt
	case c < mpFixArray || c == mpMap16 || c == mpMap32:
		return kindMap
	case c < mpFixStr || c == mpArray16 || c == mpArray32:
		return kindList
	case c < 0xc0 || c >= mpStr8 && c <= mpStr32:
		return kindStr
	case c == mpFalse || c == mpTrue:
		return kindBool
	case c >= mpBin8 && c <= mpBin32:
		return kindBin
	case c == mpFloat64:
		return kindFloat
	}
	return kindOther
}

// next returns the kind of the next value, or kindOther after an error.
func (d *decoder) next() valueKind {
	if d.err != nil {
		return kindOther
	}
	if d.left() == 0 {
		d.fail("ends inside a value")
		return kindOther
	}
	return kindOf(d.b[d.pos])
}

func (d *decoder) want(k valueKind, what string) bool {
	got := d.next()
	if d.err == nil && got != k {
		d.fail("%s is %s; want %s", what, got, k)
	}
	return d.err == nil
}

// object begins a map with exactly that number of fields.
func (d *decoder) object(fields int, what string) { d.objectOf(fields, fields, what) }

// objectOf begins a map of least to most fields and returns their number.
func (d *decoder) objectOf(least, most int, what string) int {
	if !d.want(kindMap, what) {
		return 0
	}
	n := d.length()
	switch {
	case d.err != nil:
		return 0
	case n < least || n > most:
		want := strconv.Itoa(least)
		if least < most {
			want += fmt.Sprint(" to ", most)
		}
		d.fail("%s has %d fields; want %s", what, n, want)
	}
	return n
}

// key reads the name of the next field, which must be name: fields are sorted, and none may be missing.
func (d *decoder) key(name string) {
	if !d.want(kindStr, "a field's name") {
		return
	}
	if got := d.raw(MaxName, "a field's name"); d.err == nil && string(got) != name {
		d.fail("field %.40q; want %q", got, name)
	}
}

// list begins a list of at most limit items and returns their number.
func (d *decoder) list(limit int, what string) int {
	if !d.want(kindList, what) {
		return 0
	}
	n := d.length()
	if d.err == nil && n > limit {
		d.fail("%s has %d items; at most %d", what, n, limit)
	}
	if d.err != nil {
		return 0
	}
	return n
}

// tuple begins a list of exactly n items.
func (d *decoder) tuple(n int, what string) {
	if got := d.list(math.MaxInt, what); d.err == nil && got != n {
		d.fail("%s has %d items; want %d", what, got, n)
	}
}

func (d *decoder) str(limit int, what string) string {
	if !d.want(kindStr, what) {
		return ""
	}
	return string(d.raw(limit, what))
}

// maxWords bounds how many strings a decoder keeps for reuse.
const maxWords = 1024

// word is str for strings that occur often, such as the names of ops. Equal strings share memory.
func (d *decoder) word(limit int, what string) string {
	if !d.want(kindStr, what) {
		return ""
	}
	b := d.raw(limit, what)
	if w, ok := d.words[string(b)]; ok {
		return w
	}
	w := string(b)
	if len(d.words) < maxWords {
		if d.words == nil {
			d.words = map[string]string{}
		}
		d.words[w] = w
	}
	return w
}

func (d *decoder) bytes(limit int, what string) []byte {
	if !d.want(kindBin, what) {
		return nil
	}
	return d.raw(limit, what)
}

// raw reads a length and that many bytes, which are part of the section.
func (d *decoder) raw(limit int, what string) []byte {
	n := d.length()
	if d.err == nil && (n > limit || n > d.left()) {
		d.fail("%s has %d bytes; at most %d", what, n, limit)
	}
	if d.err != nil || n == 0 {
		return nil
	}
	d.pos += n
	return d.b[d.pos-n : d.pos : d.pos]
}

func (d *decoder) boolean(what string) bool {
	if !d.want(kindBool, what) {
		return false
	}
	return d.uint(1) == mpTrue
}

func (d *decoder) float(what string) float64 {
	if !d.want(kindFloat, what) {
		return 0
	}
	d.pos++
	return math.Float64frombits(d.uint(8))
}

// integer reads an integer from lo to hi.
func (d *decoder) integer(lo, hi int64, what string) int64 {
	if !d.want(kindInt, what) {
		return 0
	}
	c := d.uint(1)
	n := int64(int8(c))
	switch size := 1 << (c & 3); {
	case c >= mpUint8 && c <= mpUint64:
		n = int64(d.uint(size))
	case c >= mpInt8 && c <= mpInt64:
		shift := 64 - 8*size
		n = int64(d.uint(size)<<shift) >> shift
	}
	if d.err == nil && (n < lo || n > hi || c == mpUint64 && n < 0) {
		found := fmt.Sprint(n)
		if c == mpUint64 {
			found = fmt.Sprint(uint64(n))
		}
		d.fail("%s is %s; want %d to %d", what, found, lo, hi)
	}
	if d.err != nil {
		return 0
	}
	return n
}

func (d *decoder) keyInt(k string, lo, hi int64) int64 { d.key(k); return d.integer(lo, hi, k) }
func (d *decoder) keyStr(k string, limit int) string   { d.key(k); return d.str(limit, k) }
func (d *decoder) keyWord(k string, limit int) string  { d.key(k); return d.word(limit, k) }

// decodeList reads a list of items that each take at least least bytes. It allocates memory for at most as many items
// as the remaining bytes can contain, so that a false count does not allocate more.
func decodeList[T any](d *decoder, limit, least int, what string, item func() T) []T {
	n := d.list(limit, what)
	out := make([]T, 0, min(n, d.left()/least))
	for range n {
		v := item()
		if d.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// The lengths of the shortest encodings, by type, see decodeList.
var (
	leastBody      = leastOf((*rawBody).encode)
	leastBodyPlan  = leastOf((*rawBodyPlan).encode)
	leastBodySched = leastOf((*rawBodySched).encode)
	leastGraph     = leastOf((*rawGraph).encode)
	leastMethod    = leastOf((*Method).encode)
	leastNode      = leastOf((*rawNode).encode)
	leastPlan      = leastOf((*rawPlan).encode)
	leastSched     = leastOf((*rawSched).encode)
	leastSegment   = leastOf((*rawSegment).encode)
	leastSplit     = leastOf((*rawSplit).encode)
	leastTensor    = leastOf((*rawTensor).encode)
)

// leastOf returns the length of the shortest encoding of a T, which is that of its zero value.
func leastOf[T any](encode func(*T, *encoder)) int {
	return len(encoded(func(e *encoder) { encode(new(T), e) }))
}

// end checks that the section has ended and that it has want items, the number in the section table.
func (d *decoder) end(items int, want uint64) error {
	if d.err == nil && d.left() != 0 {
		d.fail("%d bytes follow", d.left())
	}
	if d.err == nil && uint64(items) != want {
		d.fail("%d items; the section table states %d", items, want)
	}
	return d.err
}
