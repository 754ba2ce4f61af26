package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

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

// walk visits the indices of a shape in row-major order. For each list of strides it keeps the flat position. It calls
// visit with the number of the index and the positions, which visit must not keep.
func walk(shape []int, strides [][]int, visit func(i int, pos []int)) {
	total := tensor.Numel(shape)
	if total == 0 {
		return
	}
	shape, strides = merged(shape, strides)
	last := len(shape) - 1
	inner, idx, pos := shape[last], make([]int, last), make([]int, len(strides))
	for i := 0; i < total; i += inner {
		for j := range inner {
			visit(i+j, pos)
			for k, s := range strides {
				pos[k] += s[last]
			}
		}
		for k, s := range strides {
			pos[k] -= s[last] * inner
		}
		for a := last - 1; a >= 0; a-- {
			idx[a]++
			for k, s := range strides {
				pos[k] += s[a]
			}
			if idx[a] < shape[a] {
				break
			}
			for k, s := range strides {
				pos[k] -= s[a] * shape[a]
			}
			idx[a] = 0
		}
	}
}

// merged returns a shape with fewer axes, but at least one, over which walk visits the same positions in the same
// order: an axis is joined to the one before if all strides step over both as over one.
func merged(shape []int, strides [][]int) ([]int, [][]int) {
	dims, steps := []int{1}, make([][]int, len(strides))
	for k := range steps {
		steps[k] = []int{0}
	}
	for a, d := range shape {
		if d == 1 {
			continue
		}
		end := len(dims) - 1
		joins := true
		for k, s := range strides {
			joins = joins && steps[k][end] == s[a]*d
		}
		switch {
		case dims[end] == 1: // the first axis
			dims[end] = d
			for k, s := range strides {
				steps[k][end] = s[a]
			}
		case joins:
			dims[end] *= d
			for k, s := range strides {
				steps[k][end] = s[a]
			}
		default:
			dims = append(dims, d)
			for k, s := range strides {
				steps[k] = append(steps[k], s[a])
			}
		}
	}
	return dims, steps
}
