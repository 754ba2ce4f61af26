package target

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Parse reads the text form. It skips blank lines and comments, which begin with #. Errors begin with the line and
// column. Parse does not check that ops and attributes exist; Check does.
func Parse(text string) (*Description, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("a target description of %d bytes; at most %d", len(text), MaxText)
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("a target description that is not UTF-8")
	}
	d := &Description{}
	seen := map[string]int{}
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		p, err := scan(strings.TrimSuffix(line, "\r"))
		if err == nil && len(p.tokens) > 0 {
			err = p.line(d, number, seen)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d, %w", number, err)
		}
	}
	switch {
	case d.Name == "":
		return nil, fmt.Errorf("line 1, column 1: no line \"target NAME VERSION\"")
	case d.Types == nil:
		return nil, fmt.Errorf("line %d, column 1: no line \"types TYPE ...\"", number)
	}
	return d.Sort(), nil
}

// ParseRule reads one line of the text form that begins with run or reference.
func ParseRule(text string) (Rule, error) {
	p, err := scan(text)
	if err != nil {
		return Rule{}, err
	}
	return p.rule()
}

// MustRule is ParseRule for literals in code. It panics if the rule is invalid or Check refuses it.
func MustRule(text string) Rule {
	r, err := ParseRule(text)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		panic("BUG: target: rule \"" + text + "\": " + err.Error())
	}
	return r
}

// token is a word, a number, a quoted string, a list or one of marks.
type token struct {
	text   string
	column int // counted in bytes from 1
}

// parser reads the tokens of one line.
type parser struct {
	tokens []token
	end    int // the column after the end of the line
}

// marks are the tokens that separate words. Longer ones come first.
var marks = []string{"...", "..", "->", "<=", ">=", "=", ":", "(", ")", ",", "|"}

func scan(line string) (*parser, error) {
	p := &parser{end: len(line) + 1}
	for i := 0; i < len(line); {
		c := line[i]
		if c == ' ' || c == '\t' {
			i++
			continue
		}
		if c == '#' {
			break
		}
		n := tokenEnd(line[i:])
		if n <= 0 {
			return nil, fmt.Errorf("column %d: %q is not closed, or no character of a description", i+1,
				line[i:min(i+20, len(line))])
		}
		p.tokens = append(p.tokens, token{line[i : i+n], i + 1})
		i += n
	}
	return p, nil
}

// tokenEnd returns the length of the token at the start of s, or 0 if s does not begin with a token.
func tokenEnd(s string) int {
	for _, m := range marks {
		if strings.HasPrefix(s, m) {
			return len(m)
		}
	}
	switch {
	case s[0] == '"':
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
		return 0
	case s[0] == '[':
		return strings.IndexByte(s, ']') + 1
	}
	n := 0
	for n < len(s) && (isWordByte(s[n]) || s[n] == '.' && !strings.HasPrefix(s[n:], "..")) {
		n++
	}
	return n
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-+*", c) >= 0
}

// peek returns the text of the next token, or "" at the end of the line.
func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0].text
}

func (p *parser) next() string {
	t := p.peek()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

// accept consumes the next token if its text is text. It reports whether it did.
func (p *parser) accept(text string) bool {
	if p.peek() != text {
		return false
	}
	p.next()
	return true
}

// failf returns an error with the column of the next token.
func (p *parser) failf(format string, args ...any) error {
	column := p.end
	if len(p.tokens) > 0 {
		column = p.tokens[0].column
	}
	return fmt.Errorf("column %d: "+format, append([]any{column}, args...)...)
}

// found describes the next token for an error message.
func (p *parser) found() string {
	if len(p.tokens) == 0 {
		return "the end of the line"
	}
	return fmt.Sprintf("%.40q", p.peek())
}

func (p *parser) want(text string) error {
	if !p.accept(text) {
		return p.failf("found %s; want %q", p.found(), text)
	}
	return nil
}

func (p *parser) done() error {
	if len(p.tokens) > 0 {
		return p.failf("found %s; want the end of the line", p.found())
	}
	return nil
}

// name reads a name. what describes the name in errors.
func (p *parser) name(what string) (string, error) {
	t := p.peek()
	if t == "" || !isWordByte(t[0]) || t[0] == '*' || len(t) > maxWord {
		return "", p.failf("found %s; want %s", p.found(), what)
	}
	return p.next(), nil
}

// line adds a line to the description. seen has the line numbers of keywords that may occur only once, and of rules.
func (p *parser) line(d *Description, number int, seen map[string]int) (err error) {
	if d.Name == "" && p.peek() != "target" {
		return p.failf("found %s; want the line \"target NAME VERSION\" first", p.found())
	}
	key := p.peek()
	if key == "limit" && len(p.tokens) > 1 {
		key += " " + p.tokens[1].text
	}
	if key == "run" || key == "reference" {
		return p.ruleLine(d, number, seen)
	}
	if before := seen[key]; before > 0 {
		return p.failf("%q is in line %d already", key, before)
	}
	seen[key] = number
	switch p.next() {
	case "target":
		if d.Name, err = p.name("a name"); err != nil {
			return err
		}
		if !IsName(d.Name) {
			d.Name = ""
			return fmt.Errorf("column 8: the name of a target may have only lower-case letters, digits, _ and -")
		}
		if d.Version, err = p.name("a version"); err != nil {
			d.Name = ""
			return err
		}
	case "levels":
		for err == nil && len(p.tokens) > 0 {
			if slices.Contains(d.Levels, p.peek()) || !IsName(p.peek()) {
				return p.failf("found %s; want names of levels, each once", p.found())
			}
			d.Levels = append(d.Levels, p.next())
		}
		if d.Levels == nil {
			return p.failf("found %s; want the names of levels", p.found())
		}
	case "types":
		d.Types, err = p.types("")
	case "limit":
		limit := map[string]*int{"rank": &d.MaxRank, "operands": &d.MaxOperands}[p.peek()]
		if limit == nil {
			return p.failf("found %s; want rank or operands", p.found())
		}
		p.next()
		*limit, err = p.int(1)
	case "layout":
		if err = p.want(channelsLast); err == nil {
			d.ChannelsLast, err = p.int(1)
		}
	default:
		return fmt.Errorf("column 1: found %.40q; want target, levels, types, limit, layout, run or reference", key)
	}
	if err != nil {
		return err
	}
	return p.done()
}

func (p *parser) ruleLine(d *Description, number int, seen map[string]int) error {
	r, err := p.rule()
	if err != nil {
		return err
	}
	r.line = number
	key := r.String()
	if before := seen[key]; before > 0 {
		return fmt.Errorf("column 1: the rule is in line %d already", before)
	}
	seen[key] = number
	if d.Rules = append(d.Rules, r); len(d.Rules) > maxRules {
		return fmt.Errorf("column 1: more than %d rules", maxRules)
	}
	return nil
}

// IsName reports whether s may be the name of a target or level: lower-case letters, digits, _ and -.
func IsName(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return s != "" && len(s) <= maxWord
}

// int reads a number from lo to 1<<20.
func (p *parser) int(lo int) (int, error) {
	n, err := strconv.Atoi(p.peek())
	if err != nil || n < lo || n > 1<<20 || strconv.Itoa(n) != p.peek() {
		return 0, p.failf("found %s; want a number from %d to %d", p.found(), lo, 1<<20)
	}
	p.next()
	return n, nil
}

// types reads element types separated by sep. Each may occur once.
func (p *parser) types(sep string) (out []dtype.DType, err error) {
	for {
		t, ok := dtype.Parse(p.peek())
		if !ok || slices.Contains(out, t) {
			return nil, p.failf("found %s; want an element type, each once: %s", p.found(), join(dtype.Known(), ", "))
		}
		p.next()
		out = append(out, t)
		if sep == "" && len(p.tokens) == 0 || sep != "" && !p.accept(sep) {
			slices.Sort(out)
			return out, nil
		}
	}
}

// rule reads a rule: run|reference OP(OPERAND, ...) -> TYPES, ... if CONDITION and ...
func (p *parser) rule() (r Rule, err error) {
	switch {
	case p.accept("run"):
		r.How = Native
	case p.accept("reference"):
		r.How = Reference
	default:
		return r, p.failf("found %s; want run or reference", p.found())
	}
	if r.How == Reference && p.accept(AnyOp) {
		r.Op = AnyOp
		return r, p.done()
	}
	if r.Op, err = p.name("the name of an op"); err != nil {
		return r, err
	}
	if err := p.want("("); err != nil {
		return r, err
	}
	for !p.accept(")") {
		if len(r.In) > 0 {
			if err := p.want(","); err != nil {
				return r, err
			}
		}
		if len(r.In) == maxOperands {
			return r, p.failf("more than %d operands", maxOperands)
		}
		o, err := p.operand()
		if err != nil {
			return r, err
		}
		if o.Name == "" && (r.More || r.positional() < len(r.In)) {
			return r, p.failf("an operand without a name after ... or one with a name; want NAME: TYPES")
		}
		if o.Name != "" && slices.ContainsFunc(r.In, func(x Operand) bool { return x.Name == o.Name }) {
			return r, p.failf("operand %s is listed twice", o.Name)
		}
		r.In = append(r.In, o)
		if o.Name == "" && p.accept("...") {
			r.More = true
		}
	}
	for mark := "->"; p.accept(mark); mark = "," {
		if len(r.Out) == maxOperands {
			return r, p.failf("more than %d results", maxOperands)
		}
		o, err := p.typesOf()
		if err != nil {
			return r, err
		}
		r.Out = append(r.Out, o)
	}
	for word := "if"; p.accept(word); word = "and" {
		if len(r.If) == maxConds {
			return r, p.failf("more than %d conditions", maxConds)
		}
		c, err := p.condition()
		if err != nil {
			return r, err
		}
		r.If = append(r.If, c)
	}
	return r.named(), p.done()
}

// typesOf reads any, same, or element types separated by |.
func (p *parser) typesOf() (o Operand, err error) {
	switch {
	case p.accept("any"):
	case p.accept("same"):
		o.Same = true
	default:
		if o.Types, err = p.types("|"); err != nil {
			return o, fmt.Errorf("%w, or any or same", err)
		}
	}
	return o, nil
}

// operand reads an operand: TYPES, or NAME: TYPES, and what follows.
func (p *parser) operand() (Operand, error) {
	var name string
	if len(p.tokens) > 1 && p.tokens[1].text == ":" {
		if name = p.peek(); !ir.IsSymbol(name) {
			return Operand{}, p.failf("found %s; want the name of an operand", p.found())
		}
		p.tokens = p.tokens[2:]
	}
	o, err := p.typesOf()
	if err != nil {
		return o, err
	}
	o.Name = name
	if p.accept("rank") {
		if o.MinRank, err = p.int(0); err != nil {
			return o, err
		}
		o.Ranked, o.MaxRank = true, o.MinRank
		if p.accept("..") {
			if o.MaxRank, err = p.int(o.MinRank + 1); err != nil {
				return o, err
			}
		}
	}
	o.Static = p.accept("static")
	o.Param = p.accept("param")
	return o, nil
}

// condition reads a condition: NAME = VALUE|VALUE..., NAME <= NUMBER or NAME >= NUMBER.
func (p *parser) condition() (c Condition, err error) {
	if c.Attr, err = p.name("an attribute, broadcast or parts"); err != nil {
		return c, err
	}
	switch c.Rel = p.peek(); c.Rel {
	case "=", "<=", ">=":
		p.next()
	default:
		return c, p.failf("found %s; want =, <= or >=", p.found())
	}
	words, only := []Word{Last}, false // the words that the attribute may have, and whether it takes nothing else
	switch c.Attr {
	case Broadcast:
		words, only = []Word{Equal, Scalar, Suffix}, true
	case Parts:
		words, only = []Word{Run}, true
	}
	for {
		at := *p
		v, err := p.value(words)
		if err != nil {
			return c, err
		}
		_, isNumber := number(v)
		_, isWord := v.(Word)
		switch {
		case only && (!isWord || c.Rel != "="):
			return c, at.failf("found %s; want %s = %s", at.found(), c.Attr, words[len(words)-1])
		case c.Rel != "=" && !isNumber:
			return c, at.failf("found %s; want a number after %s", at.found(), c.Rel)
		case slices.ContainsFunc(
			c.Values,
			func(w any) bool { return Condition{Values: []any{w}}.String() == Condition{Values: []any{v}}.String() }):
			return c, at.failf("%s appears twice", at.found())
		}
		if c.Values = append(c.Values, v); len(c.Values) > maxValues {
			return c, at.failf("more than %d values", maxValues)
		}
		if only || c.Rel != "=" || !p.accept("|") {
			return c, nil
		}
	}
}

// value reads one of words or the value of an attribute.
func (p *parser) value(words []Word) (any, error) {
	t := p.peek()
	if t == "" {
		return nil, p.failf("found the end of the line; want a value")
	}
	if slices.Contains(words, Word(t)) {
		return Word(p.next()), nil
	}
	v, err := ir.ParseValue(t)
	if err != nil {
		return nil, p.failf("%w", err)
	}
	// A number that prints in another form, such as 1e3 or a NaN, would not survive a round trip.
	if f, ok := v.(float64); ok && (f != f || f-f != 0) {
		return nil, p.failf("found %s; want a finite number", p.found())
	}
	p.next()
	return v, nil
}
