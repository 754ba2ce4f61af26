package reduce

import "github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"

// folding describes a reduction: an accumulator of type A begins with start, step adds an element, and end makes the
// result of n elements.
type folding[T, A elementwise.Number] struct {
	start A
	step  func(a A, x T) A
	end   func(a A, n int) T
}

func reduction[T, A elementwise.Number](op Op) folding[T, A] {
	f := folding[T, A]{end: func(a A, _ int) T { return T(a) }}
	switch op {
	case Sum:
		f.step = func(a A, x T) A { return a + A(x) }
	case Mean:
		f.step = func(a A, x T) A { return a + A(x) }
		f.end = func(a A, n int) T { return T(a / A(n)) }
	case Prod:
		f.start = 1
		f.step = func(a A, x T) A { return a * A(x) }
	case Max:
		f.start = A(elementwise.Lowest[T]())
		f.step = func(a A, x T) A {
			if y := A(x); y > a || y != y {
				return y
			}
			return a
		}
	case Min:
		f.start = A(elementwise.Highest[T]())
		f.step = func(a A, x T) A {
			if y := A(x); y < a || y != y {
				return y
			}
			return a
		}
	}
	return f
}
