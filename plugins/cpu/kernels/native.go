//go:build amd64 || arm64

package kernels

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// Adapters for the generated routines. The routines take addresses and whole vectors, the fields of isa take slices of
// any length. The adapters check the bounds for the assembly: an index expression such as _ = c[n] is the last element
// that is read or written.

// gemmAsm is the signature of the generated gemm kernels.
type gemmAsm = func(k int, a, b, c *float32, ldc int, accumulate int, bias, residual *float32, ldr int)

func gemmOf(kernels []gemmAsm, nr int) func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias,
	residual []float32, ldr int) {
	return func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int) {
		if len(a) < rows*k || len(b) < nr*k {
			panic("BUG: gemm panel is short")
		}
		_ = c[(rows-1)*ldc+nr-1]
		acc := 0
		if accumulate {
			acc = 1
		}
		if bias != nil {
			_ = bias[nr-1]
		}
		if residual != nil {
			_ = residual[(rows-1)*ldr+nr-1]
		}
		kernels[rows-1](k, head(a), head(b), &c[0], ldc, acc, head(bias), head(residual), ldr)
	}
}

// rowsProductAsm is the signature of the generated kernels for rows as they are stored.
type rowsProductAsm = func(k int, a *float32, lda int, b, c *float32, ldc, panels, accumulate int, ahead uintptr,
	aheadStep, aheadRow int)

func rowsProductOf(mr, nr int, f rowsProductAsm) func(k int, a []float32, lda int, b, c []float32, ldc, panels int,
	accumulate bool, ahead rowsAhead) {
	return func(k int, a []float32, lda int, b, c []float32, ldc, panels int, accumulate bool, ahead rowsAhead) {
		_, _, _ = a[(mr-1)*lda+k-1], b[panels*nr*k-1], c[(mr-1)*ldc+panels*nr-1]
		acc := 0
		if accumulate {
			acc = 1
		}
		f(k, &a[0], lda, &b[0], &c[0], ldc, panels, acc, ahead.at, ahead.step, ahead.row)
	}
}

// head returns the address of the first element, nil if there is none.
func head(s []float32) *float32 {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// unaryOf turns a routine for whole vectors into one for any length. It computes the last elements in a padded vector
// by the same routine, so that the bits of a result do not depend on its position.
func unaryOf(lanes int, f func(dst, src *float32, blocks int)) func(dst, src []float32) {
	return func(dst, src []float32) { wholeVectors(lanes, dst, src, f) }
}

func wholeVectors(lanes int, dst, src []float32, f func(dst, src *float32, blocks int)) {
	dst = dst[:len(src)]
	n := len(src) / lanes
	if n > 0 {
		f(&dst[0], &src[0], n)
	}
	if rest := src[n*lanes:]; len(rest) > 0 {
		buf := vectors.take()
		copy(buf[:], rest)
		f(&buf[0], &buf[0], 1)
		copy(dst[n*lanes:], buf[:len(rest)])
		vectors.give(buf)
	}
}

// vectors are the buffers for padded vectors. A local variable would escape and be allocated at each call.
var vectors = freeVectors{make(chan *[16]float32, 64)}

// freeVectors holds the buffers that are not in use.
type freeVectors struct{ free chan *[16]float32 }

func (v freeVectors) take() *[16]float32 {
	select {
	case buf := <-v.free:
		return buf
	default:
		return new([16]float32)
	}
}

func (v freeVectors) give(buf *[16]float32) {
	select {
	case v.free <- buf:
	default:
	}
}

// angleOf is unaryOf for sine, cosine and tangent. Their routines stop before a vector that has an angle of angleLimit
// or more, which they cannot reduce, and return the number of vectors left. exact computes such angles.
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
			buf, n := vectors.take(), min(lanes, len(src))
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
			vectors.give(buf)
			dst, src = dst[n:], src[n:]
		}
	}
}

func transposeOf(lanes int, f func(dst *float32, ldd int, src *float32, lds int, rows int, blocks int)) func(
	[]float32, int, []float32, int, int, int) {
	return func(dst []float32, ldd int, src []float32, lds int, rows, cols int) {
		if cols == 0 || rows == 0 {
			return
		}
		_, _ = dst[(cols-1)*ldd+lanes-1], src[(rows-1)*lds+cols-1]
		f(&dst[0], ldd, &src[0], lds, rows, cols/lanes)
	}
}

func copyRowsOf(lanes int, f func(dst *float32, ldd int, src *float32, lds int, rows int)) func(
	[]float32, int, []float32, int, int) {
	return func(dst []float32, ldd int, src []float32, lds int, rows int) {
		if rows == 0 {
			return
		}
		_, _ = dst[(rows-1)*ldd+lanes-1], src[(rows-1)*lds+lanes-1]
		f(&dst[0], ldd, &src[0], lds, rows)
	}
}

func dotRowsOf(f func(dst *float32, inc int, mat *float32, ld int, rows int, x *float32, k int)) func(
	[]float32, int, []float32, int, int, []float32) {
	return func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32) {
		if rows == 0 {
			return
		}
		k := len(x)
		if k == 0 {
			for i := range rows {
				dst[i*inc] = 0
			}
			return
		}
		_, _ = dst[(rows-1)*inc], mat[(rows-1)*ld+k-1]
		f(&dst[0], inc, &mat[0], ld, rows, &x[0], k)
	}
}

// convertOf turns a routine for whole vectors into one for any length. The function one converts the last elements.
func convertOf[D, S any](lanes int, f func(dst *D, src *S, blocks int), one func(S) D) func([]D, []S) {
	return func(dst []D, src []S) {
		dst = dst[:len(src)]
		n := len(src) / lanes
		if n > 0 {
			f(&dst[0], &src[0], n)
		}
		for i := n * lanes; i < len(src); i++ {
			dst[i] = one(src[i])
		}
	}
}

func scoreMaxOf(nr int, f func(s *float32, keys int, scale float32, max *float32)) func([]float32, float32, []float32) {
	return func(s []float32, scale float32, max []float32) {
		_ = max[nr-1]
		if keys := len(s) / nr; keys > 0 {
			f(&s[0], keys, scale, &max[0])
		}
	}
}

func scoreBiasMaxOf(nr int, f func(s *float32, keys int, scale float32, row, each, max *float32)) func(
	[]float32, float32, []float32, []float32, []float32) {
	return func(s []float32, scale float32, row, each, max []float32) {
		_, _ = row[nr-1], max[nr-1]
		if keys := len(s) / nr; keys > 0 {
			_ = each[keys*nr-1]
			f(&s[0], keys, scale, &row[0], &each[0], &max[0])
		}
	}
}

func expSumOf(nr int, f func(s *float32, keys int, max, sum *float32)) func([]float32, []float32, []float32) {
	return func(s []float32, max, sum []float32) {
		_, _ = max[nr-1], sum[nr-1]
		if keys := len(s) / nr; keys > 0 {
			f(&s[0], keys, &max[0], &sum[0])
		}
	}
}

func scaleRowsOf(nr int, f func(x *float32, rows int, by *float32)) func([]float32, []float32) {
	return func(x, by []float32) {
		_ = by[nr-1]
		if rows := len(x) / nr; rows > 0 {
			f(&x[0], rows, &by[0])
		}
	}
}

func sumOf(lanes int, f func(x *float32, blocks int) float32) func([]float32) float32 {
	return func(x []float32) float32 {
		var s float32
		n := len(x) / lanes
		if n > 0 {
			s = f(&x[0], n)
		}
		for _, v := range x[n*lanes:] {
			s += v
		}
		return s
	}
}

func deviationsOf(lanes int, f func(x *float32, blocks int, mean float32, distance *float32) float32) func(
	[]float32, float32) (float32, float32) {
	return func(x []float32, mean float32) (distance, squares float32) {
		n := len(x) / lanes
		if n > 0 {
			squares = f(&x[0], n, mean, &distance)
		}
		for _, v := range x[n*lanes:] {
			distance += mean - v
			squares += (v - mean) * (v - mean)
		}
		return distance, squares
	}
}

func normalizeOf(lanes int, f func(dst, x, gamma, beta *float32, blocks int, mean, scale, shift float32)) func(
	dst, x, gamma, beta []float32, mean, scale, shift float32) {
	return func(dst, x, gamma, beta []float32, mean, scale, shift float32) {
		dst, gamma, beta = dst[:len(x)], gamma[:len(x)], beta[:len(x)]
		n := len(x) / lanes
		if n > 0 {
			f(&dst[0], &x[0], &gamma[0], &beta[0], n, mean, scale, shift)
		}
		for i := n * lanes; i < len(x); i++ {
			dst[i] = ((x[i]-mean)*scale+shift)*gamma[i] + beta[i]
		}
	}
}

// unaryRoutine is a generated routine of an elementwise function. One field is set.
type unaryRoutine struct {
	whole  func(dst, src *float32, blocks int)
	one    func(dst, src *float32, blocks int, a float32)    // with one parameter
	two    func(dst, src *float32, blocks int, a, b float32) // with two
	angles func(dst, src *float32, blocks int) (left int)    // see angleOf
}

// setElementwise gives a set its routines of elementwise functions, by their names, and loops in Go for all other
// functions.
func (s *isa) setElementwise(unary map[string]unaryRoutine, binary map[string]func(dst, a, b *float32, blocks int),
	compare map[string]func(dst *uint8, a, b *float32, blocks int),
	test map[string]func(dst *uint8, src *float32, blocks int),
	bits map[string]func(dst, a, b *uint8, blocks int), half map[string]func(dst, a, b *uint16, blocks int),
	mixed map[string]func(dst, a *uint16, b *float32, blocks int),
	rest map[string]func(dst, a, b *float32, n int)) *isa {
	s.setElementwiseInGo()
	for name, r := range unary {
		op, ok := ParseUnary(name)
		switch {
		case !ok:
			panic("BUG: " + s.name + " has a routine for " + name + ", which is not registered")
		case r.angles != nil:
			whole := angleOf(s.lanes, r.angles, func(x float64) float64 { return functions[op.id].f(x, params{}) })
			s.unary[op.id] = func(dst, src []float32, _ params) { whole(dst, src) }
		case r.one != nil:
			s.unary[op.id] = func(dst, src []float32, p params) {
				a := float32(p[0])
				wholeVectors(s.lanes, dst, src, func(dst, src *float32, blocks int) { r.one(dst, src, blocks, a) })
			}
		case r.two != nil:
			s.unary[op.id] = func(dst, src []float32, p params) {
				a, b := float32(p[0]), float32(p[1])
				wholeVectors(s.lanes, dst, src, func(dst, src *float32, blocks int) { r.two(dst, src, blocks, a, b) })
			}
		default:
			s.unary[op.id] = func(dst, src []float32, _ params) { wholeVectors(s.lanes, dst, src, r.whole) }
		}
		delete(s.slow, op)
	}
	for name, f := range binary {
		op, ok := ParseBinary(name)
		if !ok {
			panic("BUG: " + s.name + " has a routine for " + name + ", which is not registered")
		}
		last := s.binary[op]
		if r := rest[name]; r != nil {
			last = func(dst, a, b []float32) { r(&dst[0], &a[0], &b[0], len(a)) }
		}
		s.binary[op] = binaryOf(s.lanes, f, last)
		delete(s.slow, op)
	}
	for name, f := range compare {
		op, ok := ParseCompare(name)
		if !ok {
			panic("BUG: " + s.name + " has a routine for " + name + ", which is not a comparison")
		}
		s.compare[op] = compareOf(s.lanes, f, s.compare[op])
		delete(s.slow, op)
	}
	for name, f := range test {
		op, ok := ParsePredicate(name)
		if !ok {
			panic("BUG: " + s.name + " has a routine for " + name + ", which is not a predicate")
		}
		s.test[op] = testOf(s.lanes, f, s.test[op])
		delete(s.slow, op)
	}
	s.half = map[halfFunction]func(dst, a, b []uint16){}
	for name, f := range half {
		op, kind, _ := strings.Cut(name, "_")
		b, ok := ParseBinary(op)
		d, known := dtype.Parse(kind)
		if !ok || !known {
			panic("BUG: " + s.name + " has a routine for " + name + ", which is not a binary function and f16 or bf16")
		}
		s.half[halfFunction{b, d}] = binaryOf(s.lanes, f, halvesInGo(b, d))
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
				"BUG: " + s.name + " has a routine for " + name +
					", which is not a binary function of f32 and f16 or bf16")
		}
		m := mixedFunction{halfFunction{b, d}, swapped}
		s.halfMixed[m] = mixedOf(s.lanes, f, mixedInGo(m))
	}
	for op, name := range bitOps {
		s.bits[op] = binaryOf(4*s.lanes, bits[name], s.bits[op])
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

// mixedOf is binaryOf for functions of f16 or bf16, and f32.
func mixedOf(lanes int, f func(dst, a *uint16, b *float32, blocks int), rest func(dst, a []uint16, b []float32)) func(
	dst, a []uint16, b []float32) {
	return func(dst, a []uint16, b []float32) {
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
