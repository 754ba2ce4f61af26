package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A parser turns tokens into closures.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // number of enclosing for blocks
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

// accept consumes the next token if it has the given kind and text.
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

// enter limits the nesting of blocks and expressions. The caller must call leave.
func (p *parser) enter() error {
	if p.depth++; p.depth > MaxDepth {
		return fmt.Errorf("nests deeper than %d levels", MaxDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// body reads statements up to a block in inner, and returns the name of that block, which it consumes. At the end of
// the template stop is empty.
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

// A located error has the number of its line in the message.
type located struct{ error }

func (l located) Unwrap() error { return l.error }

// until reads a body that must end with one of the given blocks, and returns the name of the block.
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
