package tokenizer

import (
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/rlx-go/rlx/core/diag"
)

// A piece is a part of the text.
type piece struct {
	text  string
	first bool // whether it begins with the first character of the text given to Encode
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
		return diag.New(CodeText, "", "normalised, the text has more than %d bytes, 64 times its length", l.bytes)
	}
	return nil
}

// plain returns a normalizer that applies f, which must not remove the beginning of a text.
func plain(f func(string) string) normalizer {
	return func(p piece, l *limit) (piece, error) {
		p.text = f(p.text)
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
	return plain(func(s string) string {
		if s == "" {
			return s
		}
		return prefix + s
	})
}

func replace(pat pattern, with string) normalizer {
	return func(p piece, l *limit) (piece, error) {
		var out strings.Builder
		err := pat.spans(p.text, l, func(start, end int, match bool) error {
			if match {
				if start == 0 && end > 0 && with == "" {
					p.first = false
				}
				out.WriteString(with)
			} else {
				out.WriteString(p.text[start:end])
			}
			return l.size(out.Len())
		})
		p.text = out.String()
		return p, err
	}
}

func strip(left, right bool) normalizer {
	return func(p piece, _ *limit) (piece, error) {
		if right {
			p.text = strings.TrimRightFunc(p.text, unicode.IsSpace)
		}
		if left {
			s := strings.TrimLeftFunc(p.text, unicode.IsSpace)
			p.first = p.first && len(s) == len(p.text)
			p.text = s
		}
		return p, nil
	}
}

func form(f norm.Form) normalizer { return plain(f.String) }

// lowercase maps each character separately, whatever its neighbours are.
var lowercase = plain(func(s string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if r == 'İ' { // the only character whose lower case has two characters
			return r
		}
		return unicode.ToLower(r)
	}, s), "İ", "i̇")
})

// stripAccents removes marks. The library's table of marks is older: it keeps those that were added in Unicode 10 or later.
var stripAccents = plain(func(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.M, r) {
			return -1
		}
		return r
	}, s)
})

// nmt implements the NMT rules of SentencePiece: it removes control characters, and turns other kinds of space into spaces.
var nmt = plain(func(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 1 && r <= 8, r == 0xb, r >= 0xe && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
			return -1
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200b && r <= 0x200f, r == 0x2028, r == 0x2029, r == 0x2581, r == 0xfeff, r == 0xfffd:
			return ' '
		}
		return r
	}, s)
})

// byteLevel maps each byte to the printable character that GPT-2 uses for it.
var byteLevel = plain(func(s string) string { return string(appendByteLevel(nil, s)) })

func appendByteLevel(out []byte, s string) []byte {
	for i := range len(s) {
		out = append(out, byteChars[s[i]]...)
	}
	return out
}

// byteChars and charBytes are GPT-2's table. Printable characters of Latin-1 stand for themselves, other bytes map to U+0100 and
// above.
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
