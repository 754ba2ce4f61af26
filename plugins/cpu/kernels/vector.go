package kernels

// The routines of elementwise functions take operands of equal length. An operand that repeats one element along a row
// is first copied into a buffer of spread elements, so that each function needs only one routine.

const spread = 256

// spreadTo fills the first min(n, len(buf)) elements of buf with x and returns them.
func spreadTo[T any](buf []T, x T, n int) []T {
	b := buf[:min(n, len(buf))]
	if len(b) > 0 {
		b[0] = x
	}
	for done := 1; done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
	return b
}

// pieces calls f for pieces of a row of n elements, with the elements of both operands from i on as slices of equal
// length. The steps sa and sb are 1, or 0 if the operand repeats its first element. buf has 2*spread elements.
func pieces[T any](n int, a, b []T, sa, sb int, buf []T, f func(i int, a, b []T)) {
	if sa == 1 && sb == 1 {
		f(0, a[:n], b[:n])
		return
	}
	if sa == 0 {
		a = spreadTo(buf[:spread], a[0], n)
	}
	if sb == 0 {
		b = spreadTo(buf[spread:], b[0], n)
	}
	for i := 0; i < n; i += spread {
		m := min(spread, n-i)
		f(i, a[i*sa:][:m], b[i*sb:][:m])
	}
}

// setElementwiseInGo gives a set loops in Go for all elementwise functions. Sets with routines keep them for the last
// elements of a row, which do not fill a vector.
func (s *isa) setElementwiseInGo() {
	s.unary, s.slow, s.bits = unaryInGo(), map[any]bool{}, bitsInGo()
	for id := range s.unary {
		s.slow[UnaryOp{id: uint8(id)}] = true
	}
	s.binary = make([]func(dst, a, b []float32), len(binaries))
	for op, f := range binaries {
		if f.f == nil {
			continue
		}
		s.binary[op] = func(dst, a, b []float32) { binaryRow(BinaryOp(op), dst, a, b, 1, 1) }
		s.slow[BinaryOp(op)] = true
	}
	for op := range s.test {
		s.test[op] = testLoop[float32](Predicate(op))
		s.slow[Predicate(op)] = true
	}
	for op := range s.compare {
		s.compare[op] = func(dst []uint8, a, b []float32) { compareRow(CompareOp(op), dst, a, b, 1, 1) }
		s.slow[CompareOp(op)] = true
	}
}

func chooseGeneric(dst []float32, cond []uint8, t, f []float32) { whereRow(dst, cond, t, f, 1, 1, 1) }
