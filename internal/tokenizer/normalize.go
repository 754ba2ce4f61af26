package tokenizer

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// A piece is a part of the text. Its first lead bytes come from the first character of the text given to Encode, unless
// a normalizer has dropped that character or the piece is from further on: then lead is 0.
type piece struct {
	text string
	lead int
}

// from returns the part of p between two offsets.
func (p piece) from(start, end int) piece {
	return piece{p.text[start:end], max(0, min(p.lead, end)-start)}
}

// A normalizer changes the characters of a piece.
type normalizer func(p piece, l *limit) (piece, error)

// limit bounds the memory and time that a hostile tokenizer can use for a text.
type limit struct {
	bytes int       // maximum length of a normalised piece
	until time.Time // deadline for regular expressions, which may backtrack
}

func newLimit(text int) *limit {
	return &limit{64*text + 4096, time.Now().Add(5*time.Second + time.Duration(text)*10*time.Microsecond)}
}

func (l *limit) size(n int) error {
	if n > l.bytes {
		return diag.New(code.TokenizerText, "", "normalised, the text has more than %d bytes, 64 times its length",
			l.bytes)
	}
	return nil
}

// perChar returns a normalizer that applies f, which maps each character by itself.
func perChar(f func(string) string) normalizer {
	return func(p piece, l *limit) (piece, error) {
		p.text, p.lead = f(p.text), len(f(p.text[:p.lead]))
		return p, l.size(len(p.text))
	}
}

func inOrder(list []normalizer) normalizer {
	return func(p piece, l *limit) (_ piece, err error) {
		for _, n := range list {
			if p, err = n(p, l); err != nil {
				return p, err
			}
		}
		return p, nil
	}
}

// prependText puts prefix in front of a piece that is not empty.
func prependText(prefix string) normalizer {
	return func(p piece, l *limit) (piece, error) {
		return p.prepend(prefix), l.size(len(prefix) + len(p.text))
	}
}

// prepend puts prefix in front of a piece that is not empty. The prefix counts as part of the first character.
func (p piece) prepend(prefix string) piece {
	if p.text == "" {
		return p
	}
	if p.lead > 0 {
		p.lead += len(prefix)
	}
	p.text = prefix + p.text
	return p
}

func replace(pat pattern, with string) normalizer {
	return func(p piece, l *limit) (piece, error) {
		var out strings.Builder
		lead := 0
		err := pat.spans(p.text, l, func(start, end int, match bool) error {
			switch {
			case !match:
				out.WriteString(p.text[start:end])
				lead += p.from(start, end).lead
			case end <= p.lead: // what replaces a match comes from its last character
				lead += len(with)
				fallthrough
			default:
				out.WriteString(with)
			}
			return l.size(out.Len())
		})
		return piece{out.String(), lead}, err
	}
}

func strip(left, right bool) normalizer {
	return func(p piece, _ *limit) (piece, error) {
		if right {
			p = p.from(0, len(strings.TrimRightFunc(p.text, unicode.IsSpace)))
		}
		if left {
			s := strings.TrimLeftFunc(p.text, unicode.IsSpace)
			p = p.from(len(p.text)-len(s), len(p.text))
		}
		return p, nil
	}
}

func form(f norm.Form) normalizer {
	return func(p piece, l *limit) (piece, error) {
		lead := len(normalForm(f, p.text[:p.lead]))
		p.text = normalForm(f, p.text)
		for p.lead = min(lead, len(p.text)); p.lead < len(p.text) && !utf8.RuneStart(p.text[p.lead]); {
			p.lead++ // the first character joined the next
		}
		return p, l.size(len(p.text))
	}
}

// lowercase maps each character separately, whatever its neighbours are.
var lowercase = perChar(func(s string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if r == 'İ' { // the only character whose lower case has two characters
			return r
		}
		return unicode.ToLower(r)
	}, s), "İ", "i̇")
})

// stripAccents removes marks.
var stripAccents = perChar(func(s string) string {
	return strings.Map(func(r rune) rune {
		if isMark(r) {
			return -1
		}
		return r
	}, s)
})

// bert returns BERT's normalizer: it removes control characters and turns white space into spaces, puts spaces around
// Chinese characters, removes accents, and lowers case.
func bert(clean, chinese, accents, lower bool) normalizer {
	var list []normalizer
	if clean {
		list = append(list, cleanText)
	}
	if chinese {
		list = append(list, spaceChinese)
	}
	if accents {
		list = append(list, form(norm.NFD), removeAccents)
	}
	if lower {
		list = append(list, lowercase)
	}
	return inOrder(list)
}

var cleanText = perChar(func(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\r':
			return ' '
		case r == 0, r == 0xfffd, isControl(r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, s)
})

var spaceChinese = perChar(func(s string) string {
	if strings.IndexFunc(s, isChinese) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if isChinese(r) {
			out.WriteString(" " + string(r) + " ")
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
})

// isChinese reports whether r is in one of the blocks that BERT takes for Chinese. The library begins the block at
// U+2B820 later.
func isChinese(r rune) bool {
	return r >= 0x4e00 && r <= 0x9fff || r >= 0x3400 && r <= 0x4dbf || r >= 0x20000 && r <= 0x2a6df || r >= 0x2a700 &&
		r <= 0x2b81f ||
		r >= 0x2b920 && r <= 0x2ceaf || r >= 0xf900 && r <= 0xfaff || r >= 0x2f800 && r <= 0x2fa1f
}

var removeAccents = perChar(func(s string) string {
	return strings.Map(func(r rune) rune {
		if isAccent(r) {
			return -1
		}
		return r
	}, s)
})

// nmt implements the NMT rules of SentencePiece: it removes control characters, and turns other kinds of space into
// spaces.
var nmt = perChar(func(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 1 && r <= 8, r == 0xb, r >= 0xe && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
			return -1
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200b && r <= 0x200f, r == 0x2028,
			r == 0x2029, r == 0x2581, r == 0xfeff, r == 0xfffd:
			return ' '
		}
		return r
	}, s)
})

// byteLevel maps each byte to the printable character that GPT-2 uses for it.
var byteLevel = perChar(func(s string) string { return string(appendByteLevel(nil, s)) })

func appendByteLevel(out []byte, s string) []byte {
	for i := range len(s) {
		out = append(out, byteChars[s[i]]...)
	}
	return out
}

// byteChars and charBytes are GPT-2's table. Printable characters of Latin-1 stand for themselves, other bytes map to
// U+0100 and above.
var byteChars, charBytes = func() (chars [256]string, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	other := rune(0x100)
	for b := range rune(256) {
		r := b
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = other
			other++
		}
		chars[b], bytes[r] = string(r), byte(b)
	}
	return chars, bytes
}()
