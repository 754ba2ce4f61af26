package ir

import (
	"cmp"
	"math/bits"
	"slices"
	"unique"
)

// Limits of a dim. They bound the verifier's work for a hostile file. The dims of real models are far below them.
const (
	MaxDimFactors = 32      // factors of all products, including those inside numerators
	MaxDimDegree  = 8       // factors of one product; the number of elements of a tensor has at most MaxRank
	MaxDimNesting = 4       // divisions inside numerators of divisions
	MaxCoef       = 1 << 44 // magnitude of coefficients, constants and divisors
)

// Dim is the size of one dimension. It is an integer polynomial of symbols, such as B*S or 2*N+3, which may contain
// divisions that round down, such as (N+7)/8. It has a canonical form, so dims that were computed in different ways can
// be compared with ==. Still, dims that are written differently may be equal for all values, such as N and N/2+(N+1)/2.
//
// A static dim is an integer and needs no allocation.
type Dim struct {
	// Const is the constant term. It is the size if the dim is static.
	Const int64
	sum   unique.Handle[sum] // the other terms; zero if there are none
}

// sum is a list of terms in canonical order. Sums and products are interned, so equal ones have the same handle.
type sum struct {
	coef    int64
	product unique.Handle[product]
	rest    unique.Handle[sum] // zero at the end of the list
}

// product is a list of factors in canonical order.
type product struct {
	first factor
	rest  unique.Handle[product] // zero at the end of the list
}

// factor is a symbol, or the quotient num/den rounded down.
type factor struct {
	sym string // empty for a quotient
	num Dim
	den int64 // 2 or more
}

// term is a term of a dim under construction.
type term struct {
	coef    int64
	factors []factor // in canonical order
}

// Static returns the dim of a known size.
func Static(n int64) Dim { return Dim{Const: n} }

// Named returns the dim that is the symbol sym.
func Named(sym string) Dim {
	if !IsSymbol(sym) {
		panic("BUG: " + sym + " is not the name of a symbol")
	}
	return Dim{sum: intern([]term{{1, []factor{{sym: sym}}}})}
}

// IsStatic reports whether d has no symbol.
func (d Dim) IsStatic() bool { return d.sum == unique.Handle[sum]{} }

// Is reports whether d is static and has size n.
func (d Dim) Is(n int64) bool { return d == Dim{Const: n} }

// Add returns d + e. ok is false if the sum exceeds the limits of a dim.
func (d Dim) Add(e Dim) (Dim, bool) {
	if d.IsStatic() && e.IsStatic() {
		return small(satAdd(d.Const, e.Const))
	}
	return made(satAdd(d.Const, e.Const), append(d.terms(), e.terms()...))
}

// Sub returns d - e. ok is false if the difference exceeds the limits of a dim.
func (d Dim) Sub(e Dim) (Dim, bool) {
	minus, ok := e.Mul(Static(-1))
	if !ok {
		return Dim{}, false
	}
	return d.Add(minus)
}

// Mul returns d * e. ok is false if the product exceeds the limits of a dim.
func (d Dim) Mul(e Dim) (Dim, bool) {
	if d.IsStatic() && e.IsStatic() {
		return small(satMul(d.Const, e.Const))
	}
	x, y := d.allTerms(), e.allTerms()
	if len(x)*len(y) > 2*MaxDimFactors { // even if most of the products cancel
		return Dim{}, false
	}
	out := make([]term, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			out = append(out, term{satMul(a.coef, b.coef), merge(a.factors, b.factors)})
		}
	}
	return made(0, out)
}

// Div returns the dim q for which q * e is d. ok is false if there is no such dim.
func (d Dim) Div(e Dim) (q Dim, ok bool) {
	if e.IsStatic() && e.Const == 0 {
		return Dim{}, false
	}
	lead := e.allTerms()[0]
	for d != (Dim{}) {
		// Terms are ordered by degree and then lexically. Multiplying by a product keeps that order, so the first terms
		// of d and e must divide.
		t := d.allTerms()[0]
		rest, divides := without(t.factors, lead.factors)
		if !divides || t.coef%lead.coef != 0 {
			return Dim{}, false
		}
		part, ok := made(0, []term{{t.coef / lead.coef, rest}})
		if ok {
			q, ok = q.Add(part)
		}
		if ok {
			part, ok = part.Mul(e)
		}
		if ok {
			d, ok = d.Sub(part)
		}
		if !ok {
			return Dim{}, false
		}
	}
	return q, true
}

// FloorDiv returns d/n rounded down. ok is false if n is not positive or the quotient exceeds the limits of a dim.
func (d Dim) FloorDiv(n int64) (Dim, bool) {
	if n <= 0 || n > MaxCoef {
		return Dim{}, false
	}
	if d.IsStatic() {
		q, _ := floorDiv(d.Const, n)
		return small(q)
	}
	// Take multiples of n out of the quotient: (8*N+M+9)/8 is N+1 + (M+1)/8.
	whole, part := []term{}, []term{}
	g := n // divides n and all coefficients of part
	for _, t := range d.terms() {
		q, r := floorDiv(t.coef, n)
		whole = append(whole, term{q, t.factors})
		if r != 0 {
			part = append(part, term{r, t.factors})
			g = gcd(g, r)
		}
	}
	b, rest := floorDiv(d.Const, n)
	// (2*N+3)/4 is (N+1)/2, because the rest of the constant is smaller than the smallest step of the other terms.
	for i := range part {
		part[i].coef /= g
	}
	rest, n = rest/g, n/g
	if len(part) == 0 {
		return made(b, whole)
	}
	// (N/2+1)/3 is (N+2)/6.
	if x := part[0].factors[0]; len(part) == 1 && len(part[0].factors) == 1 && part[0].coef == 1 && x.sym == "" {
		num, ok := x.num.Add(Static(satMul(rest, x.den)))
		if n = satMul(n, x.den); !ok || n > MaxCoef {
			return Dim{}, false
		}
		q, ok := num.FloorDiv(n)
		if !ok {
			return Dim{}, false
		}
		return made(satAdd(b, q.Const), append(whole, q.terms()...))
	}
	num, ok := made(rest, part)
	if !ok {
		return Dim{}, false
	}
	return made(b, append(whole, term{1, []factor{{num: num, den: n}}}))
}

// CeilDiv returns d/n rounded up. ok is false if n is not positive or the quotient exceeds the limits of a dim.
func (d Dim) CeilDiv(n int64) (Dim, bool) {
	up, ok := d.Add(Static(n - 1))
	if !ok {
		return Dim{}, false
	}
	return up.FloorDiv(n)
}

// Eval returns the size for the given values of symbols. A missing symbol counts as 0. Eval does not overflow for
// values in the ranges of symbols that Syms.CheckType accepted.
func (d Dim) Eval(syms map[string]int64) int64 {
	n := d.Const
	for s := d.sum; s != (unique.Handle[sum]{}); {
		v := s.Value()
		x := v.coef
		for p := v.product; p != (unique.Handle[product]{}); {
			f := p.Value()
			x *= f.first.eval(syms)
			p = f.rest
		}
		n += x
		s = v.rest
	}
	return n
}

func (f factor) eval(syms map[string]int64) int64 {
	if f.sym != "" {
		return syms[f.sym]
	}
	q, _ := floorDiv(f.num.Eval(syms), f.den)
	return q
}

// Divisor returns a number that divides d for all values of its symbols: the greatest common divisor of its
// coefficients.
func (d Dim) Divisor() int64 {
	n := d.Const
	for _, t := range d.terms() {
		n = gcd(n, t.coef)
	}
	return max(n, -n)
}

// Symbols returns the distinct symbols of d, sorted by name.
func (d Dim) Symbols() []string {
	out := d.symbols(nil)
	slices.Sort(out)
	return slices.Compact(out)
}

func (d Dim) symbols(out []string) []string {
	for _, t := range d.terms() {
		for _, f := range t.factors {
			if f.sym != "" {
				out = append(out, f.sym)
			} else {
				out = f.num.symbols(out)
			}
		}
	}
	return out
}

// terms returns the terms that have a symbol.
func (d Dim) terms() []term {
	var out []term
	for s := d.sum; s != (unique.Handle[sum]{}); {
		v := s.Value()
		t := term{coef: v.coef}
		for p := v.product; p != (unique.Handle[product]{}); {
			f := p.Value()
			t.factors = append(t.factors, f.first)
			p = f.rest
		}
		out = append(out, t)
		s = v.rest
	}
	return out
}

// allTerms returns all terms, with the constant last. For the dim 0 it returns the constant 0.
func (d Dim) allTerms() []term {
	out := d.terms()
	if d.Const != 0 || len(out) == 0 {
		out = append(out, term{coef: d.Const})
	}
	return out
}

// small returns the static dim n. ok is false if n exceeds the limits.
func small(n int64) (Dim, bool) {
	if n > MaxCoef || n < -MaxCoef {
		return Dim{}, false
	}
	return Dim{Const: n}, true
}

// made returns the dim b + terms in canonical form. ok is false if it exceeds the limits of a dim.
func made(b int64, terms []term) (Dim, bool) {
	slices.SortStableFunc(terms, func(x, y term) int { return compareFactors(x.factors, y.factors) })
	out := terms[:0]
	for _, t := range terms {
		switch last := len(out) - 1; {
		case len(t.factors) == 0:
			b = satAdd(b, t.coef)
		case last >= 0 && compareFactors(out[last].factors, t.factors) == 0:
			out[last].coef = satAdd(out[last].coef, t.coef)
		default:
			if last >= 0 && out[last].coef == 0 {
				out = out[:last]
			}
			out = append(out, t)
		}
	}
	if last := len(out) - 1; last >= 0 && out[last].coef == 0 {
		out = out[:last]
	}
	if d, ok := small(b); len(out) == 0 || !ok {
		return d, ok
	}
	factors := 0
	for _, t := range out {
		if len(t.factors) > MaxDimDegree || t.coef > MaxCoef || t.coef < -MaxCoef {
			return Dim{}, false
		}
		for _, f := range t.factors {
			n, depth := f.measure()
			factors += n
			if depth > MaxDimNesting {
				return Dim{}, false
			}
		}
	}
	if factors > MaxDimFactors {
		return Dim{}, false
	}
	return Dim{b, intern(out)}, true
}

// measure returns the number of factors, including those in the numerator, and the depth of nested divisions.
func (f factor) measure() (factors, depth int) {
	if f.sym != "" {
		return 1, 0
	}
	factors = 1
	for _, t := range f.num.terms() {
		for _, x := range t.factors {
			n, d := x.measure()
			factors, depth = factors+n, max(depth, d)
		}
	}
	return factors, depth + 1
}

func intern(terms []term) (s unique.Handle[sum]) {
	for _, t := range slices.Backward(terms) {
		var p unique.Handle[product]
		for _, f := range slices.Backward(t.factors) {
			p = unique.Make(product{f, p})
		}
		s = unique.Make(sum{t.coef, p, s})
	}
	return s
}

// merge returns the product of two products.
func merge(a, b []factor) []factor {
	out := append(slices.Clone(a), b...)
	slices.SortStableFunc(out, compareFactor)
	return out
}

// without returns the quotient of two products. ok is false if b does not divide a.
func without(a, b []factor) (rest []factor, ok bool) {
	for _, f := range a {
		if len(b) > 0 && b[0] == f {
			b = b[1:]
		} else {
			rest = append(rest, f)
		}
	}
	return rest, len(b) == 0
}

// compareFactors orders products: those with more factors come first, then they are ordered lexically.
func compareFactors(a, b []factor) int {
	if c := cmp.Compare(len(b), len(a)); c != 0 {
		return c
	}
	return slices.CompareFunc(a, b, compareFactor)
}

// compareFactor orders symbols by name, and quotients after symbols.
func compareFactor(a, b factor) int {
	switch {
	case a == b:
		return 0
	case a.sym != "" && b.sym != "":
		return cmp.Compare(a.sym, b.sym)
	case a.sym != "":
		return -1
	case b.sym != "":
		return 1
	}
	return cmp.Or(cmp.Compare(a.den, b.den), compareDims(a.num, b.num))
}

// compareDims is a total order of dims. It depends only on their values.
func compareDims(a, b Dim) int {
	return cmp.Or(slices.CompareFunc(a.terms(), b.terms(), func(x, y term) int {
		return cmp.Or(compareFactors(x.factors, y.factors), cmp.Compare(x.coef, y.coef))
	}), cmp.Compare(a.Const, b.Const))
}

// floorDiv returns a/n rounded down, and the remainder from 0 to n-1.
func floorDiv(a, n int64) (q, r int64) {
	if q, r = a/n, a%n; r < 0 {
		q, r = q-1, r+n
	}
	return q, r
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

// unbounded stands for all magnitudes that are too large to compute with. It is far above all limits.
const unbounded = 1 << 62

// satAdd and satMul saturate at +-unbounded, so that numbers in a file cannot make a sum or product wrap.
func satAdd(a, b int64) int64 {
	if a >= 0 && b > unbounded-a {
		return unbounded
	}
	if a < 0 && b < -unbounded-a {
		return -unbounded
	}
	return max(min(a+b, unbounded), -unbounded)
}

func satMul(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	n := int64(unbounded)
	if hi == 0 && lo < unbounded {
		n = int64(lo)
	}
	if (a < 0) != (b < 0) {
		return -n
	}
	return n
}
