package ir

import (
	"fmt"
	"strconv"
	"strings"
)

// String returns d as text, such as 7, N, 2*N+3, B*S or (N+7)/8. Equal dims have equal texts.
func (d Dim) String() string {
	if d.IsStatic() {
		return strconv.FormatInt(d.Const, 10)
	}
	return string(d.appendText(nil))
}

func (d Dim) appendText(b []byte) []byte {
	terms := d.terms()
	for i, t := range terms {
		if t.coef < 0 {
			b = append(b, '-')
		} else if i > 0 {
			b = append(b, '+')
		}
		alone := len(t.factors) == 1 && (i > 0 || t.coef > 0)
		if n := max(t.coef, -t.coef); n != 1 {
			b = append(strconv.AppendInt(b, n, 10), '*')
			alone = false
		}
		for k, f := range t.factors {
			if k > 0 {
				b = append(b, '*')
			}
			b = f.appendText(b, alone)
		}
	}
	if d.Const > 0 {
		b = append(b, '+')
	}
	if d.Const != 0 || len(terms) == 0 {
		b = strconv.AppendInt(b, d.Const, 10)
	}
	return b
}

// appendText appends a factor. A quotient that is not alone in its term is written in parentheses, as in 2*(N/8)
// and -(N/8), so that it is not mistaken for (2*N)/8 or (-N)/8.
func (f factor) appendText(b []byte, alone bool) []byte {
	if f.sym != "" {
		return append(b, f.sym...)
	}
	if !alone {
		b = append(b, '(')
	}
	if IsSymbol(f.num.String()) {
		b = f.num.appendText(b)
	} else {
		b = append(f.num.appendText(append(b, '(')), ')')
	}
	b = strconv.AppendInt(append(b, '/'), f.den, 10)
	if !alone {
		b = append(b, ')')
	}
	return b
}

// Limits of the text of a dim. The results of String are within them.
const (
	maxDimText   = 4096 // bytes
	maxDimParens = 16   // open at the same time
)

// ParseDim parses a sum of products, in the form of String but with terms in any order:
//
//	dim     = [ "-" ] product { ( "+" | "-" ) product } .
//	product = operand { "*" operand | "/" number } .
//	operand = number | symbol | "(" dim ")" .
//
// Divisors are positive, and divisions round down. Multiplication and division associate to the left.
func ParseDim(s string) (Dim, error) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Static(n), nil
	}
	if len(s) > maxDimText {
		return Dim{}, fmt.Errorf("dim %.40q...: %d bytes; at most %d", s, len(s), maxDimText)
	}
	p := dimParser{rest: s}
	d, err := p.dim()
	if err == nil && p.rest != "" {
		err = fmt.Errorf("%q is not expected", p.rest)
	}
	if err != nil {
		return Dim{},
			fmt.Errorf("dim %.80q: %w; want a number, or sums and products of symbols such as B*S, 2*N+3 or (N+7)/8", s,
				err)
	}
	return d, nil
}

// MustDim is ParseDim for literals in code. It panics if the text is not a dim.
func MustDim(text string) Dim {
	d, err := ParseDim(text)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return d
}

type dimParser struct {
	rest   string
	parens int
}

var errDimLimits = fmt.Errorf(
	"is beyond the limits: %d factors in all, %d in a product, divisions nested %d deep, numbers up to %d",
	MaxDimFactors, MaxDimDegree, MaxDimNesting, int64(MaxCoef))

// take consumes c if it is the next byte. It reports whether it did.
func (p *dimParser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *dimParser) dim() (Dim, error) {
	var terms []term
	for sign := int64(1); ; {
		if p.take('-') {
			sign = -1
		} else if len(terms) > 0 && !p.take('+') {
			break
		}
		d, err := p.product()
		if err != nil {
			return Dim{}, err
		}
		for _, t := range d.allTerms() {
			terms = append(terms, term{sign * t.coef, t.factors})
		}
		sign = 1
	}
	d, ok := made(0, terms)
	if !ok {
		return Dim{}, errDimLimits
	}
	return d, nil
}

func (p *dimParser) product() (Dim, error) {
	d, err := p.operand()
	for err == nil {
		ok := true
		switch {
		case p.take('*'):
			var e Dim
			if e, err = p.operand(); err == nil {
				d, ok = d.Mul(e)
			}
		case p.take('/'):
			var n int64
			if n, err = p.number(); err == nil {
				if n == 0 {
					return Dim{}, fmt.Errorf("divides by 0")
				}
				d, ok = d.FloorDiv(n)
			}
		default:
			return d, nil
		}
		if err == nil && !ok {
			err = errDimLimits
		}
	}
	return Dim{}, err
}

func (p *dimParser) operand() (Dim, error) {
	if p.take('(') {
		if p.parens++; p.parens > maxDimParens {
			return Dim{}, fmt.Errorf("more than %d parentheses are open at once", maxDimParens)
		}
		d, err := p.dim()
		if err == nil && !p.take(')') {
			err = fmt.Errorf("a parenthesis is not closed")
		}
		p.parens--
		return d, err
	}
	end := strings.IndexAny(p.rest, "+-*/()")
	if end < 0 {
		end = len(p.rest)
	}
	if name := p.rest[:end]; IsSymbol(name) {
		p.rest = p.rest[end:]
		return Named(name), nil
	}
	n, err := p.number()
	return Static(n), err
}

// number parses digits.
func (p *dimParser) number() (int64, error) {
	end := 0
	for end < len(p.rest) && p.rest[end] >= '0' && p.rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(p.rest[:end], 10, 64)
	if end == 0 {
		return 0, fmt.Errorf("%.40q is neither a number nor a symbol", p.rest)
	}
	if err != nil || n > MaxCoef {
		return 0, errDimLimits
	}
	p.rest = p.rest[end:]
	return n, nil
}

// IsSymbol reports whether s consists of letters, digits and _ and does not begin with a digit.
func IsSymbol(s string) bool {
	for i, c := range s {
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != "" && len(s) <= MaxSymbol
}

// MaxSymbol is the longest name of a symbol, in bytes.
const MaxSymbol = 64
