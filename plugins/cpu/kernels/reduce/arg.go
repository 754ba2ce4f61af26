package reduce

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Arg finds the index of the largest element along the middle axis of src [outer, n, inner], or of the smallest if
// least is set. Of equal elements it takes the first; NaN wins over all others. It stores indices [outer, inner] as
// elements of type index (i32, i64, u32 or f32).
func Arg[T float64 | elementwise.Integer](p *pool.Pool, least bool, indices []byte, index dtype.DType, src []T, outer,
	n, inner int) {
	checkArg(indices, index, len(src), outer, n, inner)
	if inner == 1 {
		pool.Split(p, outer, pool.RowGrain(n), argRows[T]{indices, index, src, n, least})
		return
	}
	splitArg(
		p, outer, n, inner, argColumns[T]{indices: indices, index: index, src: src, n: n, inner: inner, least: least})
}

// ArgFloats is Arg for f32, f16 and bf16.
func ArgFloats(p *pool.Pool, least bool, indices []byte, index dtype.DType, src stored.Values, outer, n, inner int) {
	checkArg(indices, index, src.Len(), outer, n, inner)
	if inner == 1 {
		g := argFloatRows{indices: indices, index: index, n: n}
		g.src, g.p, g.op = src, p, Max
		if least {
			g.op = Min
		}
		pool.Split(p, outer, pool.RowGrain(n), g)
		return
	}
	splitArg(
		p, outer, n, inner, argColumns[float32]{p: p, indices: indices, index: index, src: src.Floats, half: src, n: n,
			inner: inner, least: least})
}

func checkArg(indices []byte, index dtype.DType, src, outer, n, inner int) {
	if n < 1 || src < outer*n*inner || len(indices) < outer*inner*index.Size() {
		panic(fmt.Sprintf("BUG: arg: the best of %d in %d rows", n, outer*inner))
	}
}

func splitArg[T elementwise.Number](p *pool.Pool, outer, n, inner int, g argColumns[T]) {
	pool.Split(p, outer*g.strips(), pool.RowGrain(n*min(inner, argWidth)), g)
}

// argFloatRows first finds the block that has the best element, with vector routines, and then the element in it.
type argFloatRows struct {
	singles
	indices []byte
	index   dtype.DType
	n       int
}

func (g *argFloatRows) Do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	buf, lanes := g.src.Buffer(sc, min(g.n, Block)), sc.Floats(reduceLanes)
	for r := lo; r < hi; r++ {
		block := func(i int) []float32 { return g.src.Row(s, r*g.n+i, min(Block, g.n-i), buf) }
		at, best := 0, g.across(block(0), lanes)
		for i := Block; i < g.n && best == best; i += Block {
			if b := g.across(block(i), lanes); foldOne(g.op, best, b) != best {
				at, best = i, b
			}
		}
		for i, v := range block(at) {
			if float64(v) == best || v != v {
				layout.Indices{Bytes: g.indices, Index: g.index}.Put(r, at+i)
				break
			}
		}
	}
}

type argRows[T elementwise.Number] struct {
	indices []byte
	index   dtype.DType
	src     []T
	n       int
	least   bool
}

func (g *argRows[T]) Do(lo, hi, _ int) {
	for r := lo; r < hi; r++ {
		x, at := g.src[r*g.n:(r+1)*g.n], 0
		best := x[0]
		if g.least {
			for i, v := range x {
				if best == best && !(v >= best) {
					at, best = i, v
				}
			}
		} else {
			for i, v := range x {
				if best == best && !(v <= best) {
					at, best = i, v
				}
			}
		}
		layout.Indices{Bytes: g.indices, Index: g.index}.Put(r, at)
	}
}

const argWidth = 256 // columns of a strip

// argColumns goes down strips of columns. f16 and bf16 are read from half, other types from src.
type argColumns[T elementwise.Number] struct {
	p        *pool.Pool
	indices  []byte
	index    dtype.DType
	src      []T
	half     stored.Values
	n, inner int
	least    bool
}

func (g *argColumns[T]) strips() int { return (g.inner + argWidth - 1) / argWidth }

func (g *argColumns[T]) Do(lo, hi, worker int) {
	var best [argWidth]T
	var place [argWidth]int
	var buf []float32
	if len(g.half.Halves) > 0 {
		buf = g.p.Scratch(worker).Floats(argWidth)
	}
	for t := lo; t < hi; t++ {
		c := t % g.strips() * argWidth
		w, at := min(argWidth, g.inner-c), t/g.strips()*g.n*g.inner+c
		for j := range g.n {
			var x []T
			if buf == nil {
				x = g.src[at+j*g.inner:][:w]
			} else {
				x = any(g.half.Row(g.p.Set, at+j*g.inner, w, buf)).([]T)
			}
			switch {
			case j == 0:
				copy(best[:], x)
				clear(place[:w])
			case g.least:
				for i, v := range x {
					if b := best[i]; b == b && !(v >= b) {
						best[i], place[i] = v, j
					}
				}
			default:
				for i, v := range x {
					if b := best[i]; b == b && !(v <= b) {
						best[i], place[i] = v, j
					}
				}
			}
		}
		for i, k := range place[:w] {
			layout.Indices{Bytes: g.indices, Index: g.index}.Put(t/g.strips()*g.inner+c+i, k)
		}
	}
}
