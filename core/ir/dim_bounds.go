package ir

import (
	"fmt"
	"slices"
	"unique"
)

// Bounds returns a lower and an upper bound for d, with the symbols in their ranges. They are exact if d is monotone in
// each of its symbols, as in the sizes of models. For other dims, such as N*N-8*N, they may be wider; for N-(N+1)/2 and
// the like, by one. They saturate at 2^62.
func (s Syms) Bounds(d Dim) (lo, hi int64) {
	lo, hi, ok := s.growing(d)
	if ok {
		return lo, hi
	}
	r := ranges{}
	for _, name := range d.Symbols() {
		x, _ := s.Find(name)
		r[name] = interval{x.Min, x.Max}
	}
	low, high := r.corner(d, false), r.corner(d, true)
	lo, hi = low.of(d).lo, high.of(d).hi
	if !low.fixed() {
		lo = max(lo, s.linear(d, false))
	}
	if !high.fixed() {
		hi = min(hi, s.linear(d, true))
	}
	return lo, hi
}

// TooSmall is an op's error about a dim that is smaller than the op takes, for some sizes.
type TooSmall struct {
	Dim   Dim
	Least int64 // that the op takes
	Err   error
}

func (e *TooSmall) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *TooSmall) Unwrap() error { return e.Err }

// AtLeast returns a *TooSmall with that text if d may be smaller than least.
func (s Syms) AtLeast(d Dim, least int64, format string, args ...any) error {
	if lo, _ := s.Bounds(d); lo < least {
		return &TooSmall{d, least, fmt.Errorf(format, args...)}
	}
	return nil
}

// fixed reports whether each symbol has one value.
func (r ranges) fixed() bool {
	for _, x := range r {
		if x.lo != x.hi {
			return false
		}
	}
	return true
}

// linear returns a bound of d by what its quotients are at least, or at most: N/3 is from (N-2)/3, not rounded, to N/3.
// So the N of N-2*((N+2)/3) cancel out, which intervals of its terms do not know. Without quotients, or with products
// of them, it returns the largest bound.
func (s Syms) linear(d Dim, high bool) int64 {
	none := int64(-unbounded)
	if high {
		none = unbounded
	}
	den := int64(1) // a multiple of all divisors
	for _, t := range d.terms() {
		for _, f := range t.factors {
			if f.sym != "" {
				continue
			}
			if len(t.factors) > 1 || f.den > MaxCoef/den {
				return none
			}
			den *= f.den / gcd(f.den, den)
		}
	}
	if den == 1 {
		return none
	}
	all, ok := Static(d.Const).Mul(Static(den))
	for _, t := range d.terms() {
		part, by := Static(1), den
		for _, f := range t.factors {
			next := f.num
			if f.sym != "" {
				next = Named(f.sym)
			} else {
				by = den / f.den
				if t.coef > 0 != high {
					next.Const -= f.den - 1
				}
			}
			var fits bool
			part, fits = part.Mul(next)
			ok = ok && fits
		}
		scaled, fits := part.Mul(Static(satMul(t.coef, by)))
		sum, adds := all.Add(scaled)
		if ok = ok && fits && adds; !ok {
			return none
		}
		all = sum
	}
	lo, hi := s.Bounds(all)
	if high {
		q, _ := floorDiv(hi, den)
		return q
	}
	q, _ := floorDiv(satAdd(lo, den-1), den)
	return q
}

// growing returns the bounds of a dim that is increasing in each of its symbols, like nearly all dims of models: its
// sizes for the smallest and the largest symbols. It allocates nothing. ok is false if the signs of the coefficients do
// not prove that d is increasing.
func (s Syms) growing(d Dim) (lo, hi int64, ok bool) {
	for h := d.sum; h != (unique.Handle[sum]{}); {
		t := h.Value()
		if t.coef < 0 {
			return 0, 0, false
		}
		least, most := t.coef, t.coef
		for p := t.product; p != (unique.Handle[product]{}); {
			f := p.Value()
			a, b, ok := s.growingFactor(f.first)
			// A product of several factors may decrease if one of them is negative.
			if !ok || a < 0 && (p != t.product || f.rest != (unique.Handle[product]{})) {
				return 0, 0, false
			}
			least, most = satMul(least, a), satMul(most, b)
			p = f.rest
		}
		lo, hi = satAdd(lo, least), satAdd(hi, most)
		h = t.rest
	}
	return satAdd(lo, d.Const), satAdd(hi, d.Const), true
}

func (s Syms) growingFactor(f factor) (lo, hi int64, ok bool) {
	if f.sym != "" {
		x, _ := s.Find(f.sym)
		return x.Min, x.Max, x.Min >= 0 && x.Min <= x.Max
	}
	lo, hi, ok = s.growing(f.num)
	lo, _ = floorDiv(lo, f.den)
	hi, _ = floorDiv(hi, f.den)
	return lo, hi, ok
}

// Growing reports whether the bounds of d follow from the signs of its coefficients. Finding the bounds of other dims
// takes many times longer.
func (s Syms) Growing(d Dim) bool {
	_, _, ok := s.growing(d)
	return ok
}

// undeclared returns a symbol of d that s does not have, or "".
func (s Syms) undeclared(d Dim) string {
	for h := d.sum; h != (unique.Handle[sum]{}); h = h.Value().rest {
		for p := h.Value().product; p != (unique.Handle[product]{}); p = p.Value().rest {
			f := p.Value().first
			if f.sym == "" {
				if name := s.undeclared(f.num); name != "" {
					return name
				}
			} else if _, ok := s.Find(f.sym); !ok {
				return f.sym
			}
		}
	}
	return ""
}

// interval is a range of integers. Both ends are included.
type interval struct{ lo, hi int64 }

func (a interval) add(b interval) interval { return interval{satAdd(a.lo, b.lo), satAdd(a.hi, b.hi)} }

func (a interval) mul(b interval) interval {
	p, q, r, s := satMul(a.lo, b.lo), satMul(a.lo, b.hi), satMul(a.hi, b.lo), satMul(a.hi, b.hi)
	return interval{min(p, q, r, s), max(p, q, r, s)}
}

// ranges has the range of each symbol.
type ranges map[string]interval

// of returns an interval that contains all sizes of d, by interval arithmetic. It is exact if each symbol has only one
// value.
func (r ranges) of(d Dim) interval { return r.ofTerms(d.allTerms()) }

func (r ranges) ofTerms(terms []term) interval {
	sum := interval{}
	for _, t := range terms {
		x := interval{t.coef, t.coef}
		for _, f := range t.factors {
			x = x.mul(r.ofFactor(f))
		}
		sum = sum.add(x)
	}
	return sum
}

func (r ranges) ofFactor(f factor) interval {
	if f.sym != "" {
		return r[f.sym]
	}
	n := r.of(f.num)
	lo, _ := floorDiv(n.lo, f.den)
	hi, _ := floorDiv(n.hi, f.den)
	return interval{lo, hi}
}

// corner fixes symbols in which d is monotone: at the end of their range where d is largest if high is set, and
// otherwise where d is smallest. After that d may turn out to be monotone in other symbols, so corner repeats this.
func (r ranges) corner(d Dim, high bool) ranges {
	out := ranges{}
	for name, x := range r {
		out[name] = x
	}
	for range 2 {
		for _, name := range d.Symbols() {
			x := out[name]
			switch falls, grows := out.slope(d, name); {
			case falls && grows || x.lo == x.hi:
			case grows == high:
				out[name] = interval{x.hi, x.hi}
			default:
				out[name] = interval{x.lo, x.lo}
			}
		}
	}
	return out
}

// slope reports whether d may decrease and whether it may increase in symbol sym, by the signs of its partial
// derivatives. A quotient is constant or follows its numerator.
func (r ranges) slope(d Dim, sym string) (falls, grows bool) {
	terms := d.terms()
	var seen []factor
	for _, t := range terms {
		for _, f := range t.factors {
			if slices.Contains(seen, f) {
				continue
			}
			seen = append(seen, f)
			down, up := false, f.sym == sym
			if f.sym == "" {
				down, up = r.slope(f.num, sym)
			}
			if !down && !up {
				continue
			}
			by := r.ofTerms(derivative(terms, f))
			falls = falls || up && by.lo < 0 || down && by.hi > 0
			grows = grows || up && by.hi > 0 || down && by.lo < 0
		}
	}
	return falls, grows
}

// derivative returns the derivative of a sum of terms with respect to one of their factors.
func derivative(terms []term, by factor) []term {
	var out []term
	for _, t := range terms {
		power, rest := int64(0), []factor{}
		for _, f := range t.factors {
			if f == by {
				power++
			} else {
				rest = append(rest, f)
			}
		}
		for range power - 1 {
			rest = append(rest, by)
		}
		if power > 0 {
			out = append(out, term{satMul(power, t.coef), rest})
		}
	}
	return out
}

// magnitude returns a bound for every number that occurs when d is evaluated.
func (s Syms) magnitude(d Dim) int64 {
	n := max(d.Const, -d.Const)
	for h := d.sum; h != (unique.Handle[sum]{}); {
		t := h.Value()
		x := max(t.coef, -t.coef)
		for p := t.product; p != (unique.Handle[product]{}); {
			f := p.Value()
			size := int64(1)
			if f.first.sym != "" {
				v, _ := s.Find(f.first.sym)
				size = max(size, v.Max)
			} else if size = s.magnitude(f.first.num); size < unbounded {
				size = max(1, size/f.first.den+1)
			}
			x = satMul(x, size)
			p = f.rest
		}
		n = satAdd(n, x)
		h = t.rest
	}
	return n
}
