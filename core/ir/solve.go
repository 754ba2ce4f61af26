package ir

import (
	"fmt"
	"strings"
)

// Equation says that a dim has a certain size in a run, for example because an input has that size along an axis.
type Equation struct {
	Dim  Dim
	Size int64
	Of   string // the source of the size, for errors, such as "input x"
}

// SizeError says which equation cannot hold.
type SizeError struct {
	Equation int // index of the equation, or -1 if the equations do not determine all symbols
	Msg      string
}

func (e *SizeError) Error() string { return e.Msg }

// Solve returns the values of all symbols in their ranges, from the given values and the equations. It repeatedly
// solves equations that have become linear in a single unknown symbol. For example, N is 4 if 2*N+3 is 11, and then M
// is 3 if N*M is 12. All equations are checked. Errors are
// *SizeError.
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
				return nil,
					&SizeError{
						i, fmt.Sprintf("size %d of %v; allowed are %s from %d to %d", q.Size, q.Dim, sym, x.Min, x.Max)}
			}
			values[sym], from[sym], progress = v, q.Of, true
		}
	}
	for i, q := range eqs {
		if open := q.Dim.unknown(values); open != "" {
			return nil,
				&SizeError{-1, fmt.Sprintf("size %s does not follow from %v = %d (%s)", open, q.Dim, q.Size, q.Of)}
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

// linear reports whether d is a*sym + b for the given values, where sym is the only symbol without a value.
func (d Dim) linear(values map[string]int64) (sym string, a, b int64, ok bool) {
	for _, t := range d.terms() {
		c, open := t.coef, false
		for _, f := range t.factors {
			if f.sym == "" && f.num.unknown(values) != "" {
				return "", 0, 0, false // several values of the symbol give the same quotient
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
	return sym, a, b + d.Const, a != 0
}

// unknown returns a symbol of d without a value, or "".
func (d Dim) unknown(values map[string]int64) string {
	for _, name := range d.Symbols() {
		if _, ok := values[name]; !ok {
			return name
		}
	}
	return ""
}

// describe returns the values of symbols as text, such as B = 2, S = 3.
func describe(syms []string, values map[string]int64) string {
	parts := make([]string, len(syms))
	for i, name := range syms {
		parts[i] = fmt.Sprintf("%s = %d", name, values[name])
	}
	return strings.Join(parts, ", ")
}
