package format

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/vmihailenco/msgpack/v5"
)

// encoder writes the rlx-msgpack profile. The caller writes keys in ascending order, as walk requires.
type encoder struct {
	w    io.Writer
	e    *msgpack.Encoder
	dims map[ir.Dim]string // texts of dims with symbols
}

func newEncoder(w io.Writer) *encoder {
	e := &encoder{w: w, e: msgpack.NewEncoder(w), dims: map[ir.Dim]string{}}
	e.e.UseCompactInts(true)
	return e
}

// encoded returns the bytes that encode writes.
func encoded(encode func(*encoder)) []byte {
	var b bytes.Buffer
	encode(newEncoder(&b))
	return b.Bytes()
}

// differs returns the first offset at which encode writes something other than b, or -1. It does not store the output.
func differs(b []byte, encode func(*encoder)) int {
	c := comparer{want: b, first: -1}
	encode(newEncoder(&c))
	if c.first < 0 && c.at < len(b) {
		return c.at
	}
	return c.first
}

// comparer compares the bytes written to it with want and stores the offset of the first difference.
type comparer struct {
	want      []byte
	at, first int
}

func (c *comparer) Write(b []byte) (int, error) {
	if c.first < 0 {
		if i := firstDifference(c.want[min(c.at, len(c.want)):min(c.at+len(b), len(c.want))], b); i >= 0 {
			c.first = c.at + i
		}
	}
	c.at += len(b)
	return len(b), nil
}

func (c *comparer) WriteByte(b byte) error {
	if c.first < 0 && (c.at >= len(c.want) || c.want[c.at] != b) {
		c.first = c.at
	}
	c.at++
	return nil
}

// must panics on errors of the msgpack library. Our writers never fail, so an error means that we misused the library.
func must(err error) {
	if err != nil {
		panic("BUG: msgpack: " + err.Error())
	}
}

func (e *encoder) object(fields int)        { must(e.e.EncodeMapLen(fields)) }
func (e *encoder) list(n int)               { must(e.e.EncodeArrayLen(n)) }
func (e *encoder) key(name string)          { must(e.e.EncodeString(name)) }
func (e *encoder) str(s string)             { must(e.e.EncodeString(s)) }
func (e *encoder) boolean(b bool)           { must(e.e.EncodeBool(b)) }
func (e *encoder) float(f float64)          { must(e.e.EncodeFloat64(f)) }
func (e *encoder) integer(n int64)          { must(e.e.EncodeInt(n)) }
func (e *encoder) bytes(b []byte)           { must(e.e.EncodeBytesLen(len(b))); e.w.Write(b) }
func (e *encoder) keyInt(k string, n int64) { e.key(k); e.integer(n) }
func (e *encoder) keyStr(k, s string)       { e.key(k); e.str(s) }

// decoder decodes bytes that walk has accepted. It keeps the first error; reads after it return zero values and empty
// lists.
//
// Each method checks a value's first byte before the library reads it, because the library converts without an error:
// nil to 0, bin to string, a large uint64 to a negative int64.
type decoder struct {
	section string
	size    int
	r       *bytes.Reader
	d       *msgpack.Decoder
	err     error
	scratch []byte            // buffer of raw
	words   map[string]string // see word
	dims    map[string]ir.Dim // dims with symbols, by their text
	types   map[string]ir.Type
}

func newDecoder(section string, b []byte) *decoder {
	r := bytes.NewReader(b)
	return &decoder{section: section, size: len(b), r: r, d: msgpack.NewDecoder(r), words: map[string]string{},
		dims: map[string]ir.Dim{}, types: map[string]ir.Type{}}
}

// at returns the offset of the next value in the section.
func (d *decoder) at() int64 { return int64(d.size - d.r.Len()) }

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
	c, err := d.d.PeekCode()
	if err != nil {
		d.check(err)
		return kindOther
	}
	return kindOf(c)
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
	n, err := d.d.DecodeMapLen()
	d.check(err)
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
	n, err := d.d.DecodeArrayLen()
	d.check(err)
	if d.err == nil && (n < 0 || n > limit) {
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

// raw reads a length and that many bytes. They are valid until the next call.
func (d *decoder) raw(limit int, what string) []byte {
	n, err := d.d.DecodeBytesLen()
	d.check(err)
	if d.err == nil && (n < 0 || n > limit || n > d.r.Len()) {
		d.fail("%s has %d bytes; at most %d", what, n, limit)
	}
	if d.err != nil || n == 0 {
		return nil
	}
	d.scratch = slices.Grow(d.scratch[:0], n)[:n]
	d.check(d.d.ReadFull(d.scratch))
	return d.scratch
}

func (d *decoder) boolean(what string) bool {
	if !d.want(kindBool, what) {
		return false
	}
	b, err := d.d.DecodeBool()
	d.check(err)
	return b
}

func (d *decoder) float(what string) float64 {
	if !d.want(kindFloat, what) {
		return 0
	}
	f, err := d.d.DecodeFloat64()
	d.check(err)
	return f
}

// integer reads an integer from lo to hi.
func (d *decoder) integer(lo, hi int64, what string) int64 {
	if !d.want(kindInt, what) {
		return 0
	}
	c, err := d.d.PeekCode()
	d.check(err)
	n, err := d.d.DecodeInt64()
	d.check(err)
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
	out := make([]T, 0, min(n, d.r.Len()/least))
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
	if d.err == nil && d.r.Len() != 0 {
		d.fail("%d bytes follow", d.r.Len())
	}
	if d.err == nil && uint64(items) != want {
		d.fail("%d items; the section table states %d", items, want)
	}
	return d.err
}
