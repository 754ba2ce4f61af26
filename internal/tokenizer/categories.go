package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/rangetable"
)

// The library's tables have different ages. Accents, punctuation and control characters are those of Unicode 8, marks
// and normalisation those of Unicode 9, everything else is current.
var unicode8, unicode9 = rangetable.Assigned("8.0.0"), rangetable.Assigned("9.0.0")

// Characters whose category has changed since.
var (
	markSince, markBefore     = rangetable.New(0x111c9), rangetable.New(0x1cf2, 0x1cf3)
	accentSince, accentBefore = rangetable.New(0x1885, 0x1886, 0xa9bd, 0x111c9), rangetable.New(0x1734)
	punctuationBefore         = rangetable.New(0x166d, 0x111c9)
	otherASCIIPunctuation     = "$+<=>^`|~"
	controls                  = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Co}
)

// isMark reports whether r is a mark.
func isMark(r rune) bool {
	return unicode.Is(unicode.M, r) && unicode.Is(unicode9, r) && !unicode.Is(markSince, r) || unicode.Is(markBefore, r)
}

// isAccent reports whether r is a mark that takes no space of its own.
func isAccent(r rune) bool {
	return unicode.Is(unicode.Mn, r) && unicode.Is(unicode8, r) && !unicode.Is(accentSince, r) ||
		unicode.Is(accentBefore, r)
}

func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return unicode.IsPunct(r) || strings.ContainsRune(otherASCIIPunctuation, r)
	}
	return unicode.Is(unicode.P, r) && unicode.Is(unicode8, r) || unicode.Is(punctuationBefore, r)
}

// isControl reports whether r is a control character, a format character or for private use.
func isControl(r rune) bool { return unicode.In(r, controls...) && unicode.Is(unicode8, r) }

// isNumeric reports whether r is any kind of number.
func isNumeric(r rune) bool { return unicode.Is(unicode.N, r) }

// normalForm returns s in a normal form. Characters newer than Unicode 9 stay as they are and separate the text around
// them.
func normalForm(f norm.Form, s string) string {
	if f.IsNormalString(s) {
		return s
	}
	var out []byte
	done := 0
	for i, r := range s {
		if r < utf8.RuneSelf {
			continue
		}
		if p := f.PropertiesString(s[i:]); p.BoundaryBefore() && p.Decomposition() == nil || unicode.Is(unicode9, r) {
			continue
		}
		out = append(append(out, f.String(s[done:i])...), string(r)...)
		done = i + utf8.RuneLen(r)
	}
	return string(append(out, f.String(s[done:])...))
}
