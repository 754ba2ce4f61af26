package ir

import (
	"fmt"
	"strings"
)

// Equation says that a dim has a size in some run, such as that of an input's axis.
type Equation struct {
	Dim  Dim
	Size int64
	Of   string // where the size was seen, for errors: "input x"
}

// SizeError says which equation cannot hold.
type SizeError struct {
	Equation int // index, or -1: symbols do not follow from the equations
	Msg      string
}

func (e *SizeError) Error() string { return e.Msg }

// Solve finds the values of all symbols from the sizes seen in a run and from those that are given, in the ranges of the
// symbols. It solves, again and again, what has become linear in one unknown symbol: from 2*N+3 and a size of 11 follows
// that N is 4, and then from N*M and 12 that M is 3. Every equation is checked. Errors are *SizeError.
func (s Syms) Solve(given map[string]int64, eqs []Equation) (map[string]int64, error) {
	values, from := map[string]int64{}, map[string]string{}
	for name, v := range given {
		if x, ok := s.Find(name); !ok {
			return nil, &SizeError{-1, fmt.Sprintf("size %s is given, but there is no such symbol", name)}
		} else if v < x.Min || v > x.Max {
			return nil, &SizeError{-1, fmt.Sprintf("size %s is %d; allowed are %d to %d", name, v, x.Min, x.Max)}
		}
		values[name] = v
	}
	for progress := true; progress; {
		progress = false
		for i, q := range eqs {
			sym, a, b, ok := q.Dim.linear(values)
			if !ok {
				continue
			}
			x, _ := s.Find(sym)
			v := (q.Size - b) / a
			if (q.Size-b)%a != 0 || v < x.Min || v > x.Max {
				return nil, &SizeError{i, fmt.Sprintf("size %d of %v; allowed are %s from %d to %d", q.Size, q.Dim, sym, x.Min, x.Max)}
			}
			values[sym], from[sym], progress = v, q.Of, true
		}
	}
	for i, q := range eqs {
		if open := q.Dim.unknown(values); open != "" {
			return nil, &SizeError{-1, fmt.Sprintf("size %s does not follow from %v = %d (%s)", open, q.Dim, q.Size, q.Of)}
		}
		have := q.Dim.Eval(values)
		if have == q.Size {
			continue
		}
		syms := q.Dim.Symbols()
		if q.Dim.IsStatic() {
			return nil, &SizeError{i, fmt.Sprintf("size %d must be %d", q.Size, have)}
		}
		msg := fmt.Sprintf("%v is %d here and %d ", q.Dim, q.Size, have)
		if source := from[syms[0]]; len(syms) == 1 && q.Dim == Named(syms[0]) && source != "" {
			return nil, &SizeError{i, msg + "in " + source}
		}
		return nil, &SizeError{i, msg + "for " + describe(syms, values)}
	}
	for _, x := range s {
		if _, ok := values[x.Name]; !ok {
			return nil, &SizeError{-1, fmt.Sprintf("size %s does not follow from any input", x.Name)}
		}
	}
	return values, nil
}

// linear reports that d is a*sym + b under the given values, with sym the only symbol that has none.
func (d Dim) linear(values map[string]int64) (sym string, a, b int64, ok bool) {
	for _, t := range d.terms() {
		c, open := t.coef, false
		for _, f := range t.factors {
			if f.sym == "" && f.num.unknown(values) != "" {
				return "", 0, 0, false // a quotient is the same for several values
			}
			if v, known := values[f.sym]; known || f.sym == "" {
				if f.sym == "" {
					v = f.eval(values)
				}
				c *= v
				continue
			}
			if open || sym != "" && sym != f.sym {
				return "", 0, 0, false
			}
			sym, open = f.sym, true
		}
		if open {
			a += c
		} else {
			b += c
		}
	}
	return sym, a, b + d.B, a != 0
}

// unknown is a symbol of d without a value; empty: there is none.
func (d Dim) unknown(values map[string]int64) string {
	for _, name := range d.Symbols() {
		if _, ok := values[name]; !ok {
			return name
		}
	}
	return ""
}

// describe lists values of symbols: B = 2, S = 3.
func describe(syms []string, values map[string]int64) string {
	parts := make([]string, len(syms))
	for i, name := range syms {
		parts[i] = fmt.Sprintf("%s = %d", name, values[name])
	}
	return strings.Join(parts, ", ")
}
