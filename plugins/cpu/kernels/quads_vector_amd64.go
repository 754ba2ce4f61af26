package kernels

import "unsafe"

// Adapters of the routines for products of integers, see native.go.

type quadsAsm = func(k int, a, b, c *float32, ldc int)

func quadsOf(kernels []quadsAsm, nr int) func(rows, k int, a, b []float32, c []int32, ldc int, tmp []float32) {
	return func(rows, k int, a, b []float32, c []int32, ldc int, _ []float32) {
		if len(a) < rows*k || len(b) < nr*k {
			panic("BUG: integer panel is short")
		}
		_ = c[(rows-1)*ldc+nr-1]
		kernels[rows-1](k, head(a), head(b), (*float32)(unsafe.Pointer(&c[0])), ldc)
	}
}

// setHalves gives a set products of integers of 16 bits.
func (s *isa) setHalves(kernels []quadsAsm,
	requantize func(dst *uint8, acc, add *int32, mult *float32, blocks int, base int32, lo, hi float32, zero int32)) *isa {
	q := integerProduct{unit: 2, multiply: quadsOf(kernels, s.nr)}
	s.quads = [2]integerProduct{q, q}
	lanes := s.lanes
	s.requantize = func(dst []uint8, acc, add []int32, mult []float32, to *requantizing) {
		acc, add, mult = acc[:len(dst)], add[:len(dst)], mult[:len(dst)]
		n := len(dst) / lanes
		if n > 0 {
			requantize(&dst[0], &acc[0], &add[0], &mult[0], n, to.base, to.lo, to.hi, to.zero)
		}
		if n *= lanes; n < len(dst) {
			requantizeGeneric(dst[n:], acc[n:], add[n:], mult[n:], to)
		}
	}
	return s
}

// setQuads gives a set products of integers of 8 bits, by the operand that is unsigned.
func (s *isa) setQuads(left, right []quadsAsm) *isa {
	s.quads = [2]integerProduct{
		{unit: 4, leftUnsigned: true, multiply: quadsOf(left, s.nr)},
		{unit: 4, rightUnsigned: true, multiply: quadsOf(right, s.nr)},
	}
	return s
}
