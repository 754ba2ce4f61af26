package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tuple reads one expression, or several with commas, which make a tuple.
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

// node wraps e to count each evaluation.
func node(e expr) expr {
	return func(r *run, f *frame) (value, error) {
		if err := r.step(); err != nil {
			return nil, err
		}
		return e(r, f)
	}
}

func constant(v value) expr { return node(func(*run, *frame) (value, error) { return v, nil }) }

// expression reads A if B else C.
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

// shortcut reads a chain of operands joined by or, or by and. The first operand whose truth equals decides gives the
// value.
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
		case t.kind == op && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, word), t.kind == name &&
			word == "in":
			p.at++
		case t.kind == name && word == "not" && p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == "in" &&
			p.tokens[p.at+1].kind == name:
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

// binary reads a chain of operators of equal precedence.
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
		if n > 10*MaxDepth { // evaluation recurses once for each operator
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
