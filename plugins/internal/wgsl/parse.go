package wgsl

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

// Parse parses a complete WGSL text. It checks the syntax only: names may be undeclared and types wrong. Blocks and
// expressions nest at most 200 levels deep. An error is an *Error.
func Parse(src string) (tree *Module, err error) {
	defer Catch(&err)
	p := &parser{tokens: lex(src)}
	m := &Module{}
	for p.peek().kind != end {
		attrs := p.attributes()
		switch t := p.peek(); t.text {
		case "struct":
			m.Structs = append(m.Structs, p.structDecl())
		case "var", "const":
			v := p.variable(t.text)
			p.expect(";")
			v.Binding = attrs.binding
			m.Globals = append(m.Globals, v)
		case "fn":
			f := p.function()
			f.Entry, f.Threads = attrs.compute, attrs.threads
			m.Functions = append(m.Functions, f)
		default:
			Fail(t.pos, "%s; want struct, var, const or fn", t)
		}
	}
	return m, nil
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

func (p *parser) expect(text string) Pos {
	if t := p.peek(); !p.is(text) {
		Fail(t.pos, "%s; want %q", t, text)
	}
	return p.next().pos
}

func (p *parser) word(what string) token {
	t := p.next()
	if t.kind != word {
		Fail(t.pos, "%s; want %s", t, what)
	}
	return t
}

// deeper enters a nested statement or expression and returns a function that leaves it.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > mostDepth {
		Fail(p.peek().pos, "more than %d levels of statements and expressions", mostDepth)
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
				Fail(p.peek().pos, "a workgroup of several dimensions; want one")
			}
		case "group":
			p.expect("(")
			if n := p.peek(); p.count() != 0 {
				Fail(n.pos, "group %s; only group 0 is supported", n.text)
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
			Fail(t.pos, "attribute %s is not supported", t.text)
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
		Fail(t.pos, "%s; want a number up to 65535", t)
	}
	return int(n)
}

func (p *parser) structDecl() *Struct {
	s := &Struct{Pos: p.expect("struct"), Name: p.word("a name").text}
	s.Fields = p.fields("{", "}")
	p.accept(";")
	return s
}

// fields parses struct members or function parameters, separated by commas, between the punctuation open and shut.
func (p *parser) fields(open, shut string) (out []Field) {
	p.expect(open)
	for !p.accept(shut) {
		a := p.attributes()
		n := p.word("a name")
		p.expect(":")
		out = append(out, Field{n.pos, n.text, p.typ(), a.builtin})
		if !p.accept(",") && !p.is(shut) {
			Fail(p.peek().pos, `%s; want "," or %q`, p.peek(), shut)
		}
	}
	return out
}

func (p *parser) typ() *TypeExpr {
	defer p.deeper()()
	t := p.word("a type")
	typ := &TypeExpr{Pos: t.pos, Name: t.text}
	if !p.accept("<") {
		return typ
	}
	for {
		if n := p.peek(); n.kind == number {
			p.next()
			typ.Args = append(typ.Args, &TypeExpr{Pos: n.pos, Number: &Literal{n.pos, n.text}})
		} else {
			typ.Args = append(typ.Args, p.typ())
		}
		if p.accept(",") {
			continue
		}
		if t := p.peek(); t.text == ">>" || t.text == ">=" || t.text == ">>=" { // its first character ends the type
			p.tokens[0].text, p.tokens[0].pos.Col = t.text[1:], t.pos.Col+1
			return typ
		}
		p.expect(">")
		return typ
	}
}

// variable parses a declaration without the semicolon.
func (p *parser) variable(keyword string) *Variable {
	v := &Variable{Pos: p.expect(keyword), Keyword: keyword, Binding: -1}
	if keyword == "var" && p.accept("<") {
		v.Space = p.word("an address space").text
		v.ReadOnly = v.Space == "storage"
		if p.accept(",") {
			switch access := p.word("an access mode"); access.text {
			case "read":
			case "read_write":
				v.ReadOnly = false
			default:
				Fail(access.pos, "access mode %s is not supported", access.text)
			}
		}
		p.expect(">")
	}
	v.Name = p.word("a name").text
	if p.accept(":") {
		v.Type = p.typ()
	}
	if p.accept("=") {
		v.Init = p.expr(0)
	}
	if v.Type == nil && v.Init == nil || keyword != "var" && v.Init == nil {
		Fail(v.Pos, "%s %s has no initial value", keyword, v.Name)
	}
	return v
}

func (p *parser) function() *Function {
	f := &Function{Pos: p.expect("fn"), Name: p.word("a name").text}
	f.Params = p.fields("(", ")")
	if p.accept("->") {
		f.Result = p.typ()
	}
	f.Body = p.block()
	return f
}

func (p *parser) block() *Block {
	defer p.deeper()()
	b := &Block{Pos: p.expect("{")}
	for !p.accept("}") {
		if p.peek().kind == end {
			Fail(p.peek().pos, `the text ends here; want "}"`)
		}
		if p.accept(";") {
			continue
		}
		b.List = append(b.List, p.statement())
	}
	return b
}

func (p *parser) statement() Statement {
	t := p.peek()
	switch t.text {
	case "{":
		return p.block()
	case "if":
		return p.conditional()
	case "for":
		p.next()
		l := &Loop{Pos: t.pos}
		p.expect("(")
		if !p.accept(";") {
			l.Init = p.simple()
			p.expect(";")
		}
		if !p.accept(";") {
			l.Cond = p.expr(0)
			p.expect(";")
		}
		if !p.is(")") {
			l.Update = p.simple()
		}
		p.expect(")")
		l.Body = p.block()
		return l
	case "while":
		p.next()
		return &Loop{Pos: t.pos, Cond: p.expr(0), Body: p.block()}
	case "loop":
		p.next()
		return &Loop{Pos: t.pos, Body: p.block()}
	case "switch":
		return p.switchStatement()
	case "return":
		p.next()
		r := &Return{Pos: t.pos}
		if !p.is(";") {
			r.Value = p.expr(0)
		}
		p.expect(";")
		return r
	case "break", "continue":
		p.next()
		p.expect(";")
		return &Jump{t.pos, t.text}
	}
	s := p.simple()
	p.expect(";")
	return s
}

func (p *parser) conditional() *If {
	defer p.deeper()()
	c := &If{Pos: p.expect("if"), Cond: p.expr(0), Then: p.block()}
	if p.accept("else") {
		if p.is("if") {
			c.Else = p.conditional()
		} else {
			c.Else = p.block()
		}
	}
	return c
}

func (p *parser) switchStatement() *Switch {
	c := &Switch{Pos: p.expect("switch"), Of: p.expr(0)}
	p.expect("{")
	for !p.accept("}") {
		var one Case
		if p.accept("default") {
			one.Default = true
		} else {
			p.expect("case")
			for !p.is(":") && !p.is("{") {
				if p.accept("default") {
					one.Default = true
				} else {
					one.Values = append(one.Values, p.expr(0))
				}
				if !p.accept(",") {
					break
				}
			}
		}
		p.accept(":")
		one.Body = p.block()
		c.Cases = append(c.Cases, one)
	}
	return c
}

// simple parses a statement that may be in the head of a for.
func (p *parser) simple() Statement {
	t := p.peek()
	switch t.text {
	case "var", "let", "const":
		return p.variable(t.text)
	case "_":
		p.next()
		p.expect("=")
		return &Assign{Pos: t.pos, Value: p.expr(0)}
	}
	x := p.unary()
	if c, ok := x.(*Call); ok && (p.is(";") || p.is(")")) {
		return &CallStatement{t.pos, c}
	}
	p.expect("=")
	return &Assign{t.pos, x, p.expr(0)}
}

// levels holds the binary operators by precedence, lowest first. WGSL requires parentheses in some expressions that
// this parser accepts without.
var levels = [][]string{
	{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<", ">>"}, {"+", "-"},
	{"*", "/", "%"},
}

func (p *parser) expr(level int) Expr {
	if level == len(levels) {
		return p.unary()
	}
	if level == 0 {
		defer p.deeper()()
	}
	x := p.expr(level + 1)
	for p.peek().kind == punctuation && slices.Contains(levels[level], p.peek().text) {
		op := p.next()
		x = &Binary{op.pos, op.text, x, p.expr(level + 1)}
	}
	return x
}

func (p *parser) unary() Expr {
	defer p.deeper()()
	if t := p.peek(); t.kind == punctuation && (t.text == "-" || t.text == "!" || t.text == "~" || t.text == "&") {
		p.next()
		return &Unary{t.pos, t.text, p.unary()}
	}
	x := p.primary()
	for {
		switch t := p.peek(); {
		case p.accept("["):
			x = &Index{t.pos, x, p.expr(0)}
			p.expect("]")
		case p.accept("."):
			x = &Member{t.pos, x, p.word("a member").text}
		default:
			return x
		}
	}
}

// generic lists the names that take type arguments in <>. After other names in an expression, < is an operator.
var generic = []string{"vec2", "vec3", "vec4", "mat4x4", "array", "bitcast", "atomic"}

func (p *parser) primary() Expr {
	t := p.peek()
	switch {
	case t.kind == number || t.text == "true" || t.text == "false":
		p.next()
		return &Literal{t.pos, t.text}
	case t.kind == word:
		of := &TypeExpr{Pos: t.pos, Name: t.text}
		if slices.Contains(generic, t.text) {
			of = p.typ()
		} else {
			p.next()
		}
		if !p.accept("(") {
			if of.Args != nil {
				Fail(p.peek().pos, `%s; want "("`, p.peek())
			}
			return &Ident{t.pos, t.text}
		}
		c := &Call{Pos: t.pos, Of: of}
		for !p.accept(")") {
			c.Args = append(c.Args, p.expr(0))
			if !p.accept(",") && !p.is(")") {
				Fail(p.peek().pos, `%s; want "," or ")"`, p.peek())
			}
		}
		return c
	case p.accept("("):
		x := p.expr(0)
		p.expect(")")
		return x
	}
	Fail(t.pos, "%s; want an expression", t)
	return nil
}
