package elementwise

// The routines of elementwise functions take operands of equal length. An operand that repeats one element along a row
// is first copied into a buffer of spread elements, so that each function needs only one routine.

const Spread = 256

// SpreadTo fills the first min(n, len(buf)) elements of buf with x and returns them.
func SpreadTo[T any](buf []T, x T, n int) []T {
	b := buf[:min(n, len(buf))]
	const first = 16
	for i := range b[:min(first, len(b))] {
		b[i] = x
	}
	for done := first; done < len(b); done *= 2 {
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
		a = SpreadTo(buf[:Spread], a[0], n)
	}
	if sb == 0 {
		b = SpreadTo(buf[Spread:], b[0], n)
	}
	for i := 0; i < n; i += Spread {
		m := min(Spread, n-i)
		f(i, a[i*sa:][:m], b[i*sb:][:m])
	}
}
