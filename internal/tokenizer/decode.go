package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A decoder passes tokens through a chain of steps. Most steps see whole tokens. After a step that joins all tokens
// (Fuse, ByteLevel), the whole text is one token, which arrives in fragments.
type decoder struct {
	t           *Tokenizer
	skipSpecial bool
	steps       []step // from the last to the first
	first       sink
}

// A sink takes a fragment of a token. last marks the last fragment.
type sink func(s string, last bool)

// A step maps fragments of tokens. put may hold text back, which flush passes on at the end of the text.
type step interface {
	put(s string, last bool)
	flush()
}

// A decoderSpec returns a step that writes to out.
type decoderSpec func(m mode, out sink) step

// A mode is the way in which a step passes on its text.
type mode uint8

const (
	together mode = iota // for Decode
	early                // for Stream: as soon as possible
	rawly                // for Bytes: bytes instead of characters
)

func (t *Tokenizer) decoder(skipSpecial bool, m mode, out func(string)) *decoder {
	d := &decoder{t: t, skipSpecial: skipSpecial, first: func(s string, _ bool) { out(s) }}
	specs := t.decoders
	if len(specs) == 0 {
		specs = []decoderSpec{joinWithSpaces}
	}
	for i := len(specs) - 1; i >= 0; i-- {
		s := specs[i](m, d.first)
		d.first = s.put
		d.steps = append(d.steps, s)
	}
	return d
}

func (d *decoder) push(id int) {
	token, ok := d.t.Token(id)
	if cooked, is := d.t.cooking[id]; is {
		token = cooked
	}
	if ok && !(d.skipSpecial && d.t.special[id]) {
		d.first(token, true)
	}
}

func (d *decoder) flush() {
	for i := len(d.steps) - 1; i >= 0; i-- {
		d.steps[i].flush()
	}
}

// A Stream decodes tokens one by one.
type Stream struct {
	d   *decoder
	out strings.Builder
}

// Stream starts decoding a text. skipSpecial leaves out special tokens.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	s := &Stream{}
	s.d = t.decoder(skipSpecial, early, func(text string) { s.out.WriteString(text) })
	return s
}

// Next returns the text that the token completes. It returns whole characters only, and keeps the bytes of an
// incomplete one.
//
// The results of Next and Flush together equal that of Decode, except for byte fallback in a text with invalid UTF-8.
// Decode replaces a whole run of byte tokens, of which Next may already have returned valid characters.
func (s *Stream) Next(id int) string {
	s.d.push(id)
	return s.take()
}

// Flush ends the text and returns the bytes that were held back.
func (s *Stream) Flush() string {
	s.d.flush()
	return s.take()
}

func (s *Stream) take() string {
	text := s.out.String()
	s.out.Reset()
	return text
}

// perToken is a step that maps each token separately. n is the number of tokens before it.
type perToken struct {
	f    func(n int, token string) string
	out  sink
	n    int
	part string
}

func mapTokens(f func(n int, token string) string) decoderSpec {
	return func(_ mode, out sink) step { return &perToken{f: f, out: out} }
}

func (p *perToken) put(s string, last bool) {
	p.part += s
	if !last {
		return
	}
	p.out(p.f(p.n, p.part), true)
	p.part = ""
	p.n++
}

func (p *perToken) flush() {}

// spacer joins tokens with spaces, as the library does without a decoder.
type spacer struct {
	out    sink
	inside bool
}

func joinWithSpaces(_ mode, out sink) step { return &spacer{out: out} }

func (j *spacer) put(s string, _ bool) {
	if j.inside {
		s = " " + s
	}
	j.inside = true
	j.out(s, false)
}

func (j *spacer) flush() { j.out("", true) }

// fuse joins all tokens to one.
type fuse struct{ out sink }

func fuseTokens(_ mode, out sink) step { return fuse{out} }

func (f fuse) put(s string, _ bool) { f.out(s, false) }
func (f fuse) flush()               { f.out("", true) }

// byteJoiner undoes byteLevel and joins all tokens to one. A token with a character outside the table of byteLevel
// stands for its own bytes.
type byteJoiner struct {
	raw  bool
	out  sink
	part string // fragments of the current token
	tail []byte // bytes of an incomplete character
}

func joinBytes(m mode, out sink) step { return &byteJoiner{raw: m == rawly, out: out} }

func (j *byteJoiner) put(s string, last bool) {
	j.part += s
	if !last {
		return
	}
	at := len(j.tail)
	for _, r := range j.part {
		b, ok := charBytes[r]
		if !ok {
			j.tail = append(j.tail[:at], j.part...)
			break
		}
		j.tail = append(j.tail, b)
	}
	j.part = ""
	if j.raw {
		j.out(string(j.tail), false)
		j.tail = j.tail[:0]
		return
	}
	text, rest := lossy(j.tail, false)
	j.tail = append(j.tail[:0], rest...)
	if text != "" {
		j.out(text, false)
	}
}

func (j *byteJoiner) flush() {
	text, _ := lossy(j.tail, true)
	j.tail = nil
	j.out(text, true)
}

// lossy replaces invalid UTF-8 as Rust and the WHATWG do: the longest prefix of a valid sequence, or else one byte,
// becomes U+FFFD. Unless final, it returns an incomplete sequence at the end as rest.
func lossy(b []byte, final bool) (text string, rest []byte) {
	var out strings.Builder
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			out.Write(b[:n])
			b = b[n:]
			continue
		}
		if !final && !utf8.FullRune(b) {
			return out.String(), b
		}
		n := 1
		for n < len(b) && n < utf8.UTFMax && !utf8.FullRune(b[:n]) && incomplete(b[:n+1]) {
			n++
		}
		out.WriteRune(utf8.RuneError)
		b = b[n:]
	}
	return out.String(), nil
}

// incomplete reports whether b is a proper prefix of a valid sequence.
func incomplete(b []byte) bool { return !utf8.FullRune(b) }

// fallback turns tokens such as <0xE2> into bytes. Each byte of a run that is not valid UTF-8 becomes U+FFFD.
type fallback struct {
	mode mode
	out  sink
	part string
	run  []byte
}

func byteFallback(m mode, out sink) step { return &fallback{mode: m, out: out} }

func (f *fallback) put(s string, last bool) {
	f.part += s
	if !last {
		return
	}
	token := f.part
	f.part = ""
	if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		digits := token[3:5]
		if digits[0] == '+' { // as Rust's integer parser, which the library calls, accepts it
			digits = digits[1:]
		}
		if b, err := strconv.ParseUint(digits, 16, 8); err == nil {
			if f.mode == rawly {
				f.out(string([]byte{byte(b)}), true)
				return
			}
			f.run = append(f.run, byte(b))
			if f.mode == early {
				f.characters()
			}
			return
		}
	}
	f.end()
	f.out(token, true)
}

// characters passes on the complete characters at the front of the run. A byte that cannot be part of one becomes
// U+FFFD.
func (f *fallback) characters() {
	for len(f.run) > 0 && utf8.FullRune(f.run) {
		r, n := utf8.DecodeRune(f.run)
		f.out(string(r), true)
		f.run = f.run[n:]
	}
}

func (f *fallback) end() {
	switch {
	case len(f.run) == 0:
	case utf8.Valid(f.run):
		f.out(string(f.run), true)
	default:
		for range f.run {
			f.out(string(utf8.RuneError), true)
		}
	}
	f.run = f.run[:0]
}

func (f *fallback) flush() { f.end() }

// stripper removes char from the ends of each token, at most left times in front and right times at the end.
type stripper struct {
	char        string
	left, right int
	out         sink
	removed     int
	begun       bool
	held        string // at most right times char, which may be the end of the token
}

func stripTokens(char rune, left, right int) decoderSpec {
	return func(_ mode, out sink) step { return &stripper{char: string(char), left: left, right: right, out: out} }
}

func (p *stripper) put(s string, last bool) {
	for !p.begun && p.removed < p.left && strings.HasPrefix(s, p.char) {
		s = s[len(p.char):]
		p.removed++
	}
	p.begun = p.begun || s != "" || p.removed == p.left
	s = p.held + s
	end := len(s)
	for n := 0; n < p.right && strings.HasSuffix(s[:end], p.char); n++ {
		end -= len(p.char)
	}
	p.held = s[end:]
	if last {
		p.held, p.begun, p.removed = "", false, 0
	}
	if end > 0 || last {
		p.out(s[:end], last)
	}
}

func (p *stripper) flush() {}

// replaceTokens replaces a string in each token. If a token arrives in fragments, the end of a fragment that may begin
// the string is held back.
func replaceTokens(old, with string) decoderSpec {
	return func(_ mode, out sink) step { return &replacer{old: old, with: with, out: out} }
}

type replacer struct {
	old, with string
	out       sink
	held      string
}

func (r *replacer) put(s string, last bool) {
	s = r.held + s
	r.held = ""
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, r.old)
		if !ok {
			break
		}
		b.WriteString(before)
		b.WriteString(r.with)
		s = after
	}
	if !last {
		for n := min(len(r.old)-1, len(s)); n > 0; n-- {
			if strings.HasSuffix(s, r.old[:n]) {
				s, r.held = s[:len(s)-n], s[len(s)-n:]
				break
			}
		}
	}
	b.WriteString(s)
	if b.Len() > 0 || last {
		r.out(b.String(), last)
	}
}

func (r *replacer) flush() {}
