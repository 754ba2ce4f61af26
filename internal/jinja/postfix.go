package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// postfix reads attributes, items and calls after an expression.
func (p *parser) postfix(e expr) (expr, error) {
	for n := 0; ; n++ {
		if n > 10*MaxDepth {
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

// subscript reads INDEX] or START:STOP:STEP] after the opening bracket.
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

// call reads arguments after the opening parenthesis.
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
		if t := p.peek(); t.kind == name && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == op &&
			p.tokens[p.at+1].text == "=" {
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

// noArgs returns the arguments of a filter or test without parentheses.
func noArgs(*run, *frame) (args, error) { return args{}, nil }

// filtered reads filters and tests after an expression.
func (p *parser) filtered(e expr) (expr, error) {
	for n := 0; ; n++ {
		if n > 10*MaxDepth {
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
			} else if t := p.peek(); t.kind == str || t.kind == number || t.kind == name &&
				!slices.Contains([]string{"and", "or", "not", "in", "is", "if", "else"}, t.text) ||
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
		case p.accept(op, "("): // calls the result of the filter
			return nil, errors.New("calling the result of a filter is not supported")
		default:
			return e, nil
		}
	}
}

// word reads a name, including keywords: some, such as in, are also tests.
func (p *parser) word() (string, error) {
	t := p.next()
	if t.kind != name {
		return "", fmt.Errorf("found %s; want a name", t)
	}
	return t.text, nil
}

// filter reads a filter after |.
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
