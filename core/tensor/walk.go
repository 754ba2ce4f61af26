package tensor

// Walk visits the indices of a shape in row-major order. For each list of strides it keeps the flat position. It calls
// visit with the number of the index and the positions, which visit must not keep.
func Walk(shape []int, strides [][]int, visit func(i int, pos []int)) {
	WalkRows(shape, strides, func(i, n int, pos, step []int) {
		for j := range n {
			visit(i+j, pos)
			for k, s := range step {
				pos[k] += s
			}
		}
		for k, s := range step {
			pos[k] -= s * n
		}
	})
}

// WalkRows is Walk for whole rows: visit gets the number of the first of n indices, its positions, and how far each
// position is from that of the next index. It must leave the positions as they are.
func WalkRows(shape []int, strides [][]int, visit func(i, n int, pos, step []int)) {
	total := Numel(shape)
	if total == 0 {
		return
	}
	shape, strides = merged(shape, strides)
	last := len(shape) - 1
	inner, idx, pos, step := shape[last], make([]int, last), make([]int, len(strides)), make([]int, len(strides))
	for k, s := range strides {
		step[k] = s[last]
	}
	for i := 0; i < total; i += inner {
		visit(i, inner, pos, step)
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

// merged returns a shape with fewer axes, but at least one, over which Walk visits the same positions in the same
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
