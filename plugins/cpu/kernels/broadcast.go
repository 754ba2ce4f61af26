package kernels

// grid is the iteration space of an elementwise operation over operands that broadcast: dims, outermost first, and for each
// operand its stride in every dim, 0 where it is repeated. Neighbouring dims are merged where all operands allow it.
type grid struct {
	dims    []int
	strides [][]int // [operand][dim]
}

// BroadcastShape is the common shape of operands by the rule of NumPy; ok is false if there is none.
func BroadcastShape(shapes ...[]int) (shape []int, ok bool) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	shape = make([]int, rank)
	for i := range shape {
		shape[i] = 1
	}
	for _, s := range shapes {
		for i, d := range s {
			o := &shape[rank-len(s)+i]
			switch {
			case *o == 1:
				*o = d
			case d != 1 && d != *o:
				return nil, false
			}
		}
	}
	return shape, true
}

// newGrid lays operands of the given shapes over shape, which they must broadcast to.
func newGrid(shape []int, operands ...[]int) *grid {
	g := &grid{strides: make([][]int, len(operands))}
	full := make([][]int, len(operands))
	for k, s := range operands {
		full[k] = make([]int, len(shape))
		stride := 1
		for i := len(s) - 1; i >= 0; i-- {
			at := len(shape) - len(s) + i
			if at < 0 || s[i] != 1 && s[i] != shape[at] {
				panic("BUG: operand does not broadcast")
			}
			if s[i] != 1 {
				full[k][at] = stride
			}
			stride *= s[i]
		}
	}
	for i, d := range shape {
		if d == 1 {
			continue
		}
		merge := len(g.dims) > 0
		for k := range full {
			if merge && g.strides[k][len(g.dims)-1] != full[k][i]*d {
				merge = false
			}
		}
		if merge {
			last := len(g.dims) - 1
			g.dims[last] *= d
			for k := range full {
				g.strides[k][last] = full[k][i]
			}
			continue
		}
		g.dims = append(g.dims, d)
		for k := range full {
			g.strides[k] = append(g.strides[k], full[k][i])
		}
	}
	if len(g.dims) == 0 {
		g.dims = []int{1}
		for k := range g.strides {
			g.strides[k] = []int{0}
		}
	}
	return g
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// rows calls f for the rows (runs along the last dim) in pieces of at most a grain: out is the position of the first element in
// the dense result, at the positions in the operands, n the elements. The slices are reused.
func (g *grid) rows(p *Pool, f func(out int, at []int, n, worker int)) {
	last := len(g.dims) - 1
	row := g.dims[last]
	total := product(g.dims)
	if total == 0 {
		return
	}
	p.split(total, elementGrain, func(lo, hi, worker int) {
		index := make([]int, last)
		at := make([]int, len(g.strides))
		for lo < hi {
			rest := lo / row
			for i := last - 1; i >= 0; i-- {
				index[i] = rest % g.dims[i]
				rest /= g.dims[i]
			}
			col := lo % row
			n := min(hi-lo, row-col)
			for k, s := range g.strides {
				at[k] = col * s[last]
				for i, x := range index {
					at[k] += x * s[i]
				}
			}
			f(lo, at, n, worker)
			lo += n
		}
	})
}

// step is the stride of an operand along the rows: 0 or, for dense operands, 1.
func (g *grid) step(operand int) int { return g.strides[operand][len(g.dims)-1] }
