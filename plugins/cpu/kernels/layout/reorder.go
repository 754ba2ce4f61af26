package layout

import (
	"fmt"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Reordering says how Reorder moves the elements along an axis.
type Reordering struct {
	Flip  bool // reverse the axis
	Shift int  // move the element at i to i + Shift, modulo the size of the axis
}

// Reorder copies src, of the given shape, to dst, with the elements along axis i flipped or shifted as by[i] says.
func Reorder[T any](p *pool.Pool, dst, src []T, shape []int, by []Reordering) {
	n := elementwise.Elements(shape)
	if len(by) != len(shape) || len(dst) < n || len(src) < n {
		panic(fmt.Sprintf("BUG: %d axes of %v are moved", len(by), shape))
	}
	if n == 0 {
		return
	}
	g := reorder[T]{isa: p.Set, dst: dst, src: src, inner: 1}
	axes := len(shape)
	for axes > 0 && (by[axes-1] == Reordering{} || shape[axes-1] == 1) {
		axes--
		g.inner *= shape[axes]
	}
	if axes == 0 {
		pool.Split(p, n, pool.Grain, columns[T]{dst, src, n, n, 0, 0, n})
		return
	}
	for i, d := range shape[:axes] {
		g.by[i], g.shape[i] = by[i], d
		g.by[i].Shift = ((by[i].Shift % d) + d) % d
	}
	g.last = axes - 1
	row := shape[axes-1] * g.inner
	if g.inner >= 16 { // items are rows of inner elements, so that threads share one long axis
		g.last, row = axes, g.inner
		g.shape[axes], g.inner = row, 1
	}
	pool.Split(p, n/row, 1+pool.Grain/row, g)
}

type reorder[T any] struct {
	isa         *isa.Set
	dst, src    []T
	inner, last int // elements that stay contiguous; the innermost axis that moves
	shape       [elementwise.MaxRank]int
	by          [elementwise.MaxRank]Reordering
}

// from returns the source index of element i of an axis of n elements.
func (r Reordering) from(i, n int) int {
	if r.Flip {
		i = n - 1 - i
	}
	if i -= r.Shift; i < 0 {
		i += n
	}
	return i
}

func (g *reorder[T]) Do(lo, hi, _ int) {
	n, last := g.shape[g.last], g.by[g.last]
	row := n * g.inner
	for t := lo; t < hi; t++ {
		at, rest, stride := 0, t, row
		for axis := g.last - 1; axis >= 0; axis-- {
			d := g.shape[axis]
			at += g.by[axis].from(rest%d, d) * stride
			rest /= d
			stride *= d
		}
		dst, src := g.dst[t*row:(t+1)*row], g.src[at:at+row]
		switch {
		case !last.Flip:
			cut := last.Shift * g.inner
			copy(dst[:cut], src[row-cut:])
			copy(dst[cut:], src)
		case g.inner == 1:
			if to, ok := any(dst).([]float32); ok {
				vec.On(g.isa).Reverse(to, any(src).([]float32))
			} else {
				vec.ReverseInGo(dst, src)
			}
		default:
			for i := range n {
				copy(dst[i*g.inner:(i+1)*g.inner], src[(n-1-i)*g.inner:])
			}
		}
	}
}
