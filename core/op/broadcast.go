package op

import "github.com/rlx-go/rlx/core/ir"

// broadcast returns the shape to which operands of the given shapes are broadcast by NumPy's rule: shapes are aligned
// at the right, and dims must be equal or one of them 1. A dim with a symbol is never repeated, even if it is 1 in some
// run.
func broadcast(shapes ...ir.Shape) (ir.Shape, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make(ir.Shape, rank)
	for i := range out {
		out[i] = ir.Static(1)
		for _, s := range shapes {
			k := i - (rank - len(s))
			switch {
			case k < 0 || s[k].Is(1) || s[k] == out[i]:
			case out[i].Is(1):
				out[i] = s[k]
			default:
				return nil, ir.Differ(out[i], s[k], "shapes %v do not broadcast: sizes %v and %v of axis %d", shapes,
					out[i], s[k], i)
			}
		}
	}
	return out, nil
}

// strides returns the element strides of a dense tensor of shape in that is broadcast to out. They are 0 for repeated
// axes.
func strides(in, out []int) []int {
	s, n := make([]int, len(out)), 1
	for i := len(in) - 1; i >= 0; i-- {
		if k := len(out) - len(in) + i; in[i] != 1 {
			s[k] = n
		}
		n *= in[i]
	}
	return s
}
