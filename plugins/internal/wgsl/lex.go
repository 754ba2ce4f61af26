package wgsl

import "strings"

// token is a word, a number or punctuation.
type token struct {
	kind tokenKind
	text string
	pos  Pos
}

type tokenKind int

const (
	end tokenKind = iota
	word
	number
	punctuation
)

// long lists the punctuation of several characters, the longest first.
var long = []string{
	"<<=", ">>=", "->", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
	"<<", ">>",
}

// lex splits a source into tokens. The last token has the kind end. It panics as Fail does.
func lex(src string) (out []token) {
	line, begin := 1, 0 // number and offset of the current line
	for i := 0; i < len(src); {
		at := Pos{line, i - begin + 1}
		rest := src[i:]
		switch c := src[i]; {
		case c == '\n':
			i++
			line, begin = line+1, i
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			i += n
		case isLetter(c):
			n := span(rest, func(c byte) bool { return isLetter(c) || isDigit(c) })
			out = append(out, token{word, rest[:n], at})
			i += n
		case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
			n := numberLength(rest)
			out = append(out, token{number, rest[:n], at})
			i += n
		case strings.IndexByte("(){}[]<>,;:.@=+-*/%&|^!~", c) >= 0:
			text := rest[:1]
			for _, p := range long {
				if strings.HasPrefix(rest, p) {
					text = p
					break
				}
			}
			out = append(out, token{punctuation, text, at})
			i += len(text)
		default:
			Fail(at, "character %q is not supported", c)
		}
	}
	return append(out, token{kind: end, pos: Pos{line, len(src) - begin + 1}})
}

// numberLength returns the length of the number at the start of s, including its suffix.
func numberLength(s string) int {
	digit, exponent := isDigit, "eE"
	n := 0
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		digit, exponent, n = isHex, "pP", 2
	}
	n += span(s[n:], func(c byte) bool { return digit(c) || c == '.' })
	if n < len(s) && strings.IndexByte(exponent, s[n]) >= 0 {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
	}
	return n + span(s[n:], func(c byte) bool { return isLetter(c) || isDigit(c) })
}

// span returns the length of the longest prefix of s whose bytes all satisfy in.
func span(s string, in func(byte) bool) int {
	for i := range len(s) {
		if !in(s[i]) {
			return i
		}
	}
	return len(s)
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
