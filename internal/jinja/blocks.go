package jinja

import (
	"errors"
	"fmt"
)

// blocks maps the name of a block to its parser, which is called after the name was read. It lacks the blocks in inner.
var blocks map[string]func(*parser) (stmt, error)

// inner lists the blocks that may occur only within others.
var inner = []string{"elif", "else", "endif", "endfor", "endset", "endmacro", "endfilter", "endgeneration", "endwith"}

func init() { // not in the declaration: these functions refer to the parser, which refers to blocks
	blocks = map[string]func(*parser) (stmt, error){
		"if": (*parser).ifBlock, "for": (*parser).forBlock, "set": (*parser).setBlock, "macro": (*parser).macroBlock,
		"filter": (*parser).filterBlock, "generation": (*parser).generationBlock,
		"break":    func(p *parser) (stmt, error) { return p.jump(breakLoop) },
		"continue": func(p *parser) (stmt, error) { return p.jump(nextIteration) },
	}
}

func (p *parser) closed(e expr, err error) (expr, error) {
	if err != nil {
		return nil, err
	}
	return e, p.want(end, "%}")
}

func (p *parser) jump(s signal) (stmt, error) {
	if p.loops == 0 {
		return nil, errors.New("break and continue belong into a for block")
	}
	return func(*run, *frame) (signal, error) { return s, nil }, p.want(end, "%}")
}

func (p *parser) ifBlock() (stmt, error) {
	type branch struct {
		cond expr
		body []stmt
	}
	var branches []branch
	for stop := "if"; stop != "endif"; {
		var b branch
		var err error
		if stop == "else" {
			b.cond = constant(true)
			err = p.want(end, "%}")
		} else {
			b.cond, err = p.closed(p.tuple())
		}
		if err != nil {
			return nil, err
		}
		allowed := []string{"elif", "else", "endif"}
		if stop == "else" {
			allowed = []string{"endif"}
		}
		if b.body, stop, err = p.until(allowed...); err != nil {
			return nil, err
		}
		branches = append(branches, b)
	}
	return func(r *run, f *frame) (signal, error) {
		for _, b := range branches {
			v, err := b.cond(r, f)
			if err != nil {
				return goOn, err
			}
			if truth(v) {
				return r.block(b.body, f)
			}
		}
		return goOn, nil
	}, p.want(end, "%}")
}

// targets reads the names that a for or set block assigns to.
func (p *parser) targets() ([]string, error) {
	paren := p.accept(op, "(")
	var out []string
	for {
		n, err := p.ident()
		if err != nil {
			return nil, err
		}
		out = append(out, n)
		if !p.accept(op, ",") {
			break
		}
	}
	if paren {
		return out, p.want(op, ")")
	}
	return out, nil
}

// assign assigns a value to a name, or the items of a value to several names.
func (r *run) assign(f *frame, names []string, v value) error {
	if err := r.made(32); err != nil {
		return err
	}
	if len(names) == 1 {
		f.vars[names[0]] = v
		return nil
	}
	items, err := r.items(v)
	if err != nil {
		return err
	}
	if len(items) != len(names) {
		return fmt.Errorf("%d values cannot be assigned to %d names", len(items), len(names))
	}
	for i, n := range names {
		f.vars[n] = items[i]
	}
	return nil
}

func (p *parser) forBlock() (stmt, error) {
	names, err := p.targets()
	if err == nil {
		err = p.want(name, "in")
	}
	if err != nil {
		return nil, err
	}
	over, err := p.or() // an if after it filters the loop
	if err != nil {
		return nil, err
	}
	for p.accept(op, ",") {
		return nil, errors.New("for over several values is not supported; write a list")
	}
	var cond expr
	if p.accept(name, "if") {
		if cond, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.accept(name, "recursive") {
		return nil, errors.New("a recursive for is not supported")
	}
	if err := p.want(end, "%}"); err != nil {
		return nil, err
	}
	p.loops++
	body, stop, err := p.until("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	var otherwise []stmt
	if stop == "else" {
		if err := p.want(end, "%}"); err != nil {
			return nil, err
		}
		if otherwise, _, err = p.until("endfor"); err != nil {
			return nil, err
		}
	}
	return func(r *run, f *frame) (signal, error) {
		v, err := over(r, f)
		if err != nil {
			return goOn, err
		}
		items, err := r.items(v)
		if err != nil {
			return goOn, err
		}
		if cond != nil {
			if items, err = r.where(items, func(v value) (bool, error) {
				inside := newFrame(f)
				if err := r.assign(inside, names, v); err != nil {
					return false, err
				}
				c, err := cond(r, inside)
				return truth(c), err
			}); err != nil {
				return goOn, err
			}
		}
		if len(items) == 0 {
			return r.block(otherwise, f)
		}
		for i, v := range items {
			if err := r.step(); err != nil {
				return goOn, err
			}
			inside := newFrame(f)
			if err := r.assign(inside, names, v); err != nil {
				return goOn, err
			}
			inside.vars["loop"] = &loop{i, items}
			sig, err := r.block(body, inside)
			if err != nil {
				return goOn, err
			}
			if sig == breakLoop {
				break
			}
		}
		return goOn, nil
	}, p.want(end, "%}")
}

// setBlock reads {% set NAME = VALUE %}, {% set NAMESPACE.NAME = VALUE %} or {% set NAME %}...{% endset %}.
func (p *parser) setBlock() (stmt, error) {
	names, err := p.targets()
	if err != nil {
		return nil, err
	}
	attr := ""
	if len(names) == 1 && p.accept(op, ".") {
		if attr, err = p.ident(); err != nil {
			return nil, err
		}
	}
	store := func(r *run, f *frame, v value) error {
		if attr == "" {
			return r.assign(f, names, v)
		}
		ns, ok := f.get(names[0]).(namespace)
		if !ok {
			return fmt.Errorf("%s is not a namespace, so its attributes cannot be set", names[0])
		}
		ns.set(attr, v)
		return r.made(64)
	}
	if p.accept(op, "=") {
		e, err := p.closed(p.tuple())
		return func(r *run, f *frame) (signal, error) {
			v, err := e(r, f)
			if err != nil {
				return goOn, err
			}
			return goOn, store(r, f, v)
		}, err
	}
	text, err := p.captured(false, "endset")
	return func(r *run, f *frame) (signal, error) {
		v, err := text(r, f)
		if err != nil {
			return goOn, err
		}
		return goOn, store(r, f, v)
	}, err
}

// captured reads filters up to the end of the tag, and a body up to the tag stop. It returns a function that applies
// the filters to the output of the body. With begun, the first filter has no | before it, as in {% filter upper %}.
func (p *parser) captured(begun bool, stop string) (func(r *run, f *frame) (value, error), error) {
	type use struct {
		fn   filter
		call func(*run, *frame) (args, error)
	}
	var uses []use
	for begun || p.accept(op, "|") {
		begun = false
		fn, call, err := p.filter()
		if err != nil {
			return nil, err
		}
		uses = append(uses, use{fn, call})
	}
	if err := p.want(end, "%}"); err != nil {
		return nil, err
	}
	body, _, err := p.until(stop)
	if err != nil {
		return nil, err
	}
	return func(r *run, f *frame) (value, error) {
		text, err := r.capture(func() error { _, err := r.block(body, newFrame(f)); return err })
		v := text
		for _, u := range uses {
			if err != nil {
				return nil, err
			}
			var a args
			if a, err = u.call(r, f); err == nil {
				v, err = u.fn(r, v, a)
			}
		}
		return v, err
	}, p.want(end, "%}")
}

func (p *parser) filterBlock() (stmt, error) {
	text, err := p.captured(true, "endfilter")
	return func(r *run, f *frame) (signal, error) {
		v, err := text(r, f)
		if err != nil {
			return goOn, err
		}
		s, err := r.show(v)
		if err != nil {
			return goOn, err
		}
		return goOn, r.write(s)
	}, err
}

// generationBlock reads the block around text that the model wrote. It matters only in training, so the body is
// rendered as it is.
func (p *parser) generationBlock() (stmt, error) {
	if err := p.want(end, "%}"); err != nil {
		return nil, err
	}
	body, _, err := p.until("endgeneration")
	if err != nil {
		return nil, err
	}
	return func(r *run, f *frame) (signal, error) { return r.block(body, newFrame(f)) }, p.want(end, "%}")
}

func (p *parser) macroBlock() (stmt, error) {
	title, err := p.ident()
	if err == nil {
		err = p.want(op, "(")
	}
	if err != nil {
		return nil, err
	}
	var names []string
	var defaults []expr
	for !p.accept(op, ")") {
		if len(names) > 0 {
			if err := p.want(op, ","); err != nil {
				return nil, err
			}
		}
		n, err := p.ident()
		if err != nil {
			return nil, err
		}
		var e expr
		if p.accept(op, "=") {
			if e, err = p.expression(); err != nil {
				return nil, err
			}
		}
		names, defaults = append(names, n), append(defaults, e)
	}
	if err := p.want(end, "%}"); err != nil {
		return nil, err
	}
	loops := p.loops
	p.loops = 0
	body, _, err := p.until("endmacro")
	p.loops = loops
	if err != nil {
		return nil, err
	}
	return func(r *run, f *frame) (signal, error) {
		f.vars[title] = function(func(r *run, a args) (value, error) {
			if r.calls++; r.calls > MaxCalls {
				return nil, fmt.Errorf("macro %s: macros call each other deeper than %d levels", title, MaxCalls)
			}
			defer func() { r.calls-- }()
			inside := newFrame(f)
			given := make([]value, len(names))
			into := make([]*value, len(names))
			for i := range given {
				given[i], into[i] = missing{}, &given[i]
			}
			if err := a.take(names, into...); err != nil {
				return nil, fmt.Errorf("macro %s %w", title, err)
			}
			for i, n := range names {
				if given[i] == (missing{}) {
					given[i] = undefined(n)
					if defaults[i] != nil {
						v, err := defaults[i](r, inside)
						if err != nil {
							return nil, err
						}
						given[i] = v
					}
				}
				inside.vars[n] = given[i]
			}
			return r.capture(func() error { _, err := r.block(body, inside); return err })
		})
		return goOn, nil
	}, p.want(end, "%}")
}

// missing stands for an argument that is not given.
type missing struct{}
