//go:build amd64 || arm64

package elementwise

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// unaryRoutine is a generated routine of an elementwise function. One field is set.
type unaryRoutine struct {
	whole  func(dst, src *float32, blocks int)
	one    func(dst, src *float32, blocks int, a float32)    // with one parameter
	two    func(dst, src *float32, blocks int, a, b float32) // with two
	angles func(dst, src *float32, blocks int) (left int)    // see angleOf
}

// angleOf is product.unaryOf for sine, cosine and tangent. Their routines stop before a vector that has an angle of
// angleLimit or more, which they cannot reduce, and return the number of vectors left. exact computes such angles.
func angleOf(lanes int, f func(dst, src *float32, blocks int) (left int), exact func(float64) float64) func(
	dst, src []float32) {
	return func(dst, src []float32) {
		dst = dst[:len(src)]
		for len(src) > 0 {
			if n := len(src) / lanes; n > 0 {
				done := (n - f(&dst[0], &src[0], n)) * lanes
				if dst, src = dst[done:], src[done:]; len(src) == 0 {
					return
				}
			}
			buf, n := isa.TakeVector(), min(lanes, len(src))
			var large [16]bool
			for i, x := range src[:n] {
				if large[i] = x >= angleLimit || x <= -angleLimit; large[i] {
					x = 0
				}
				buf[i] = x
			}
			clear(buf[n:])
			f(&buf[0], &buf[0], 1)
			for i, x := range src[:n] {
				if large[i] {
					buf[i] = float32(exact(float64(x)))
				}
			}
			copy(dst[:n], buf[:])
			isa.GiveVector(buf)
			dst, src = dst[n:], src[n:]
		}
	}
}

// function returns the function op that has this routine for whole vectors.
func (r unaryRoutine) function(lanes int, op UnaryOp) func(dst, src []float32, p params) {
	switch {
	case r.angles != nil:
		whole := angleOf(lanes, r.angles, func(x float64) float64 { return functions[op.id].f(x, params{}) })
		return func(dst, src []float32, _ params) { whole(dst, src) }
	case r.one != nil:
		return func(dst, src []float32, p params) {
			a := float32(p[0])
			isa.WholeVectors(lanes, dst, src, func(dst, src *float32, blocks int) { r.one(dst, src, blocks, a) })
		}
	case r.two != nil:
		return func(dst, src []float32, p params) {
			a, b := float32(p[0]), float32(p[1])
			isa.WholeVectors(lanes, dst, src, func(dst, src *float32, blocks int) { r.two(dst, src, blocks, a, b) })
		}
	}
	return func(dst, src []float32, _ params) { isa.WholeVectors(lanes, dst, src, r.whole) }
}

// setElementwise gives a set its routines of elementwise functions, by their names, and loops in Go for all other
// functions.
func (s *Routines) setElementwise(set *isa.Set, unary map[string]unaryRoutine,
	binary map[string]func(dst, a, b *float32, blocks int),
	compare map[string]func(dst *uint8, a, b *float32, blocks int),
	test map[string]func(dst *uint8, src *float32, blocks int),
	bits map[string]func(dst, a, b *uint8, blocks int), half map[string]func(dst, a, b *uint16, blocks int),
	mixed map[string]func(dst, a *uint16, b *float32, blocks int),
	rest map[string]func(dst, a, b *float32, n int)) *Routines {
	s.setElementwiseInGo()
	for name, r := range unary {
		op, ok := ParseUnary(name)
		if !ok {
			panic("BUG: " + set.Name + " has a routine for " + name + ", which is not registered")
		}
		s.unary[op.id] = r.function(set.Lanes, op)
		delete(s.slow, op)
	}
	for name, f := range binary {
		op, ok := ParseBinary(name)
		if !ok {
			panic("BUG: " + set.Name + " has a routine for " + name + ", which is not registered")
		}
		last := inVector(set.Lanes, f)
		if r := rest[name]; r != nil {
			last = func(dst, a, b []float32) { r(&dst[0], &a[0], &b[0], len(a)) }
		}
		s.Binary[op] = binaryOf(set.Lanes, f, last)
		delete(s.slow, op)
	}
	for name, f := range compare {
		op, ok := ParseCompare(name)
		if !ok {
			panic("BUG: " + set.Name + " has a routine for " + name + ", which is not a comparison")
		}
		s.compare[op] = compareOf(set.Lanes, f, s.compare[op])
		delete(s.slow, op)
	}
	for name, f := range test {
		op, ok := ParsePredicate(name)
		if !ok {
			panic("BUG: " + set.Name + " has a routine for " + name + ", which is not a predicate")
		}
		s.test[op] = testOf(set.Lanes, f, s.test[op])
		delete(s.slow, op)
	}
	s.setHalf(set, half, mixed)
	for op, name := range bitOps {
		s.bits[op] = binaryOf(4*set.Lanes, bits[name], s.bits[op])
	}
	return s
}

// testOf is binaryOf for predicates.
func testOf(lanes int, f func(dst *uint8, src *float32, blocks int), rest func(dst []uint8, src []float32)) func(
	dst []uint8, src []float32) {
	return func(dst []uint8, src []float32) {
		dst = dst[:len(src)]
		n := len(src) / lanes
		if n > 0 {
			f(&dst[0], &src[0], n)
		}
		if n *= lanes; n < len(src) {
			rest(dst[n:], src[n:])
		}
	}
}

// binaryOf turns a routine for whole vectors into one for any length. rest computes the last elements.
func binaryOf[T any](lanes int, f func(dst, a, b *T, blocks int), rest func(dst, a, b []T)) func(dst, a, b []T) {
	return func(dst, a, b []T) {
		dst, b = dst[:len(a)], b[:len(a)]
		n := len(a) / lanes
		if n > 0 {
			f(&dst[0], &a[0], &b[0], n)
		}
		if n *= lanes; n < len(a) {
			rest(dst[n:], a[n:], b[n:])
		}
	}
}

// inVector computes the last elements of a row, fewer than a vector, by a routine for whole vectors. So their bits do not
// depend on whether they are the last ones: where both operands are NaN, a loop in Go may return the other one.
func inVector[T any](lanes int, f func(dst, a, b *T, blocks int)) func(dst, a, b []T) {
	return func(dst, a, b []T) {
		first, second := isa.TakeVector(), isa.TakeVector()
		x, y := padded(first, a, lanes), padded(second, b, lanes)
		f(&x[0], &x[0], &y[0], 1)
		copy(dst[:len(a)], x)
		isa.GiveVector(first)
		isa.GiveVector(second)
	}
}

// padded copies a to a vector of so many lanes, whose other elements repeat the last one.
func padded[T any](buf *[16]float32, a []T, lanes int) []T {
	x := pool.ElementsOf[T](pool.BytesOf(buf[:]))[:lanes]
	for i := copy(x, a); i < lanes; i++ {
		x[i] = a[len(a)-1]
	}
	return x
}

// mixedOf is binaryOf for functions of f16 or bf16, and f32.
func mixedOf(lanes int, f func(dst, a *uint16, b *float32, blocks int)) func(dst, a []uint16, b []float32) {
	return func(dst, a []uint16, b []float32) {
		dst, b = dst[:len(a)], b[:len(a)]
		n := len(a) / lanes
		if n > 0 {
			f(&dst[0], &a[0], &b[0], n)
		}
		if n *= lanes; n < len(a) {
			first, second := isa.TakeVector(), isa.TakeVector()
			x, y := padded(first, a[n:], lanes), padded(second, b[n:], lanes)
			f(&x[0], &x[0], &y[0], 1)
			copy(dst[n:], x)
			isa.GiveVector(first)
			isa.GiveVector(second)
		}
	}
}

// compareOf is binaryOf for comparisons.
func compareOf(lanes int, f func(dst *uint8, a, b *float32, blocks int), rest func(dst []uint8, a, b []float32)) func(
	dst []uint8, a, b []float32) {
	return func(dst []uint8, a, b []float32) {
		dst, b = dst[:len(a)], b[:len(a)]
		n := len(a) / lanes
		if n > 0 {
			f(&dst[0], &a[0], &b[0], n)
		}
		if n *= lanes; n < len(a) {
			rest(dst[n:], a[n:], b[n:])
		}
	}
}

func chooseOf(lanes int, f func(dst *float32, cond *uint8, t, f *float32, blocks int)) func(dst []float32, cond []uint8,
	t, f []float32) {
	return func(dst []float32, cond []uint8, yes, no []float32) {
		dst, yes, no = dst[:len(cond)], yes[:len(cond)], no[:len(cond)]
		n := len(cond) / lanes
		if n > 0 {
			f(&dst[0], &cond[0], &yes[0], &no[0], n)
		}
		if n *= lanes; n < len(cond) {
			chooseGeneric(dst[n:], cond[n:], yes[n:], no[n:])
		}
	}
}

// setHalf gives a set its routines of binary functions of half floats. Their names end with the operands' types.
func (s *Routines) setHalf(set *isa.Set, half map[string]func(dst, a, b *uint16, blocks int),
	mixed map[string]func(dst, a *uint16, b *float32, blocks int)) {
	s.half = map[halfFunction]func(dst, a, b []uint16){}
	for name, f := range half {
		op, kind, _ := strings.Cut(name, "_")
		b, ok := ParseBinary(op)
		d, known := dtype.Parse(kind)
		if !ok || !known {
			panic("BUG: " + set.Name + " has a routine for " + name +
				", which is not a binary function and f16 or bf16")
		}
		s.half[halfFunction{b, d}] = binaryOf(set.Lanes, f, inVector(set.Lanes, f))
	}
	s.halfMixed = map[mixedFunction]func(dst, a []uint16, b []float32){}
	for name, f := range mixed {
		op, types, _ := strings.Cut(name, "_")
		first, second, _ := strings.Cut(types, "_")
		swapped := first == dtype.F32.String()
		if swapped {
			first, second = second, first
		}
		b, ok := ParseBinary(op)
		d, known := dtype.Parse(first)
		if !ok || !known || second != dtype.F32.String() {
			panic(
				"BUG: " + set.Name + " has a routine for " + name +
					", which is not a binary function of f32 and f16 or bf16")
		}
		m := mixedFunction{halfFunction{b, d}, swapped}
		s.halfMixed[m] = mixedOf(set.Lanes, f)
	}
}
