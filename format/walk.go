package format

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// First bytes of msgpack values.
const (
	mpFixMap   = 0x80 // to 0x8f; below it are the small integers
	mpFixArray = 0x90
	mpFixStr   = 0xa0
	mpFalse    = 0xc2
	mpTrue     = 0xc3
	mpBin8     = 0xc4
	mpBin32    = 0xc6
	mpFloat64  = 0xcb
	mpUint8    = 0xcc
	mpUint64   = 0xcf
	mpInt8     = 0xd0
	mpInt64    = 0xd3
	mpStr8     = 0xd9
	mpStr32    = 0xdb
	mpArray16  = 0xdc
	mpArray32  = 0xdd
	mpMap16    = 0xde
	mpMap32    = 0xdf
	mpNegFix   = 0xe0
)

// walkFault tells why and where walk refused its input.
type walkFault struct {
	check int // 13 or 14
	at    int // byte offset
	msg   string
}

// walk checks that b is exactly one value of the rlx-msgpack profile: bool, integers, float64 except NaN, valid UTF-8
// strings, bin, arrays, and maps whose keys are strings in strictly ascending byte order, each in its shortest form. It
// returns nil if so. It allocates nothing, so a false count costs no memory. Decode only bytes that walk has accepted:
// the msgpack library trusts counts and recurses without a limit.
func walk(b []byte, maxDepth, maxValues int) *walkFault {
	w := walker{b: b, depth: maxDepth, budget: maxValues}
	if !w.value(0) {
		return w.fault
	}
	if w.i != len(b) {
		w.not(13, w.i, "%d bytes follow the value", len(b)-w.i)
	}
	return w.fault
}

type walker struct {
	b             []byte
	i             int
	depth, budget int
	fault         *walkFault
}

func (w *walker) not(check, at int, format string, args ...any) bool {
	w.fault = &walkFault{check, at, fmt.Sprintf(format, args...)}
	return false
}

func (w *walker) left() int { return len(w.b) - w.i }

// uint reads an n-byte big-endian integer.
func (w *walker) uint(n int) (uint64, bool) {
	if w.left() < n {
		return 0, w.not(14, w.i, "ends inside a value")
	}
	v := uint64(0)
	for _, c := range w.b[w.i:][:n] {
		v = v<<8 | uint64(c)
	}
	w.i += n
	return v, true
}

func (w *walker) value(depth int) bool {
	if w.budget--; w.budget < 0 {
		return w.not(14, w.i, "too many values")
	}
	at := w.i
	if at == len(w.b) {
		return w.not(14, at, "ends inside a value")
	}
	c := uint64(w.b[at])
	w.i++
	switch {
	case c < mpFixMap, c >= mpNegFix:
		return true
	case c < mpFixArray:
		return w.container(at, c&15, 2, depth)
	case c < mpFixStr:
		return w.container(at, c&15, 1, depth)
	case c < 0xc0:
		return w.text(at, c&31)
	case c == mpFalse, c == mpTrue:
		return true
	case c >= mpBin8 && c <= mpBin32:
		n, ok := w.length(at, c-mpBin8, -1)
		return ok && w.skip(at, n)
	case c == mpFloat64:
		v, ok := w.uint(8)
		if ok && math.IsNaN(math.Float64frombits(v)) {
			return w.not(13, at, "is NaN")
		}
		return ok
	case c >= mpUint8 && c <= mpInt64:
		return w.integer(at, c)
	case c >= mpStr8 && c <= mpStr32:
		n, ok := w.length(at, c-mpStr8, 31)
		return ok && w.text(at, n)
	case c >= mpMap16:
		n, ok := w.length(at, c-mpMap16+1, 15)
		return ok && w.container(at, n, 2, depth)
	case c >= mpArray16:
		n, ok := w.length(at, c-mpArray16+1, 15)
		return ok && w.container(at, n, 1, depth)
	}
	return w.not(13, at, "first byte %#02x is not of the profile, which has no nil, extension or float32", c)
}

// length reads a length of 1, 2 or 4 bytes (form 0, 1, 2), which must not fit the next shorter form. short is the
// largest length that fits the first byte.
func (w *walker) length(at int, form uint64, short int64) (uint64, bool) {
	n, ok := w.uint(1 << form)
	if !ok {
		return 0, false
	}
	switch {
	case form == 2:
		short = math.MaxUint16
	case form == 1 && short != 15: // arrays and maps have no one-byte form
		short = math.MaxUint8
	}
	if int64(n) <= short {
		return 0, w.not(13, at, "length %d is not in its shortest form", n)
	}
	return n, true
}

// integer refuses a number that fits a shorter form. The schema checks its range.
func (w *walker) integer(at int, c uint64) bool {
	size := 1 << (c & 3)
	v, ok := w.uint(size)
	if !ok {
		return false
	}
	var long bool
	if c < mpInt8 {
		long = v <= [...]uint64{1: math.MaxInt8, 2: math.MaxUint8, 4: math.MaxUint16, 8: math.MaxUint32}[size]
	} else {
		shift := 64 - 8*size
		long = int64(v<<shift)>>shift >= [...]int64{1: -32, 2: math.MinInt8, 4: math.MinInt16, 8: math.MinInt32}[size]
	}
	if long {
		return w.not(13, at, "integer is not in its shortest form")
	}
	return true
}

func (w *walker) skip(at int, n uint64) bool {
	if n > uint64(w.left()) {
		return w.not(14, at, "%d bytes are claimed; %d are left", n, w.left())
	}
	w.i += int(n)
	return true
}

func (w *walker) text(at int, n uint64) bool {
	start := w.i
	if !w.skip(at, n) {
		return false
	}
	if !utf8.Valid(w.b[start:w.i]) {
		return w.not(13, at, "string is not valid UTF-8")
	}
	return true
}

// container walks the n items of an array (per = 1) or the n pairs of a map (per = 2).
func (w *walker) container(at int, n uint64, per, depth int) bool {
	if depth >= w.depth {
		return w.not(14, at, "nests deeper than %d", w.depth)
	}
	if n > uint64(w.left()/per) {
		return w.not(14, at, "%d items are claimed; %d bytes are left", n, w.left())
	}
	var last []byte
	for k := range n {
		if per == 2 {
			key, ok := w.key()
			if !ok {
				return false
			}
			if k > 0 && string(key) <= string(last) {
				return w.not(13, at, "key %.40q does not come after %.40q", key, last)
			}
			last = key
		}
		if !w.value(depth + 1) {
			return false
		}
	}
	return true
}

// key reads a string and returns it.
func (w *walker) key() ([]byte, bool) {
	at := w.i
	if w.left() > 0 {
		if c := w.b[at]; !(c >= mpFixStr && c < 0xc0 || c >= mpStr8 && c <= mpStr32) {
			return nil, w.not(13, at, "a key is not a string")
		}
	}
	if !w.value(w.depth) {
		return nil, false
	}
	head := 1
	if c := w.b[at]; c >= mpStr8 {
		head += 1 << (c - mpStr8)
	}
	return w.b[at+head : w.i], true
}
