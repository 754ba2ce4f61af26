package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Parse reads a grammar in llama.cpp's GBNF. Its rule root describes the text. Errors have the code
// code.TextGrammar, and tell line and column.
//
//	root   ::= "yes" | "no" reason?   # a comment
//	reason ::= ", because " [a-z ]{3,80} "."
//
// A rule may refer to itself, but not begin with itself. llama.cpp's <token> is not supported.
func Parse(source string) (*Grammar, error) {
	p := &parser{in: source, line: 1, rules: map[string]int{}}
	if len(source) > MaxSource {
		return nil, fail("the grammar has %d bytes; allowed are %d", len(source), MaxSource)
	}
	if err := p.all(); err != nil {
		return nil, err
	}
	g := &Grammar{names: p.names, rules: p.exprs}
	root, ok := p.rules["root"]
	if !ok {
		return nil, fail("the grammar has no rule %q; it describes the whole text", "root")
	}
	for i, x := range p.exprs {
		if x == nil {
			return nil, fail("%s: %s is not defined", p.first[i], ruleName(p.names[i]))
		}
	}
	g.root = root
	if err := g.finish(func(i int) string { return p.first[i] + ": " + ruleName(g.names[i]) }); err != nil {
		return nil, err
	}
	return g, nil
}

type parser struct {
	in        string
	at        int
	line, bol int // the line, and where it begins
	depth     int
	rules     map[string]int
	names     []string
	exprs     []*expr
	first     []string // where each rule is defined, or else where it is first used
}

func (p *parser) where() string {
	return fmt.Sprintf("line %d, column %d", p.line, utf8.RuneCountInString(p.in[p.bol:p.at])+1)
}

func (p *parser) bad(format string, args ...any) error {
	return fail("%s: %s", p.where(), fmt.Sprintf(format, args...))
}

func (p *parser) peek() byte {
	if p.at < len(p.in) {
		return p.in[p.at]
	}
	return 0
}

// found names what comes next, for errors.
func (p *parser) found() string {
	if p.at >= len(p.in) {
		return "the end"
	}
	if c := p.peek(); c == '\n' || c == '\r' {
		return "the end of the line"
	}
	r, _ := utf8.DecodeRuneInString(p.in[p.at:])
	return strconv.QuoteRune(r)
}

// space skips spaces and comments, and with lines also ends of lines.
func (p *parser) space(lines bool) {
	for p.at < len(p.in) {
		switch c := p.in[p.at]; {
		case c == ' ' || c == '\t':
			p.at++
		case c == '#':
			for p.at < len(p.in) && p.in[p.at] != '\n' {
				p.at++
			}
		case lines && (c == '\n' || c == '\r'):
			p.at++
			if c == '\n' {
				p.line, p.bol = p.line+1, p.at
			}
		default:
			return
		}
	}
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func (p *parser) name() (string, error) {
	from := p.at
	for isNameByte(p.peek()) {
		p.at++
	}
	if p.at == from {
		return "", p.bad("%s; want the name of a rule, of letters, digits, - and _", p.found())
	}
	return p.in[from:p.at], nil
}

// rule returns the number of a rule.
func (p *parser) rule(name, where string) int {
	i, ok := p.rules[name]
	if !ok {
		i = len(p.names)
		p.rules[name] = i
		p.names, p.exprs, p.first = append(p.names, name), append(p.exprs, nil), append(p.first, where)
	}
	return i
}

func (p *parser) all() error {
	if i := strings.IndexByte(p.in, 0); i >= 0 || !utf8.ValidString(p.in) {
		return fail("the grammar is not UTF-8 text")
	}
	for p.space(true); p.at < len(p.in); p.space(true) {
		where := p.where()
		name, err := p.name()
		if err != nil {
			return err
		}
		i := p.rule(name, where)
		if p.exprs[i] != nil {
			return fail("%s: %s is defined twice, first at %s", where, ruleName(name), p.first[i])
		}
		p.first[i] = where
		p.space(false)
		if !strings.HasPrefix(p.in[p.at:], "::=") {
			return p.bad("%s after the name of a rule; want ::=", p.found())
		}
		p.at += 3
		p.space(true)
		x, err := p.alternatives(false)
		if err != nil {
			return err
		}
		p.exprs[i] = x
		if c := p.peek(); p.at < len(p.in) && c != '\n' && c != '\r' {
			return p.bad("%s; want a literal, [class], name, (group), |, a repetition or the end of the line", p.found())
		}
	}
	return nil
}

// alternatives parses the content of a rule or a group. In a group, line breaks do not matter.
func (p *parser) alternatives(group bool) (*expr, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.bad("groups are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	var list []*expr
	for {
		x, err := p.sequence(group)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
		p.space(group)
		if p.peek() != '|' {
			return alt(list...), nil
		}
		p.at++
		p.space(true)
	}
}

func (p *parser) sequence(group bool) (*expr, error) {
	var list []*expr
	for {
		x, err := p.item()
		if err != nil {
			return nil, err
		}
		if x == nil {
			return seq(list...), nil
		}
		for p.space(group); ; p.space(group) {
			y, err := p.repeated(x)
			if err != nil {
				return nil, err
			}
			if y == nil {
				break
			}
			x = y
		}
		list = append(list, x)
	}
}

// item parses an element of a sequence. It returns nil if no element follows.
func (p *parser) item() (*expr, error) {
	switch c := p.peek(); {
	case c == '"':
		return p.literal()
	case c == '[':
		return p.class()
	case c == '.':
		p.at++
		return class(0, maxRune), nil
	case c == '(':
		p.at++
		p.space(true)
		x, err := p.alternatives(true)
		if err != nil {
			return nil, err
		}
		if p.peek() != ')' {
			return nil, p.bad("%s; want ) at the end of a group", p.found())
		}
		p.at++
		return x, nil
	case c == '<' || c == '!' && strings.HasPrefix(p.in[p.at:], "!<"):
		return nil, p.bad("tokens in < > are not supported; write the text of the token as a literal")
	case isNameByte(c):
		where := p.where()
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		return ref(p.rule(name, where)), nil
	}
	return nil, nil
}

// repeated parses what makes x a repetition; it returns nil if nothing does.
func (p *parser) repeated(x *expr) (*expr, error) {
	c := p.peek()
	if c == 0 || !strings.ContainsRune("*+?{", rune(c)) {
		return nil, nil
	}
	where := p.where()
	p.at++
	switch c {
	case '*':
		return repeat(x, 0, -1), nil
	case '+':
		return repeat(x, 1, -1), nil
	case '?':
		return optional(x), nil
	}
	least, err := p.number()
	if err != nil {
		return nil, err
	}
	most := least
	if p.peek() == ',' {
		p.at++
		p.space(true)
		most = -1
		if p.peek() != '}' {
			if most, err = p.number(); err != nil {
				return nil, err
			}
		}
	}
	if p.peek() != '}' {
		return nil, p.bad("%s; want } at the end of a repetition", p.found())
	}
	p.at++
	if most >= 0 && most < least {
		return nil, fail("%s: at least %d times and at most %d; want the smaller number first", where, least, most)
	}
	return repeat(x, least, most), nil
}

func (p *parser) number() (int, error) {
	p.space(true)
	from := p.at
	for p.peek() >= '0' && p.peek() <= '9' {
		p.at++
	}
	if p.at == from {
		return 0, p.bad("%s; want a number, as in {3}, {3,} and {3,5}", p.found())
	}
	n, err := strconv.Atoi(p.in[from:p.at])
	if err != nil || n > maxRepeat {
		return 0, p.bad("%.20s times; allowed are %d", p.in[from:p.at], maxRepeat)
	}
	p.space(true)
	return n, nil
}

func (p *parser) literal() (*expr, error) {
	where := p.where()
	p.at++
	var b strings.Builder
	for p.peek() != '"' {
		r, err := p.char(where, "literal")
		if err != nil {
			return nil, err
		}
		b.WriteRune(r)
	}
	p.at++
	return literal(b.String()), nil
}

// char parses a character of a literal or class, which began at where.
func (p *parser) char(where, what string) (rune, error) {
	if c := p.peek(); p.at >= len(p.in) || c == '\n' || c == '\r' {
		return 0, fail("%s: the %s does not end on its line", where, what)
	}
	r, n := utf8.DecodeRuneInString(p.in[p.at:])
	p.at += n
	if r != '\\' {
		return r, nil
	}
	c := p.peek()
	p.at++
	digits := 0
	switch c {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-', '^':
		return rune(c), nil
	default:
		p.at -= 2
		return 0, p.bad(`an unknown escape; allowed are \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH`)
	}
	hex := p.in[p.at:min(len(p.in), p.at+digits)]
	v, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || len(hex) != digits || !utf8.ValidRune(rune(v)) || v > maxRune {
		p.at -= 2
		return 0, p.bad("want %d hexadecimal digits of a character after \\%c", digits, c)
	}
	p.at += digits
	return rune(v), nil
}

func (p *parser) class() (*expr, error) {
	where := p.where()
	p.at++
	not := p.peek() == '^'
	if not {
		p.at++
	}
	var pairs []rune
	for p.peek() != ']' {
		from, err := p.char(where, "class")
		if err != nil {
			return nil, err
		}
		to := from
		if p.peek() == '-' && p.at+1 < len(p.in) && p.in[p.at+1] != ']' {
			p.at++
			if to, err = p.char(where, "class"); err != nil {
				return nil, err
			}
		}
		if to < from {
			return nil, p.bad("the range %c-%c of a class is empty; want the smaller character first", from, to)
		}
		pairs = append(pairs, from, to)
	}
	p.at++
	x := class(pairs...)
	if not {
		x.ranges = inverted(x.ranges)
	}
	return x, nil
}
