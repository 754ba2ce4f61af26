package elementwise

import "slices"

const (
	MaxRank  = 8 // maximum number of axes of a tensor, as in core/ir
	operands = 3 // maximum number of operands of an elementwise operation
)

// grid is the iteration space of an elementwise operation with broadcast: its dims, outermost first, and the stride of
// each operand in each dim, 0 if the operand is repeated along it. Adjacent dims are merged if the strides of all
// operands allow it.
type grid struct {
	rank    int // at least 1
	dims    [MaxRank]int
	strides [operands][MaxRank]int
}

// BroadcastShape returns the common shape of operands by NumPy's rules. ok is false if they have no common shape.
func BroadcastShape(shapes ...[]int) (shape []int, ok bool) {
	var full [MaxRank]int
	rank, ok := broadcast(&full, shapes...)
	return append(shape, full[:rank]...), ok
}

// broadcast is BroadcastShape without an allocation: it stores the result in shape.
func broadcast(shape *[MaxRank]int, shapes ...[]int) (rank int, ok bool) {
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	for i := range rank {
		shape[i] = 1
	}
	for _, s := range shapes {
		for i, d := range s {
			o := &shape[rank-len(s)+i]
			switch {
			case *o == 1:
				*o = d
			case d != 1 && d != *o:
				return rank, false
			}
		}
	}
	return rank, true
}

// newGrid returns the grid of operands of the given shapes, and the number n of elements of their common shape. ok is
// false if there is no common shape.
func newGrid(shapes ...[]int) (g grid, n int, ok bool) {
	if n, ok = g.flat(shapes); ok {
		return g, n, true
	}
	var shape [MaxRank]int
	rank, ok := broadcast(&shape, shapes...)
	if !ok {
		return g, 0, false
	}
	var full [operands][MaxRank]int
	for k, s := range shapes {
		stride := 1
		for i := len(s) - 1; i >= 0; i-- {
			if s[i] != 1 {
				full[k][rank-len(s)+i] = stride
			}
			stride *= s[i]
		}
	}
	for i, d := range shape[:rank] {
		if d == 1 {
			continue
		}
		last := g.rank - 1
		merge := last >= 0
		for k := range shapes {
			merge = merge && g.strides[k][last] == full[k][i]*d
		}
		if merge {
			g.dims[last] *= d
		} else {
			last++
			g.dims[last] = d
			g.rank++
		}
		for k := range shapes {
			g.strides[k][last] = full[k][i]
		}
	}
	if g.rank == 0 {
		g.rank, g.dims[0] = 1, 1
	}
	return g, Elements(shape[:rank]), true
}

// flat makes the grid of operands that have all the same shape or one element, with which most steps of small models
// spend less time than newGrid takes otherwise. ok is false for other operands. n is the number of elements.
func (g *grid) flat(shapes [][]int) (n int, ok bool) {
	full := shapes[0]
	for _, s := range shapes[1:] {
		if len(s) > len(full) || len(s) == len(full) && Elements(full) == 1 {
			full = s
		}
	}
	n = Elements(full)
	for k, s := range shapes {
		switch {
		case slices.Equal(s, full):
			g.strides[k][0] = 1
		case Elements(s) != 1:
			return 0, false
		}
	}
	if n == 1 { // as newGrid has it
		g.strides = [operands][MaxRank]int{}
	}
	g.rank, g.dims[0] = 1, n
	return n, true
}

func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// rows divides elements [lo, hi) of the dense result at the ends of rows, and calls f for each piece of n elements. out
// is the index of its first element in the result, at the indices in the operands.
func (g *grid) rows(lo, hi int, f func(out int, at [operands]int, n int)) {
	last := g.rank - 1
	row := g.dims[last]
	if lo >= hi {
		return
	}
	if last == 0 {
		f(lo, [operands]int{lo * g.strides[0][0], lo * g.strides[1][0], lo * g.strides[2][0]}, hi-lo)
		return
	}
	col, rest := lo%row, lo/row
	var index [MaxRank]int // of the row
	var first [operands]int
	for i := last - 1; i >= 0; i-- {
		index[i] = rest % g.dims[i]
		rest /= g.dims[i]
		for k := range first {
			first[k] += index[i] * g.strides[k][i]
		}
	}
	for {
		at := first
		if col > 0 {
			for k := range at {
				at[k] += col * g.strides[k][last]
			}
		}
		n := min(hi-lo, row-col)
		f(lo, at, n)
		if lo += n; lo >= hi {
			return
		}
		col = 0
		for i := last - 1; i >= 0; i-- { // the next row, without divisions, which take longer than a short row
			if index[i]++; index[i] < g.dims[i] {
				for k := range first {
					first[k] += g.strides[k][i]
				}
				break
			}
			for k := range first {
				first[k] -= (g.dims[i] - 1) * g.strides[k][i]
			}
			index[i] = 0
		}
	}
}

// step returns the stride of an operand along the rows: 1, or 0 if it is repeated.
func (g *grid) step(operand int) int { return g.strides[operand][g.rank-1] }

// A call for a row costs about as much as shortRow elements.
const shortRow = 128

// eachRow returns the operand that repeats an element along each row, if there are two operands of m and n elements
// and the other one is dense. Otherwise it returns -1.
func (g *grid) eachRow(m, n int) int {
	size := Elements(g.dims[:g.rank])
	switch {
	case g.rank < 2:
		return -1
	case g.step(0) == 0 && g.step(1) == 1 && n == size:
		return 0
	case g.step(1) == 0 && g.step(0) == 1 && m == size:
		return 1
	}
	return -1
}

// sameRow returns the operand that repeats one short row along the axis before the last, if there are two operands of m
// and n elements and the other one is dense. Otherwise it returns -1.
func (g *grid) sameRow(m, n int) int {
	size := Elements(g.dims[:g.rank])
	switch {
	case !g.short() || g.step(0) == 0 || g.step(1) == 0:
		return -1
	case g.strides[0][g.rank-2] == 0 && n == size:
		return 0
	case g.strides[1][g.rank-2] == 0 && m == size:
		return 1
	}
	return -1
}

// shortRows is eachRow if rows are short; otherwise it returns -1.
func (g *grid) shortRows(m, n int) int {
	if !g.short() {
		return -1
	}
	return g.eachRow(m, n)
}

// short reports whether rows are so short that operands are spread instead of computed row by row.
func (g *grid) short() bool { return g.rank > 1 && g.dims[g.rank-1] <= shortRow }

// spreadRows sets dst to the elements of operand k, which src holds, for elements of the result from lo on. The rank is
// at least 2.
func (g *grid) spreadRows(dst, src []float32, k, lo int) {
	last := g.rank - 1
	row, rows, step, down := g.dims[last], g.dims[last-1], g.step(k), g.strides[k][last-1]
	col, first := lo%row, lo/row%rows
	for rest := lo / row / rows; len(dst) > 0; rest++ {
		at := first * down
		for i, r := last-2, rest; i >= 0; i-- {
			at += r % g.dims[i] * g.strides[k][i]
			r /= g.dims[i]
		}
		for ; first < rows && len(dst) > 0; first++ {
			n := min(row-col, len(dst))
			if to := dst[:n]; step == 0 {
				v := src[at]
				for i := range to {
					to[i] = v
				}
			} else {
				for i, v := range src[at+col:][:n] {
					to[i] = v
				}
			}
			dst, col = dst[n:], 0
			at += down
		}
		first = 0
	}
}

func Volume(size [3]int) int { return size[0] * size[1] * size[2] }
