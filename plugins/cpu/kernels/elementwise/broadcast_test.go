package elementwise

import (
	"slices"
	"testing"
)

// TestGrid compares the places of operands along the rows with those that NumPy's rules give to each element, for all
// pairs of some shapes. Many pairs have no common shape.
func TestGrid(t *testing.T) {
	shapes := [][]int{{}, {1}, {5}, {1, 1}, {1, 5}, {5, 1}, {3, 5}, {3, 1}, {1, 1, 1}, {2, 3, 5}, {2, 1, 5}, {2, 3, 1},
		{1, 3, 5}, {1, 5, 1}, {0}, {1, 0}, {0, 5}, {3, 0}}
	pairs := 0
	for _, a := range shapes {
		for _, b := range shapes {
			full, ok := BroadcastShape(a, b)
			g, n, made := newGrid(a, b)
			if made != ok || ok && n != Elements(full) {
				t.Errorf("%v and %v: a grid of %d elements (%v), want %v (%v)", a, b, n, made, full, ok)
			}
			if !ok {
				continue
			}
			pairs++
			for _, lo := range []int{0, 1, n / 2} {
				for _, hi := range []int{lo, n - 1, n} {
					at := lo
					g.rows(lo, hi, func(out int, from [operands]int, m int) {
						for i := range m {
							x, y := from[0]+i*g.step(0), from[1]+i*g.step(1)
							if out != at-i || x != place(a, full, at) || y != place(b, full, at) {
								t.Fatalf("%v and %v: element %d reads %d and %d", a, b, at, x, y)
							}
							at++
						}
					})
					if at != max(lo, hi) {
						t.Errorf("%v and %v: elements %d to %d of %d to %d", a, b, lo, at, lo, hi)
					}
				}
			}
		}
	}
	if pairs < 100 {
		t.Errorf("only %d pairs have a common shape", pairs)
	}
}

// place returns the element of an operand of a shape that element i of a result reads.
func place(shape, full []int, i int) (at int) {
	index := make([]int, len(full))
	for k, d := range slices.Backward(full) {
		index[k], i = i%d, i/d
	}
	for k, d := range shape {
		at *= d
		if d > 1 {
			at += index[len(full)-len(shape)+k]
		}
	}
	return at
}
