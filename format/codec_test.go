package format

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/campaign"
)

// canonical reads one value with the msgpack library and writes it in the only form that the profile allows. It shares
// no code with walk: it implements sorting, shortest forms and types independently from the msgpack specification.
func canonical(b []byte) ([]byte, error) {
	r := bytes.NewReader(b)
	d := msgpack.NewDecoder(r)
	out, err := canonicalValue(nil, d, r)
	if err == nil && r.Len() > 0 {
		err = errors.New("trailing bytes")
	}
	return out, err
}

func head(out []byte, n int, fix byte, fixMax int, wide ...byte) []byte {
	switch {
	case n <= fixMax:
		return append(out, fix|byte(n))
	case n < 1<<8 && len(wide) == 3:
		return append(out, wide[0], byte(n))
	case n < 1<<16:
		return append(out, wide[len(wide)-2], byte(n>>8), byte(n))
	}
	return append(out, wide[len(wide)-1], byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func canonicalValue(out []byte, d *msgpack.Decoder, r *bytes.Reader) ([]byte, error) {
	c, err := d.PeekCode()
	if err != nil {
		return nil, err
	}
	switch {
	case c == 0xc2 || c == 0xc3:
		_, err = d.DecodeBool()
		return append(out, c), err
	case c == 0xcb:
		f, err := d.DecodeFloat64()
		if math.IsNaN(f) {
			return nil, errors.New("NaN")
		}
		bits := math.Float64bits(f)
		out = append(out, 0xcb)
		for i := 56; i >= 0; i -= 8 {
			out = append(out, byte(bits>>i))
		}
		return out, err
	case c <= 0x7f || c >= 0xe0 || c >= 0xcc && c <= 0xd3:
		if c == 0xcf {
			n, err := d.DecodeUint64()
			return appendUint(out, n), err
		}
		n, err := d.DecodeInt64()
		if n >= 0 {
			return appendUint(out, uint64(n)), err
		}
		for k, size := range []int{1, 2, 4, 8} {
			if n >= -32 {
				return append(out, byte(n)), err
			}
			if n >= -1<<(8*size-1) {
				out = append(out, 0xd0+byte(k))
				for i := 8 * (size - 1); i >= 0; i -= 8 {
					out = append(out, byte(n>>i))
				}
				return out, err
			}
		}
	case c&0xe0 == 0xa0 || c >= 0xd9 && c <= 0xdb || c >= 0xc4 && c <= 0xc6:
		n, err := d.DecodeBytesLen()
		if err != nil || n > r.Len() {
			return nil, errors.New("length")
		}
		s := make([]byte, n)
		if err := d.ReadFull(s); err != nil {
			return nil, err
		}
		if c >= 0xc4 && c <= 0xc6 {
			return append(head(out, n, 0, -1, 0xc4, 0xc5, 0xc6), s...), nil
		}
		if strings.ToValidUTF8(string(s), "?") != string(s) {
			return nil, errors.New("UTF-8")
		}
		return append(head(out, n, 0xa0, 31, 0xd9, 0xda, 0xdb), s...), nil
	case c&0xf0 == 0x90 || c == 0xdc || c == 0xdd:
		n, err := d.DecodeArrayLen()
		if err != nil || n > r.Len() {
			return nil, errors.New("length")
		}
		out = head(out, n, 0x90, 15, 0xdc, 0xdd)
		for range n {
			if out, err = canonicalValue(out, d, r); err != nil {
				return nil, err
			}
		}
		return out, nil
	case c&0xf0 == 0x80 || c == 0xde || c == 0xdf:
		n, err := d.DecodeMapLen()
		if err != nil || n > r.Len()/2 {
			return nil, errors.New("length")
		}
		pairs := map[string][]byte{}
		var keys []string
		for range n {
			if k, _ := d.PeekCode(); k&0xe0 != 0xa0 && (k < 0xd9 || k > 0xdb) {
				return nil, errors.New("key")
			}
			key, err := canonicalValue(nil, d, r)
			if err != nil {
				return nil, err
			}
			value, err := canonicalValue(nil, d, r)
			if err != nil {
				return nil, err
			}
			keys = append(keys, string(key))
			pairs[string(key)] = value
		}
		slices.SortFunc(keys, func(a, b string) int { return strings.Compare(text(a), text(b)) })
		if len(pairs) != n {
			return nil, errors.New("key twice")
		}
		out = head(out, n, 0x80, 15, 0xde, 0xdf)
		for _, k := range keys {
			out = append(append(out, k...), pairs[k]...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("code %#x", c)
}

// text is an encoded string without its header.
func text(s string) string {
	skip := map[byte]int{0xd9: 2, 0xda: 3, 0xdb: 5}[s[0]]
	return s[max(skip, 1):]
}

func appendUint(out []byte, n uint64) []byte {
	size, code := 8, byte(0xcf)
	switch {
	case n < 128:
		return append(out, byte(n))
	case n < 1<<8:
		size, code = 1, 0xcc
	case n < 1<<16:
		size, code = 2, 0xcd
	case n < 1<<32:
		size, code = 4, 0xce
	}
	out = append(out, code)
	for i := 8 * (size - 1); i >= 0; i -= 8 {
		out = append(out, byte(n>>i))
	}
	return out
}

// smallValues returns the different values of at most 64 bytes that the sections of c contain.
func smallValues(c *contents) (out [][]byte) {
	seen := map[string]bool{}
	for _, k := range codecs {
		for b := k.bytes(c); len(b) > 0; b = b[1:] {
			for n := 1; n <= min(64, len(b)); n++ {
				if walk(b[:n], MaxDepth, MaxValues) != nil {
					continue
				}
				if n > 2 && !seen[string(b[:n])] {
					seen[string(b[:n])] = true
					out = append(out, b[:n])
				}
				break
			}
		}
	}
	return out
}

// FuzzWalk checks that walk accepts exactly the bytes that equal their canonical form. Of the longer bytes that walk
// refuses, it compares a part, because the reference takes ten times as long.
func FuzzWalk(t *testing.F) {
	f := campaign.New(t)
	seed := forge(f)
	for _, k := range codecs {
		f.Add(k.bytes(seed.c))
	}
	for _, b := range smallValues(seed.c) {
		f.Add(b)
	}
	for _, s := range []string{"", "\xc0", "\x91\x91\x01", "\xd0\xdf", "\xd0\xe0", "\xcc\x7f", "\xcc\x80",
		"\xcd\x00\xff", "\xd1\xff\x7f", "\xd2\xff\xff\x7f\xff",
		"\xcf\x00\x00\x00\x01\x00\x00\x00\x00", "\xd3\xff\xff\xff\xff\x7f\xff\xff\xff", "\x82\xa1a\x01\xa1b\x02",
		"\x82\xa1b\x01\xa1a\x02", "\x82\xa2aa\x01\xa1b\x02",
		"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01", "\xc4\x00", "\xc5\x00\x01\x00",
		"\xd9\x1f" + strings.Repeat("x", 31)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t testing.TB, b []byte) {
		if bytes.Count(b, []byte{0x91}) > 1000 {
			return // the reference recurses without a limit
		}
		fault := walk(b, math.MaxInt, math.MaxInt)
		if fault != nil && len(b) > 16 && len(b)%8 != 0 {
			return
		}
		want, err := canonical(b)
		if same := err == nil && bytes.Equal(b, want); same != (fault == nil) {
			t.Fatalf("%x: walk says %+v; the canonical form is %x (%v)", b, fault, want, err)
		}
	})
}

// TestWalkBounds tests the bounds of walk at the limit and one beyond.
func TestWalkBounds(t *testing.T) {
	nested := func(n int) []byte { return append(bytes.Repeat([]byte{0x91}, n), 0) }
	for _, c := range []struct {
		name  string
		b     []byte
		depth int
		count int
		check int
	}{
		{"depth", nested(16), 16, 99, 0}, {"depth + 1", nested(17), 16, 99, 14},
		{"maps count too", []byte("\x81\xa1a\x81\xa1a\x01"), 2, 99, 0},
		{"maps count too, + 1", []byte("\x81\xa1a\x81\xa1a\x01"), 1, 99, 14},
		{"values", []byte("\x93\x01\x02\x03"), 16, 4, 0}, {"values + 1", []byte("\x93\x01\x02\x03"), 16, 3, 14},
		{"keys are values", []byte("\x81\xa1a\x01"), 16, 3, 0},
		{"keys are values, + 1", []byte("\x81\xa1a\x01"), 16, 2, 14},
		{"count as many as remain", []byte("\x92\x01\x02"), 16, 99, 0},
		{"one more", []byte("\x93\x01\x02"), 16, 99, 14},
		{"string to the end", []byte("\xa2ab"), 16, 99, 0}, {"one more", []byte("\xa3ab"), 16, 99, 14},
	} {
		f := walk(c.b, c.depth, c.count)
		if c.check == 0 && f != nil || c.check != 0 && (f == nil || f.check != c.check) {
			t.Errorf("%s: %+v, want check %d", c.name, f, c.check)
		}
	}
}

func fuzzDecode(t *testing.F, kind Kind) {
	f := campaign.New(t)
	i := slices.IndexFunc(codecs[:], func(k codec) bool { return k.kind == kind })
	k := codecs[i]
	f.Add(k.bytes(forge(f).c))
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		forged := forge(f)
		mutate(r, newMutant(forged.c))
		f.Add(k.bytes(forged.c))
	}
	f.Fuzz(func(t testing.TB, b []byte) {
		c := &contents{}
		d := newDecoder(kind.String(), b)
		if walk(b, MaxDepth, MaxValues) == nil {
			k.decode(c, d)
		}
		err := k.read(&contents{}, b, uint64(k.items(c)))
		if err == nil {
			if again := k.bytes(c); !bytes.Equal(again, b) {
				t.Fatalf("%x decodes and encodes to %x", b, again)
			}
			return
		}
		if c, _ := diag.CodeOf(err); c < code.Verifier(13) || c > code.Verifier(16) {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeMeta(f *testing.F)    { fuzzDecode(f, KindMeta) }
func FuzzDecodeGraph(f *testing.F)   { fuzzDecode(f, KindGraph) }
func FuzzDecodePlan(f *testing.F)    { fuzzDecode(f, KindPlan) }
func FuzzDecodeSched(f *testing.F)   { fuzzDecode(f, KindSched) }
func FuzzDecodeTensors(f *testing.F) { fuzzDecode(f, KindTensor) }

// FuzzDecodeProgram decodes bytes as a backend with a hostile host would.
func FuzzDecodeProgram(t *testing.F) {
	f := campaign.New(t)
	v, err := verifyBytes(artifactBytes(f))
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range v.Programs() {
		b, err := EncodeProgram(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	loop, err := EncodeProgram(loopProgram(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(loop)
	f.Fuzz(func(t testing.TB, b []byte) {
		p, err := DecodeProgram(b)
		if err != nil {
			if diag.ExitCode(err) != 4 {
				t.Fatal(err)
			}
			return
		}
		if again, err := EncodeProgram(p); err != nil || !bytes.Equal(b, again) {
			t.Fatalf("%x is accepted and encodes to %x (%v)", b, again, err)
		}
		p.WeightsExtent()
	})
}
