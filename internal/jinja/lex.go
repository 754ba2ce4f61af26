package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind int

const (
	text   kind = iota // outside tags
	begin              // {{ or {%
	end                // }} or %}
	name               // also keywords
	str                // without quotes
	number             // as written
	op
	eof
)

type token struct {
	kind kind
	text string
	line int
}

// A lexer divides a template into tokens. It drops white space around tags as trim_blocks and lstrip_blocks do.
type lexer struct {
	in     string
	at     int
	line   int
	tokens []token
}

func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{in: strings.TrimSuffix(source, "\n"), line: 1}
	fresh := true // whether the text begins at the start of a line
	for l.at < len(l.in) {
		open := l.open()
		body := l.in[l.at:open]
		if open == len(l.in) {
			l.emit(text, body)
			l.at = open
			break
		}
		tag := l.in[open : open+2]
		mark := byte(0)
		if open+2 < len(l.in) && (l.in[open+2] == '-' || l.in[open+2] == '+') {
			mark = l.in[open+2]
		}
		shown := body
		switch {
		case mark == '-':
			shown = strings.TrimRightFunc(body, unicode.IsSpace)
		case mark == 0 && tag != "{{":
			if i := strings.LastIndexByte(body, '\n') + 1; (i > 0 || fresh) && strings.TrimSpace(body[i:]) == "" {
				shown = body[:i]
			}
		}
		l.emit(text, shown)
		l.skip(open + 2)
		if mark != 0 {
			l.at++
		}
		if err := l.tag(tag); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line, err)
		}
		fresh = l.at > 0 && l.in[l.at-1] == '\n'
	}
	l.emit(eof, "")
	return l.tokens, nil
}

// open returns the position of the next tag.
func (l *lexer) open() int {
	for i := l.at; i+1 < len(l.in); i++ {
		if l.in[i] == '{' && strings.IndexByte("{%#", l.in[i+1]) >= 0 {
			return i
		}
	}
	return len(l.in)
}

func (l *lexer) emit(k kind, s string) {
	if k != text || s != "" {
		l.tokens = append(l.tokens, token{k, s, l.line})
	}
}

func (l *lexer) skip(to int) {
	l.line += strings.Count(l.in[l.at:to], "\n")
	l.at = to
}

// after skips the white space after a tag that ends with mark.
func (l *lexer) after(block bool, mark byte) {
	switch {
	case mark == '-':
		l.skip(len(l.in) - len(strings.TrimLeftFunc(l.in[l.at:], unicode.IsSpace)))
	case block && mark == 0 && strings.HasPrefix(l.in[l.at:], "\n"):
		l.skip(l.at + 1)
	}
}

// tag reads the rest of a tag or comment that begins with open, and the white space after it.
func (l *lexer) tag(open string) error {
	if open == "{#" {
		return l.comment()
	}
	l.emit(begin, open)
	closing := map[string]string{"{{": "}}", "{%": "%}"}[open]
	for depth := 0; depth != 0 || !l.closes(closing); { // within brackets, }} is two of them
		if l.at == len(l.in) {
			return fmt.Errorf("%s has no %s", open, closing)
		}
		bracket, err := l.token()
		if err != nil {
			return err
		}
		depth += bracket
	}
	return nil
}

func (l *lexer) comment() error {
	i := strings.Index(l.in[l.at:], "#}")
	if i < 0 {
		return fmt.Errorf("a comment has no end")
	}
	mark := byte(0)
	if i > 0 && (l.in[l.at+i-1] == '-' || l.in[l.at+i-1] == '+') {
		mark = l.in[l.at+i-1]
	}
	l.skip(l.at + i + 2)
	l.after(true, mark)
	return nil
}

// closes reads the end of a tag, if it is next, and the white space after it.
func (l *lexer) closes(closing string) bool {
	rest, mark := l.in[l.at:], byte(0)
	if strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
		mark, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, closing) || mark == '+' && closing == "}}" {
		return false
	}
	l.at = len(l.in) - len(rest) + 2
	l.emit(end, closing)
	l.after(closing == "%}", mark)
	return true
}

// token reads white space or one token of a tag. The result is 1 for an opening bracket and -1 for a closing one.
func (l *lexer) token() (bracket int, err error) {
	rest := l.in[l.at:]
	r, _ := utf8.DecodeRuneInString(rest)
	switch c := rest[0]; {
	case unicode.IsSpace(r):
		l.skip(l.at + utf8.RuneLen(r))
	case c == '\'' || c == '"':
		return 0, l.quoted(c)
	case isDigit(c):
		n := 1
		for n < len(rest) && (isWord(rest[n]) || rest[n] == '.' && n+1 < len(rest) && isDigit(rest[n+1])) {
			n++
		}
		l.emit(number, rest[:n])
		l.at += n
	case isWord(c):
		n := 1
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
		l.emit(name, rest[:n])
		l.at += n
	default:
		return l.operator(rest, r)
	}
	return 0, nil
}

func (l *lexer) operator(rest string, r rune) (bracket int, err error) {
	n := 1
	for _, two := range []string{"**", "//", "==", "!=", "<=", ">="} {
		if strings.HasPrefix(rest, two) {
			n = 2
		}
	}
	c := rest[0]
	if n == 1 && strings.IndexByte("+-*/%~|.,:=<>()[]{}", c) < 0 {
		return 0, fmt.Errorf("unexpected %q", r)
	}
	l.emit(op, rest[:n])
	l.at += n
	switch {
	case strings.IndexByte("([{", c) >= 0:
		return 1, nil
	case strings.IndexByte(")]}", c) >= 0:
		return -1, nil
	}
	return 0, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return c == '_' || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// quoted reads a string with the escapes of Python.
func (l *lexer) quoted(quote byte) error {
	var b strings.Builder
	for i := l.at + 1; i < len(l.in); i++ {
		switch c := l.in[i]; c {
		case quote:
			l.emit(str, b.String())
			l.skip(i + 1)
			return nil
		case '\\':
			if i++; i == len(l.in) {
				break
			}
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[l.in[i]]
			switch e := l.in[i]; {
			case strings.IndexByte(`ntrabfv\'"`, e) >= 0:
				b.WriteByte("\n\t\r\a\b\f\v\\'\""[strings.IndexByte(`ntrabfv\'"`, e)])
			case e == '\n':
			case n > 0:
				var r rune
				if i+n >= len(l.in) {
					return fmt.Errorf("a string has no end")
				}
				if _, err := fmt.Sscanf(l.in[i+1:i+1+n], "%x", &r); err != nil || !utf8.ValidRune(r) {
					return fmt.Errorf(`bad escape \%s in a string`, l.in[i:i+1+n])
				}
				b.WriteRune(r)
				i += n
			case e >= '0' && e <= '7' || e == 'N':
				return fmt.Errorf(`the escape \%c in a string is not supported`, e)
			default:
				b.WriteByte('\\')
				b.WriteByte(e)
			}
		default:
			b.WriteByte(c)
		}
	}
	return fmt.Errorf("a string has no end")
}
