package chat

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parser makes closures of tokens.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // for blocks around
}

func parse(source string) (body []stmt, err error) {
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, stop, err := p.body()
	if err == nil && stop != "" {
		err = fmt.Errorf("%s has no beginning", stop)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.peek().line, err)
	}
	return body, nil
}

func (p *parser) peek() token { return p.tokens[min(p.at, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.peek()
	p.at++
	return t
}

// accept takes a token if it is the one.
func (p *parser) accept(k kind, text string) bool {
	if t := p.peek(); t.kind != k || t.text != text {
		return false
	}
	p.at++
	return true
}

func (p *parser) want(k kind, text string) error {
	if !p.accept(k, text) {
		return fmt.Errorf("found %s; want %q", p.peek(), text)
	}
	return nil
}

func (p *parser) ident() (string, error) {
	t := p.next()
	if t.kind != name || slices.Contains(keywords, t.text) {
		return "", fmt.Errorf("found %s; want a name", t)
	}
	return t.text, nil
}

var keywords = []string{"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"}

func (t token) String() string {
	if t.kind == eof {
		return "the end of the template"
	}
	return strconv.Quote(t.text)
}

// enter bounds how deep blocks and expressions nest; the caller calls leave.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return fmt.Errorf("nests deeper than %d levels", maxDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// body reads up to a block that only has a meaning within another one, and gives its name. The name is consumed, the rest is not.
func (p *parser) body() (out []stmt, stop string, err error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer p.leave()
	for {
		t := p.next()
		switch {
		case t.kind == eof:
			p.at--
			return out, "", nil
		case t.kind == text:
			out = append(out, func(r *run, _ *frame) (signal, error) { return goOn, r.write(t.text) })
		case t.text == "{{":
			e, err := p.tuple()
			if err == nil {
				err = p.want(end, "}}")
			}
			if err != nil {
				return nil, "", err
			}
			out = append(out, func(r *run, f *frame) (signal, error) {
				v, err := e(r, f)
				if err != nil {
					return goOn, fmt.Errorf("line %d: %w", t.line, err)
				}
				s, err := r.show(v)
				if err != nil {
					return goOn, fmt.Errorf("line %d: %w", t.line, err)
				}
				return goOn, r.write(s)
			})
		default:
			word := p.next()
			read, known := blocks[word.text]
			if word.kind != name {
				return nil, "", fmt.Errorf("found %s; want the name of a block", word)
			}
			if !known {
				if slices.Contains(inner, word.text) {
					return out, word.text, nil
				}
				return nil, "", fmt.Errorf("block %.40q is not supported", word.text)
			}
			s, err := read(p)
			if err != nil {
				return nil, "", err
			}
			out = append(out, func(r *run, f *frame) (signal, error) {
				sig, err := s(r, f)
				if err != nil && !errors.As(err, new(located)) {
					err = located{fmt.Errorf("line %d: %w", t.line, err)}
				}
				return sig, err
			})
		}
	}
}

// located is an error that says in which line it happened.
type located struct{ error }

func (l located) Unwrap() error { return l.error }

// until reads a body that ends with one of the blocks, and gives which.
func (p *parser) until(stops ...string) ([]stmt, string, error) {
	body, stop, err := p.body()
	if err == nil && !slices.Contains(stops, stop) {
		if stop == "" {
			stop = "the end of the template"
		}
		err = fmt.Errorf("found %s; want %s", stop, strings.Join(stops, " or "))
	}
	return body, stop, err
}

// tuple is one expression, or several with commas, which are a list.
func (p *parser) tuple() (expr, error) {
	first, err := p.expression()
	if err != nil || p.peek().kind != op || p.peek().text != "," {
		return first, err
	}
	items := []expr{first}
	for p.accept(op, ",") {
		if t := p.peek(); t.kind == end || t.text == ")" {
			break
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return listOf(items, true), nil
}

func listOf(items []expr, tuple bool) expr {
	return func(r *run, f *frame) (value, error) {
		out := make([]value, len(items))
		for i, e := range items {
			v, err := e(r, f)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return &list{out, tuple}, r.made(16 * len(out))
	}
}

// node counts each evaluation.
func node(e expr) expr {
	return func(r *run, f *frame) (value, error) {
		if err := r.step(); err != nil {
			return nil, err
		}
		return e(r, f)
	}
}

func constant(v value) expr { return node(func(*run, *frame) (value, error) { return v, nil }) }

// expression is A if B else C.
func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.or()
	for err == nil && p.accept(name, "if") {
		yes, no := e, constant(undefined("the value of an if without else"))
		var cond expr
		if cond, err = p.or(); err == nil && p.accept(name, "else") {
			no, err = p.expression()
		}
		e = node(func(r *run, f *frame) (value, error) {
			c, err := cond(r, f)
			if err != nil {
				return nil, err
			}
			if truth(c) {
				return yes(r, f)
			}
			return no(r, f)
		})
	}
	return e, err
}

func (p *parser) or() (expr, error) {
	return p.shortcut("or", p.and, true)
}

func (p *parser) and() (expr, error) {
	return p.shortcut("and", p.not, false)
}

// shortcut is a chain of or, or of and: its value is that of the first operand which decides.
func (p *parser) shortcut(word string, operand func() (expr, error), decides bool) (expr, error) {
	first, err := operand()
	all := []expr{first}
	for err == nil && p.accept(name, word) {
		var e expr
		e, err = operand()
		all = append(all, e)
	}
	if err != nil || len(all) == 1 {
		return first, err
	}
	return node(func(r *run, f *frame) (v value, err error) {
		for _, e := range all {
			if v, err = e(r, f); err != nil || truth(v) == decides {
				return v, err
			}
		}
		return v, nil
	}), nil
}

func (p *parser) not() (expr, error) {
	if !p.accept(name, "not") {
		return p.comparison()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.not()
	return node(func(r *run, f *frame) (value, error) {
		v, err := e(r, f)
		return !truth(v), err
	}), err
}

func (p *parser) comparison() (expr, error) {
	first, err := p.sum()
	type link struct {
		op string
		e  expr
	}
	var chain []link
	for err == nil {
		t := p.peek()
		word := t.text
		switch {
		case t.kind == op && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, word), t.kind == name && word == "in":
			p.at++
		case t.kind == name && word == "not" && p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == "in" && p.tokens[p.at+1].kind == name:
			p.at += 2
			word = "not in"
		default:
			word = ""
		}
		if word == "" {
			break
		}
		var e expr
		e, err = p.sum()
		chain = append(chain, link{word, e})
	}
	if err != nil || len(chain) == 0 {
		return first, err
	}
	return node(func(r *run, f *frame) (value, error) {
		left, err := first(r, f)
		if err != nil {
			return nil, err
		}
		for _, c := range chain {
			right, err := c.e(r, f)
			if err != nil {
				return nil, err
			}
			ok, err := r.compare(c.op, left, right)
			if err != nil || !ok {
				return false, err
			}
			left = right
		}
		return true, nil
	}), nil
}

// binary is a chain of operators of one rank.
func (p *parser) binary(operand func() (expr, error), ops ...string) (expr, error) {
	e, err := operand()
	for n := 0; err == nil && p.peek().kind == op && slices.Contains(ops, p.peek().text); n++ {
		word, left := p.next().text, e
		var right expr
		right, err = operand()
		e = node(func(r *run, f *frame) (value, error) {
			a, err := left(r, f)
			if err != nil {
				return nil, err
			}
			b, err := right(r, f)
			if err != nil {
				return nil, err
			}
			return r.arithmetic(word, a, b)
		})
		if n > 10*maxDepth { // a chain evaluates as deep as it is long
			return nil, errors.New("an expression has too many operators")
		}
	}
	return e, err
}

func (p *parser) sum() (expr, error)     { return p.binary(p.joined, "+", "-") }
func (p *parser) joined() (expr, error)  { return p.binary(p.product, "~") }
func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() (expr, error)   { return p.binary(p.unary, "**") }

func (p *parser) unary() (expr, error) {
	e, err := p.signed()
	if err != nil {
		return nil, err
	}
	return p.filtered(e)
}

func (p *parser) signed() (expr, error) {
	for _, sign := range []string{"-", "+"} {
		if p.accept(op, sign) {
			if err := p.enter(); err != nil {
				return nil, err
			}
			defer p.leave()
			e, err := p.signed()
			return node(func(r *run, f *frame) (value, error) {
				v, err := e(r, f)
				if err != nil {
					return nil, err
				}
				return r.arithmetic(sign, 0, v)
			}), err
		}
	}
	e, err := p.primary()
	if err != nil {
		return nil, err
	}
	return p.postfix(e)
}

func (p *parser) primary() (expr, error) {
	t := p.next()
	switch t.kind {
	case name:
		switch t.text {
		case "true", "True":
			return constant(true), nil
		case "false", "False":
			return constant(false), nil
		case "none", "None":
			return constant(nil), nil
		}
		if slices.Contains(keywords, t.text) {
			break
		}
		return node(func(_ *run, f *frame) (value, error) { return f.get(t.text), nil }), nil
	case str:
		s := t.text
		for p.peek().kind == str {
			s += p.next().text
		}
		return constant(s), nil
	case number:
		digits := strings.ReplaceAll(t.text, "_", "")
		if i, err := strconv.Atoi(digits); err == nil {
			return constant(i), nil
		}
		if f, err := strconv.ParseFloat(digits, 64); err == nil && strings.ContainsAny(digits, ".eE") {
			return constant(f), nil
		}
		return nil, fmt.Errorf("%.40q is not a number that is supported", t.text)
	case op:
		switch t.text {
		case "(":
			if p.accept(op, ")") {
				return listOf(nil, true), nil
			}
			e, err := p.tuple()
			if err != nil {
				return nil, err
			}
			return e, p.want(op, ")")
		case "[":
			items, err := p.sequence("]")
			return listOf(items, false), err
		case "{":
			return p.mapping()
		}
	}
	return nil, fmt.Errorf("found %s; want an expression", t)
}

// sequence reads expressions with commas up to the closing bracket.
func (p *parser) sequence(closing string) (items []expr, err error) {
	for !p.accept(op, closing) {
		if len(items) > 0 {
			if err := p.want(op, ","); err != nil {
				return nil, err
			}
			if p.accept(op, closing) {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (p *parser) mapping() (expr, error) {
	var keys, values []expr
	for !p.accept(op, "}") {
		if len(keys) > 0 {
			if err := p.want(op, ","); err != nil {
				return nil, err
			}
			if p.accept(op, "}") {
				break
			}
		}
		key, err := p.expression()
		if err == nil {
			err = p.want(op, ":")
		}
		if err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		keys, values = append(keys, key), append(values, v)
	}
	return node(func(r *run, f *frame) (value, error) {
		d := newDict()
		for i := range keys {
			k, err := keys[i](r, f)
			if err != nil {
				return nil, err
			}
			key, ok := k.(string)
			if !ok {
				return nil, fmt.Errorf("%s as a key of a mapping is not supported; use a string", typeName(k))
			}
			v, err := values[i](r, f)
			if err != nil {
				return nil, err
			}
			d.set(key, v)
		}
		return d, r.made(64 * len(keys))
	}), nil
}

// postfix reads attributes, items and calls.
func (p *parser) postfix(e expr) (expr, error) {
	for n := 0; ; n++ {
		if n > 10*maxDepth {
			return nil, errors.New("an expression has too many attributes")
		}
		object := e
		switch {
		case p.accept(op, "."):
			t := p.next()
			if t.kind != name && t.kind != number {
				return nil, fmt.Errorf("found %s; want the name of an attribute", t)
			}
			if i, err := strconv.Atoi(t.text); t.kind == number && err == nil {
				e = item(object, constant(i))
				continue
			}
			e = node(func(r *run, f *frame) (value, error) {
				v, err := object(r, f)
				if err != nil {
					return nil, err
				}
				return r.attribute(v, t.text)
			})
		case p.accept(op, "["):
			var err error
			if e, err = p.subscript(object); err != nil {
				return nil, err
			}
		case p.accept(op, "("):
			call, err := p.call()
			if err != nil {
				return nil, err
			}
			e = node(func(r *run, f *frame) (value, error) {
				v, err := object(r, f)
				if err != nil {
					return nil, err
				}
				fn, ok := v.(function)
				if !ok {
					if u, is := v.(undefined); is {
						return nil, fmt.Errorf("%.60q is undefined and cannot be called", string(u))
					}
					return nil, fmt.Errorf("%s cannot be called", typeName(v))
				}
				a, err := call(r, f)
				if err != nil {
					return nil, err
				}
				return fn(r, a)
			})
		default:
			return e, nil
		}
	}
}

func item(object, index expr) expr {
	return node(func(r *run, f *frame) (value, error) {
		v, err := object(r, f)
		if err != nil {
			return nil, err
		}
		i, err := index(r, f)
		if err != nil {
			return nil, err
		}
		return r.item(v, i)
	})
}

// subscript is [INDEX] or [START:STOP:STEP].
func (p *parser) subscript(object expr) (expr, error) {
	var parts [3]expr
	n := 0
	for !p.accept(op, "]") {
		if p.accept(op, ":") {
			if n++; n == 3 {
				return nil, errors.New("a slice has more than three parts")
			}
			continue
		}
		if parts[n] != nil {
			return nil, fmt.Errorf("found %s; want ]", p.peek())
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		parts[n] = e
	}
	if n == 0 {
		if parts[0] == nil {
			return nil, errors.New("an index is missing")
		}
		return item(object, parts[0]), nil
	}
	return node(func(r *run, f *frame) (value, error) {
		v, err := object(r, f)
		if err != nil {
			return nil, err
		}
		var at [3]value
		for i, e := range parts {
			if e != nil {
				if at[i], err = e(r, f); err != nil {
					return nil, err
				}
			}
		}
		return r.slice(v, at)
	}), nil
}

// call reads arguments behind an opening parenthesis.
func (p *parser) call() (func(*run, *frame) (args, error), error) {
	var list []expr
	keys := map[string]expr{}
	for first := true; !p.accept(op, ")"); first = false {
		if !first {
			if err := p.want(op, ","); err != nil {
				return nil, err
			}
			if p.accept(op, ")") {
				break
			}
		}
		key := ""
		if t := p.peek(); t.kind == name && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == op && p.tokens[p.at+1].text == "=" {
			key = t.text
			p.at += 2
		}
		e, err := p.expression()
		switch {
		case err != nil:
			return nil, err
		case key != "":
			keys[key] = e
		case len(keys) > 0:
			return nil, errors.New("an argument by position follows one by name")
		default:
			list = append(list, e)
		}
	}
	return func(r *run, f *frame) (a args, err error) {
		if err := r.made(32 * (len(list) + 2*len(keys))); err != nil {
			return a, err
		}
		for _, e := range list {
			v, err := e(r, f)
			if err != nil {
				return a, err
			}
			a.list = append(a.list, v)
		}
		if len(keys) > 0 {
			a.keys = map[string]value{}
		}
		for key, e := range keys {
			if a.keys[key], err = e(r, f); err != nil {
				return a, err
			}
		}
		return a, nil
	}, nil
}

// noArgs are the arguments of a filter or test without parentheses.
func noArgs(*run, *frame) (args, error) { return args{}, nil }

// filtered reads filters and tests.
func (p *parser) filtered(e expr) (expr, error) {
	for n := 0; ; n++ {
		if n > 10*maxDepth {
			return nil, errors.New("an expression has too many filters")
		}
		switch {
		case p.accept(op, "|"):
			fn, call, err := p.filter()
			if err != nil {
				return nil, err
			}
			e = applied(e, fn, call)
		case p.accept(name, "is"):
			negated := p.accept(name, "not")
			word, err := p.word()
			if err != nil {
				return nil, err
			}
			fn, ok := tests[word]
			if !ok {
				return nil, fmt.Errorf("test %.40q is not supported", word)
			}
			call := noArgs
			if p.accept(op, "(") {
				if call, err = p.call(); err != nil {
					return nil, err
				}
			} else if t := p.peek(); t.kind == str || t.kind == number || t.kind == name && !slices.Contains([]string{"and", "or", "not", "in", "is", "if", "else"}, t.text) ||
				t.kind == op && slices.Contains([]string{"[", "{"}, t.text) {
				arg, err := p.primary()
				if err == nil {
					arg, err = p.postfix(arg)
				}
				if err != nil {
					return nil, err
				}
				call = func(r *run, f *frame) (args, error) {
					v, err := arg(r, f)
					return args{list: []value{v}}, err
				}
			}
			tested := applied(e, fn, call)
			e = tested
			if negated {
				e = func(r *run, f *frame) (value, error) {
					v, err := tested(r, f)
					return !truth(v), err
				}
			}
		case p.accept(op, "("): // the result of a filter is called
			return nil, errors.New("calling the result of a filter is not supported")
		default:
			return e, nil
		}
	}
}

// word is any name, also a keyword, such as the test in.
func (p *parser) word() (string, error) {
	t := p.next()
	if t.kind != name {
		return "", fmt.Errorf("found %s; want a name", t)
	}
	return t.text, nil
}

// filter reads a filter behind |.
func (p *parser) filter() (filter, func(*run, *frame) (args, error), error) {
	word, err := p.word()
	if err != nil {
		return nil, nil, err
	}
	fn, ok := filters[word]
	if !ok {
		return nil, nil, fmt.Errorf("filter %.40q is not supported", word)
	}
	call := noArgs
	if p.accept(op, "(") {
		call, err = p.call()
	}
	return fn, call, err
}

func applied(e expr, fn filter, call func(*run, *frame) (args, error)) expr {
	return node(func(r *run, f *frame) (value, error) {
		v, err := e(r, f)
		if err != nil {
			return nil, err
		}
		a, err := call(r, f)
		if err != nil {
			return nil, err
		}
		return fn(r, v, a)
	})
}
