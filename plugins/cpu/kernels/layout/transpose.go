package layout

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// blockTranspose exchanges two dims, c and the last one, in blocks. It iterates over the other dims with their strides
// in src and dst.
type blockTranspose[T any] struct {
	p               *pool.Pool
	dst, src        []T
	rank            int
	outer, from, to [elementwise.MaxRank]int
	rows, cols      int // sizes of dim c and of the last dim
	high, wide      int // rows and columns of a block
	cuts, colCuts   int // blocks along both dims
	stride, jump    int // distance of rows in dst, and of columns in src
}

const (
	transposeBlock = 64 // rows and columns, so that a block touches only few cache lines on either side
	transposeArea  = 1 << 12
)

// transpose copies src to dst, whose dims have the strides from in src. Some dim but the last is contiguous in src.
func transpose[T any](p *pool.Pool, dst, src []T, n int, dims, from []int) {
	last := len(dims) - 1
	t := blockTranspose[T]{p: p, dst: dst, src: src}
	c := 0
	for from[c] != 1 {
		c++
	}
	t.stride = 1 // stride of dim c in dst
	for _, d := range dims[c+1:] {
		t.stride *= d
	}
	to := n
	for i, d := range dims {
		to /= d
		if i != c && i != last {
			t.outer[t.rank], t.from[t.rank], t.to[t.rank] = d, from[i], to
			t.rank++
		}
	}
	t.rows, t.cols, t.jump = dims[c], dims[last], from[last]
	// A dim that is short leaves room for longer blocks of the other.
	t.high = max(transposeBlock, transposeArea/t.cols)
	t.wide = max(transposeBlock, transposeArea/min(t.rows, t.high)) &^ (transposeBlock - 1)
	t.cuts, t.colCuts = pool.CeilDiv(t.rows, t.high), pool.CeilDiv(t.cols, t.wide)
	pool.Split(p, elementwise.Elements(t.outer[:t.rank])*t.cuts*t.colCuts,
		1+pool.Grain/(min(t.rows, t.high)*min(t.cols, t.wide)), t)
}

func (g *blockTranspose[T]) Do(lo, hi, worker int) {
	for t := lo; t < hi; t++ {
		in, out := 0, 0
		rest := t / g.colCuts / g.cuts
		for i := g.rank - 1; i >= 0; i-- {
			x := rest % g.outer[i]
			rest /= g.outer[i]
			in += x * g.from[i]
			out += x * g.to[i]
		}
		r0, c0 := t/g.colCuts%g.cuts*g.high, t%g.colCuts*g.wide
		r1, c1 := min(g.rows, r0+g.high), min(g.cols, c0+g.wide)
		if dst, ok := any(g.dst).([]float32); ok {
			g.floats(g.p.Set, dst[out:], any(g.src).([]float32)[in:], r0, r1, c0, c1, worker)
			continue
		}
		for c := c0; c < c1; c += transposeBlock {
			scalar(g, g.dst[out:], g.src[in:], r0, r1, c, min(c1, c+transposeBlock))
		}
	}
}

// floats copies rows [r0, r1) and columns [c0, c1) by vectors.
func (g *blockTranspose[T]) floats(s *isa.Set, dst, src []float32, r0, r1, c0, c1, worker int) {
	lanes, at := s.Lanes, g.p.Scratch(worker).Index[:]
	switch {
	case g.cols == 2 && g.stride == 2:
		vec.On(s).Zip(dst[2*r0:2*r1], src[r0:r1], src[g.jump+r0:][:r1-r0])
		return
	case g.cols < lanes && g.stride == g.cols && g.cols*g.jump < 1<<31 && r1-r0 >= lanes:
		done := g.interleave(s, dst, src, at, r0, r1)
		scalar(g, dst, src, r0+done, r1, c0, c1)
		return
	case g.rows < lanes && lanes*g.jump < 1<<31 && c1-c0 >= lanes:
		done := g.part(s, dst, src, at, r0, r1, c0, c1)
		scalar(g, dst, src, r0, r1, c0+done, c1)
		return
	}
	for whole := (r1 - r0) / lanes * lanes; c0+lanes <= c1 && whole > 0; c0 += lanes {
		vec.On(s).Transpose(dst[r0*g.stride+c0:], g.stride, src[c0*g.jump+r0:], g.jump, lanes, whole)
		scalar(g, dst, src, r0+whole, r1, c0, c0+lanes)
	}
	for ; c0 < c1; c0 += transposeBlock {
		scalar(g, dst, src, r0, r1, c0, min(c1, c0+transposeBlock))
	}
}

// interleave copies whole vectors of rows that are shorter than a vector and adjacent in dst, and returns the number
// of rows. Each vector of as many as a row has elements takes its elements from the same places as the next one of its
// kind.
func (g *blockTranspose[T]) interleave(s *isa.Set, dst, src []float32, at []int32, r0, r1 int) int {
	lanes := s.Lanes
	vectors := (r1 - r0) / lanes
	for v := range g.cols {
		for i := range at[:lanes] {
			e := v*lanes + i
			at[i] = int32(e/g.cols + e%g.cols*g.jump)
		}
		vec.On(s).GatherRows(dst[r0*g.cols+v*lanes:], lanes*g.cols, src[r0:], lanes, vectors, at[:lanes])
	}
	return vectors * lanes
}

// part copies whole vectors of few rows, whose elements are jump apart in src, and returns the number of columns.
func (g *blockTranspose[T]) part(s *isa.Set, dst, src []float32, at []int32, r0, r1, c0, c1 int) int {
	lanes := s.Lanes
	vectors := (c1 - c0) / lanes
	for i := range at[:lanes] {
		at[i] = int32(i * g.jump)
	}
	for r := r0; r < r1; r++ {
		vec.On(s).GatherRows(dst[r*g.stride+c0:], lanes, src[c0*g.jump+r:], lanes*g.jump, vectors, at[:lanes])
	}
	return vectors * lanes
}

// scalar copies rows [r0, r1) and columns [c0, c1) of the two dims one by one.
func scalar[T, E any](g *blockTranspose[T], dst, src []E, r0, r1, c0, c1 int) {
	if c0 == c1 {
		return
	}
	for r := r0; r < r1; r++ {
		d := dst[r*g.stride+c0 : r*g.stride+c1]
		at := c0*g.jump + r
		for i := range d {
			d[i] = src[at]
			at += g.jump
		}
	}
}
