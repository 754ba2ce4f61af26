package kernels

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
)

// Arg finds the index of the largest element along the middle axis of src [outer, n, inner], or of the smallest if
// least is set. Of equal elements it takes the first; NaN wins over all others. It stores indices [outer, inner] as
// elements of type index (i32, i64, u32 or f32).
func Arg[T float64 | Integer](p *Pool, least bool, indices []byte, index dtype.DType, src []T, outer, n, inner int) {
	checkArg(indices, index, len(src), outer, n, inner)
	if inner == 1 {
		split(p, outer, rowGrain(n), argRows[T]{indices, index, src, n, least})
		return
	}
	splitArg(
		p, outer, n, inner, argColumns[T]{indices: indices, index: index, src: src, n: n, inner: inner, least: least})
}

// ArgFloats is Arg for f32, f16 and bf16.
func ArgFloats(p *Pool, least bool, indices []byte, index dtype.DType, src Weights, outer, n, inner int) {
	checkArg(indices, index, src.Len(), outer, n, inner)
	if inner == 1 {
		g := argFloatRows{indices: indices, index: index, n: n}
		g.src, g.p, g.op = src, p, ReduceMax
		if least {
			g.op = ReduceMin
		}
		split(p, outer, rowGrain(n), g)
		return
	}
	splitArg(
		p, outer, n, inner, argColumns[float32]{p: p, indices: indices, index: index, src: src.f32, half: src, n: n,
			inner: inner, least: least})
}

func checkArg(indices []byte, index dtype.DType, src, outer, n, inner int) {
	if n < 1 || src < outer*n*inner || len(indices) < outer*inner*index.Size() {
		panic(fmt.Sprintf("BUG: arg: the best of %d in %d rows", n, outer*inner))
	}
}

func splitArg[T Number](p *Pool, outer, n, inner int, g argColumns[T]) {
	split(p, outer*g.strips(), rowGrain(n*min(inner, argWidth)), g)
}

// argFloatRows first finds the block that has the best element, with vector routines, and then the element in it.
type argFloatRows struct {
	singles
	indices []byte
	index   dtype.DType
	n       int
}

func (g *argFloatRows) do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.scratch(worker)
	buf, lanes := g.src.buffer(sc, min(g.n, reduceBlock)), sc.floats(reduceLanes)
	for r := lo; r < hi; r++ {
		block := func(i int) []float32 { return g.src.row(s, r*g.n+i, min(reduceBlock, g.n-i), buf) }
		at, best := 0, g.across(block(0), lanes)
		for i := reduceBlock; i < g.n && best == best; i += reduceBlock {
			if b := g.across(block(i), lanes); foldOne(g.op, best, b) != best {
				at, best = i, b
			}
		}
		for i, v := range block(at) {
			if float64(v) == best || v != v {
				indexSlice{g.indices, g.index}.put(r, at+i)
				break
			}
		}
	}
}

type argRows[T Number] struct {
	indices []byte
	index   dtype.DType
	src     []T
	n       int
	least   bool
}

func (g *argRows[T]) do(lo, hi, _ int) {
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
		indexSlice{g.indices, g.index}.put(r, at)
	}
}

const argWidth = 256 // columns of a strip

// argColumns goes down strips of columns. f16 and bf16 are read from half, other types from src.
type argColumns[T Number] struct {
	p        *Pool
	indices  []byte
	index    dtype.DType
	src      []T
	half     Weights
	n, inner int
	least    bool
}

func (g *argColumns[T]) strips() int { return (g.inner + argWidth - 1) / argWidth }

func (g *argColumns[T]) do(lo, hi, worker int) {
	var best [argWidth]T
	var place [argWidth]int
	var buf []float32
	if len(g.half.half) > 0 {
		buf = g.p.scratch(worker).floats(argWidth)
	}
	for t := lo; t < hi; t++ {
		c := t % g.strips() * argWidth
		w, at := min(argWidth, g.inner-c), t/g.strips()*g.n*g.inner+c
		for j := range g.n {
			var x []T
			if buf == nil {
				x = g.src[at+j*g.inner:][:w]
			} else {
				x = any(g.half.row(g.p.Set, at+j*g.inner, w, buf)).([]T)
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
			indexSlice{g.indices, g.index}.put(t/g.strips()*g.inner+c+i, k)
		}
	}
}
