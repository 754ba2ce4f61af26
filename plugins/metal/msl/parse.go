package msl

import (
	"slices"
	"strconv"
)

// mostDepth is the maximum nesting depth of statements and expressions. It bounds the parser's recursion.
const mostDepth = 200

type parser struct {
	tokens []token
	depth  int
}

func parse(src string) *module {
	p := &parser{tokens: lex(src)}
	m := &module{}
	for p.peek().kind != end {
		attrs := p.attributes()
		switch t := p.peek(); t.text {
		case "struct":
			m.structs = append(m.structs, p.structDecl())
		case "var", "const":
			v := p.variable(t.text)
			p.expect(";")
			v.binding = attrs.binding
			m.globals = append(m.globals, v)
		case "fn":
			f := p.function()
			f.entry, f.threads = attrs.compute, attrs.threads
			m.functions = append(m.functions, f)
		default:
			fail(t.pos, "%s; want struct, var, const or fn", t)
		}
	}
	return m
}

func (t token) String() string {
	if t.kind == end {
		return "the text ends here"
	}
	return strconv.Quote(t.text)
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != end {
		p.tokens = p.tokens[1:]
	}
	return t
}

// is reports whether the next token is the given punctuation or keyword.
func (p *parser) is(text string) bool { return p.peek().kind != number && p.peek().text == text }

// accept consumes the next token if it is the given punctuation or keyword, and reports whether it is.
func (p *parser) accept(text string) bool {
	if p.peek().kind == end || !p.is(text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(text string) pos {
	if t := p.peek(); !p.is(text) {
		fail(t.pos, "%s; want %q", t, text)
	}
	return p.next().pos
}

func (p *parser) word(what string) token {
	t := p.next()
	if t.kind != word {
		fail(t.pos, "%s; want %s", t, what)
	}
	return t
}

// deeper enters a nested statement or expression and returns a function that leaves it.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > mostDepth {
		fail(p.peek().pos, "more than %d levels of statements and expressions", mostDepth)
	}
	return func() { p.depth-- }
}

// attributes are the attributes of a declaration or a parameter.
type attributes struct {
	compute bool
	threads int
	binding int
	builtin string
}

func (p *parser) attributes() attributes {
	a := attributes{binding: -1}
	for p.accept("@") {
		t := p.word("an attribute")
		switch t.text {
		case "compute":
			a.compute = true
		case "workgroup_size":
			p.expect("(")
			a.threads = p.count()
			if !p.accept(")") {
				fail(p.peek().pos, "a workgroup of several dimensions; want one")
			}
		case "group":
			p.expect("(")
			if n := p.peek(); p.count() != 0 {
				fail(n.pos, "group %s; only group 0 is supported", n.text)
			}
			p.expect(")")
		case "binding":
			p.expect("(")
			a.binding = p.count()
			p.expect(")")
		case "builtin":
			p.expect("(")
			a.builtin = p.word("a built-in value").text
			p.expect(")")
		default:
			fail(t.pos, "attribute %s is not supported", t.text)
		}
	}
	return a
}

// count parses a decimal number in an attribute.
func (p *parser) count() int {
	t := p.next()
	text := t.text
	if len(text) > 1 && (text[len(text)-1] == 'u' || text[len(text)-1] == 'i') {
		text = text[:len(text)-1]
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if t.kind != number || err != nil {
		fail(t.pos, "%s; want a number up to 65535", t)
	}
	return int(n)
}

func (p *parser) structDecl() *structDecl {
	s := &structDecl{pos: p.expect("struct"), name: p.word("a name").text}
	s.fields = p.fields("{", "}")
	p.accept(";")
	return s
}

// fields parses struct members or function parameters, separated by commas, between the punctuation open and shut.
func (p *parser) fields(open, shut string) (out []field) {
	p.expect(open)
	for !p.accept(shut) {
		a := p.attributes()
		n := p.word("a name")
		p.expect(":")
		out = append(out, field{n.pos, n.text, p.typ(), a.builtin})
		if !p.accept(",") && !p.is(shut) {
			fail(p.peek().pos, `%s; want "," or %q`, p.peek(), shut)
		}
	}
	return out
}

func (p *parser) typ() *typeExpr {
	defer p.deeper()()
	t := p.word("a type")
	typ := &typeExpr{pos: t.pos, name: t.text}
	if !p.accept("<") {
		return typ
	}
	for {
		if n := p.peek(); n.kind == number {
			p.next()
			typ.args = append(typ.args, &typeExpr{pos: n.pos, n: &literal{n.pos, n.text}})
		} else {
			typ.args = append(typ.args, p.typ())
		}
		if p.accept(",") {
			continue
		}
		if t := p.peek(); t.text == ">>" || t.text == ">=" || t.text == ">>=" { // its first character ends the type
			p.tokens[0].text, p.tokens[0].col = t.text[1:], t.col+1
			return typ
		}
		p.expect(">")
		return typ
	}
}

// variable parses a declaration without the semicolon.
func (p *parser) variable(keyword string) *variable {
	v := &variable{pos: p.expect(keyword), keyword: keyword, binding: -1}
	if keyword == "var" && p.accept("<") {
		v.space = p.word("an address space").text
		if v.read = v.space == "storage"; p.accept(",") {
			switch access := p.word("an access mode"); access.text {
			case "read":
			case "read_write":
				v.read = false
			default:
				fail(access.pos, "access mode %s is not supported", access.text)
			}
		}
		p.expect(">")
	}
	v.name = p.word("a name").text
	if p.accept(":") {
		v.typ = p.typ()
	}
	if p.accept("=") {
		v.init = p.expr(0)
	}
	if v.typ == nil && v.init == nil || keyword != "var" && v.init == nil {
		fail(v.pos, "%s %s has no initial value", keyword, v.name)
	}
	return v
}

func (p *parser) function() *function {
	f := &function{pos: p.expect("fn"), name: p.word("a name").text}
	f.params = p.fields("(", ")")
	if p.accept("->") {
		f.result = p.typ()
	}
	f.body = p.block()
	return f
}

func (p *parser) block() *block {
	defer p.deeper()()
	b := &block{pos: p.expect("{")}
	for !p.accept("}") {
		if p.peek().kind == end {
			fail(p.peek().pos, `the text ends here; want "}"`)
		}
		if p.accept(";") {
			continue
		}
		b.list = append(b.list, p.statement())
	}
	return b
}

func (p *parser) statement() statement {
	t := p.peek()
	switch t.text {
	case "{":
		return p.block()
	case "if":
		return p.conditional()
	case "for":
		p.next()
		l := &loop{pos: t.pos}
		p.expect("(")
		if !p.accept(";") {
			l.init = p.simple()
			p.expect(";")
		}
		if !p.accept(";") {
			l.cond = p.expr(0)
			p.expect(";")
		}
		if !p.is(")") {
			l.update = p.simple()
		}
		p.expect(")")
		l.body = p.block()
		return l
	case "while":
		p.next()
		return &loop{pos: t.pos, cond: p.expr(0), body: p.block()}
	case "loop":
		p.next()
		return &loop{pos: t.pos, body: p.block()}
	case "switch":
		return p.switchStatement()
	case "return":
		p.next()
		r := &returnStatement{pos: t.pos}
		if !p.is(";") {
			r.v = p.expr(0)
		}
		p.expect(";")
		return r
	case "break", "continue":
		p.next()
		p.expect(";")
		return &jump{t.pos, t.text}
	}
	s := p.simple()
	p.expect(";")
	return s
}

func (p *parser) conditional() *conditional {
	defer p.deeper()()
	c := &conditional{pos: p.expect("if"), cond: p.expr(0), then: p.block()}
	if p.accept("else") {
		if p.is("if") {
			c.otherwise = p.conditional()
		} else {
			c.otherwise = p.block()
		}
	}
	return c
}

func (p *parser) switchStatement() *switchStatement {
	c := &switchStatement{pos: p.expect("switch"), of: p.expr(0)}
	p.expect("{")
	for !p.accept("}") {
		var one switchCase
		if p.accept("default") {
			one.isDefault = true
		} else {
			p.expect("case")
			for !p.is(":") && !p.is("{") {
				if p.accept("default") {
					one.isDefault = true
				} else {
					one.values = append(one.values, p.expr(0))
				}
				if !p.accept(",") {
					break
				}
			}
		}
		p.accept(":")
		one.body = p.block()
		c.cases = append(c.cases, one)
	}
	return c
}

// simple parses a statement that may be in the head of a for.
func (p *parser) simple() statement {
	t := p.peek()
	switch t.text {
	case "var", "let", "const":
		return p.variable(t.text)
	case "_":
		p.next()
		p.expect("=")
		return &assign{pos: t.pos, v: p.expr(0)}
	}
	x := p.unary()
	if c, ok := x.(*call); ok && (p.is(";") || p.is(")")) {
		return &callStatement{t.pos, c}
	}
	p.expect("=")
	return &assign{t.pos, x, p.expr(0)}
}

// levels holds the binary operators by precedence, lowest first. WGSL requires parentheses in some expressions that this parser accepts without.
var levels = [][]string{{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}}

func (p *parser) expr(level int) expr {
	if level == len(levels) {
		return p.unary()
	}
	if level == 0 {
		defer p.deeper()()
	}
	x := p.expr(level + 1)
	for p.peek().kind == punctuation && slices.Contains(levels[level], p.peek().text) {
		op := p.next()
		x = &binary{op.pos, op.text, x, p.expr(level + 1)}
	}
	return x
}

func (p *parser) unary() expr {
	defer p.deeper()()
	if t := p.peek(); t.kind == punctuation && (t.text == "-" || t.text == "!" || t.text == "~" || t.text == "&") {
		p.next()
		return &unary{t.pos, t.text, p.unary()}
	}
	x := p.primary()
	for {
		switch t := p.peek(); {
		case p.accept("["):
			x = &index{t.pos, x, p.expr(0)}
			p.expect("]")
		case p.accept("."):
			x = &member{t.pos, x, p.word("a member").text}
		default:
			return x
		}
	}
}

// generic lists the names that take type arguments in <>. After other names in an expression, < is an operator.
var generic = []string{"vec2", "vec3", "vec4", "mat4x4", "array", "bitcast", "atomic"}

func (p *parser) primary() expr {
	t := p.peek()
	switch {
	case t.kind == number || t.text == "true" || t.text == "false":
		p.next()
		return &literal{t.pos, t.text}
	case t.kind == word:
		of := &typeExpr{pos: t.pos, name: t.text}
		if slices.Contains(generic, t.text) {
			of = p.typ()
		} else {
			p.next()
		}
		if !p.accept("(") {
			if of.args != nil {
				fail(p.peek().pos, `%s; want "("`, p.peek())
			}
			return &name{t.pos, t.text}
		}
		c := &call{pos: t.pos, of: of}
		for !p.accept(")") {
			c.args = append(c.args, p.expr(0))
			if !p.accept(",") && !p.is(")") {
				fail(p.peek().pos, `%s; want "," or ")"`, p.peek())
			}
		}
		return c
	case p.accept("("):
		x := p.expr(0)
		p.expect(")")
		return x
	}
	fail(t.pos, "%s; want an expression", t)
	return nil
}
