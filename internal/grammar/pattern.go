package grammar

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// pattern returns the insides of the JSON texts that a regular expression of ECMAScript matches somewhere. Characters
// are written in one way only: those that need an escape with the shortest one.
func (s *schemas) pattern(source, at string) (*expr, error) {
	translated, err := ecma(source)
	if err != "" {
		return nil, bad(at, "%s is not supported", err)
	}
	re, wrong := syntax.Parse(translated, syntax.Perl)
	if wrong != nil {
		return nil, bad(at, "%.100q cannot be used: %v", source, wrong)
	}
	p := &patterns{s: s, at: at}
	x := p.whole(re)
	if p.err != nil {
		return nil, p.err
	}
	return x, nil
}

// ecma translates what Go writes in another way, and names what one of both does not have.
func ecma(source string) (out, wrong string) {
	var b strings.Builder
	for i := 0; i < len(source); i++ {
		c := source[i]
		if c == '(' && strings.HasPrefix(source[i:], "(?") {
			rest := source[i+2:]
			switch {
			case strings.HasPrefix(rest, ":"):
			case strings.HasPrefix(rest, "<") && !strings.HasPrefix(rest, "<=") && !strings.HasPrefix(rest, "<!"):
			default:
				return "", "a group (?" + rest[:min(len(rest), 2)]
			}
		}
		if c != '\\' || i+1 == len(source) {
			b.WriteByte(c)
			continue
		}
		i++
		switch c := source[i]; {
		case c == 'u' && i+4 < len(source) && source[i+1] != '{':
			b.WriteString(`\x{` + source[i+1:i+5] + "}")
			i += 4
		case strings.ContainsRune(`dDwWsStrnfv0123456789xpPbB`, rune(c)):
			if c >= '1' && c <= '9' {
				return "", `a reference \` + string(rune(c))
			}
			b.WriteString(source[i-1 : i+1])
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			return "", `the escape \` + string(rune(c))
		case c == '/' || c == '-' || c < 0x80:
			b.WriteString(`\` + string(rune(c)))
		default:
			b.WriteString(source[i-1 : i+1])
		}
	}
	return b.String(), ""
}

type patterns struct {
	s   *schemas
	at  string
	err error
}

func (p *patterns) fail(what string) *expr {
	if p.err == nil {
		p.err = bad(p.at, "%s is not supported; supported are ^ at the beginning and $ at the end, classes, groups, "+
			"alternatives and repetitions", what)
	}
	return literal("")
}

// whole returns texts in which the expression matches somewhere, or at the ends if it has anchors.
func (p *patterns) whole(re *syntax.Regexp) *expr {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op == syntax.OpAlternate {
		var list []*expr
		for _, x := range re.Sub {
			list = append(list, p.whole(x))
		}
		return alt(list...)
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = slices.Clone(re.Sub)
	}
	some := repeat(p.s.char(), 0, -1)
	before, after := some, some
	for len(parts) > 0 && isBegin(parts[0]) {
		parts, before = parts[1:], literal("")
	}
	for len(parts) > 0 && isEnd(parts[len(parts)-1]) {
		parts, after = parts[:len(parts)-1], literal("")
	}
	list := []*expr{before}
	for _, x := range parts {
		list = append(list, p.expr(x))
	}
	return seq(append(list, after)...)
}

func isBegin(re *syntax.Regexp) bool {
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpBeginLine
}

func isEnd(re *syntax.Regexp) bool { return re.Op == syntax.OpEndText || re.Op == syntax.OpEndLine }

func (p *patterns) expr(re *syntax.Regexp) *expr {
	var list []*expr
	switch re.Op {
	case syntax.OpCapture, syntax.OpConcat, syntax.OpAlternate, syntax.OpStar, syntax.OpPlus, syntax.OpQuest,
		syntax.OpRepeat:
		for _, x := range re.Sub {
			list = append(list, p.expr(x))
		}
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return alt()
	case syntax.OpEmptyMatch:
		return literal("")
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return p.fail("a flag")
		}
		for _, r := range re.Rune {
			list = append(list, p.chars([]rune{r, r}))
		}
		return seq(list...)
	case syntax.OpCharClass:
		return p.chars(re.Rune)
	case syntax.OpAnyCharNotNL, syntax.OpAnyChar:
		return p.chars(inverted(class(runes('\n', '\r', 0x2028, 0x2029)...).ranges))
	case syntax.OpCapture, syntax.OpConcat:
		return seq(list...)
	case syntax.OpAlternate:
		return alt(list...)
	case syntax.OpStar:
		return repeat(list[0], 0, -1)
	case syntax.OpPlus:
		return repeat(list[0], 1, -1)
	case syntax.OpQuest:
		return optional(list[0])
	case syntax.OpRepeat:
		return repeat(list[0], re.Min, re.Max)
	}
	return p.fail(re.String())
}

// moreSpaces are the spaces that \s has in ECMAScript and not in Go.
var moreSpaces = runes('\v', 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF)

// chars returns the characters of ranges as they are written in JSON.
func (p *patterns) chars(ranges []rune) *expr {
	if slices.Equal(ranges, []rune{0, 8, 11, 11, 14, 31, 33, maxRune}) { // \S
		ranges = inverted(merged(append(inverted(ranges), append(moreSpaces, 0x2000, 0x200A)...)))
	}
	x := class(ranges...)
	var list []*expr
	plain := plainChars().ranges
	for i := 0; i < len(plain); i += 2 {
		list = append(list, within(x, plain[i], plain[i+1]))
	}
	var all []rune
	for _, y := range list {
		all = append(all, y.ranges...)
	}
	list = nil
	if len(all) > 0 {
		list = append(list, class(all...))
	}
	for r := rune(0); r < 0x80; r++ {
		if in := within(x, r, r); len(in.ranges) > 0 && len(within(plainChars(), r, r).ranges) == 0 {
			list = append(list, literal(strings.Trim(encoded(string(r)), `"`)))
			if r == '"' {
				list[len(list)-1] = literal(`\"`)
			}
		}
	}
	return alt(list...)
}
