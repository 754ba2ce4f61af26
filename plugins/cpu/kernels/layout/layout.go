// Package layout moves elements without computing: transpositions, reorderings, gather and scatter, padding. It also
// resizes images.
package layout

import (
	"fmt"
	"sync/atomic"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// The kernels in this file copy elements without computing. T may be any type of the element's size.

// Transpose permutes the axes of src: axis k of dst is axis perm[k] of src, whose shape is given.
func Transpose[T any](p *pool.Pool, dst, src []T, shape, perm []int) {
	n := elementwise.Elements(shape)
	if len(perm) != len(shape) || len(dst) < n || len(src) < n {
		panic(fmt.Sprintf("BUG: transpose of %v by %v", shape, perm))
	}
	if n == 0 {
		return
	}
	dims, from, rank := foldPerm(shape, perm)
	last := rank - 1
	if last < 0 || from[last] == 1 { // the last dim is contiguous in both
		t := runs[T]{dst: dst, src: src, run: 1, rank: rank, dims: dims, strides: from}
		if last >= 0 {
			t.run, t.rank = dims[last], last
		}
		pool.Split(p, n/t.run, 1+pool.Grain/t.run, t)
		return
	}
	transpose(p, dst, src, n, dims[:rank], from[:rank])
}

// runs copies runs of run elements. Runs are contiguous in dst, and in src at the offsets of a grid.
type runs[T any] struct {
	dst, src      []T
	run, rank     int
	dims, strides [elementwise.MaxRank]int
}

func (g *runs[T]) Do(lo, hi, _ int) {
	last := g.rank - 1
	if last < 0 {
		copy(g.dst[lo*g.run:hi*g.run], g.src[lo*g.run:])
		return
	}
	for lo < hi { // the runs of one line, which are at the same distance in src
		in, rest := 0, lo
		for i := last; i >= 0; i-- {
			in += rest % g.dims[i] * g.strides[i]
			rest /= g.dims[i]
		}
		n := min(hi-lo, g.dims[last]-lo%g.dims[last])
		copyRows(g.dst[lo*g.run:], g.src[in:], g.run, g.strides[last], g.run, n)
		lo += n
	}
}

// foldPerm returns the dims of the result and their strides in the source. It drops dims of size 1 and merges dims that
// are adjacent and in the same order before and after.
func foldPerm(shape, perm []int) (dims, from [elementwise.MaxRank]int, rank int) {
	var stride [elementwise.MaxRank]int
	s := 1
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i] = s
		s *= shape[i]
	}
	for _, a := range perm {
		d := shape[a]
		if d == 1 {
			continue
		}
		if l := rank - 1; l >= 0 && from[l] == stride[a]*d {
			dims[l] *= d
			from[l] = stride[a]
			continue
		}
		dims[rank], from[rank] = d, stride[a]
		rank++
	}
	return dims, from, rank
}

// Place copies src [outer, n] to columns [at, at+n) of dst [outer, total].
func Place[T any](p *pool.Pool, dst, src []T, outer, total, at, n int) {
	if at < 0 || n < 0 || at+n > total || len(dst) < outer*total || len(src) < outer*n {
		panic(fmt.Sprintf("BUG: Place at [%d, %d) of %d", at, at+n, total))
	}
	pool.Split(p, outer*n, pool.Grain, columns[T]{dst, src, total, n, at, 0, n})
}

// columns copies n columns of src, from column in on, to dst, from column out on.
type columns[T any] struct {
	dst, src   []T
	ldd, lds   int
	out, in, n int
}

// Do counts items over the elements of all rows, so that threads also share few long rows.
func (c *columns[T]) Do(lo, hi, _ int) {
	r, at := lo/c.n, lo%c.n
	for lo < hi {
		m, rows := min(c.n-at, hi-lo), 1
		if at == 0 {
			rows = max(1, (hi-lo)/c.n)
		}
		copyRows(c.dst[r*c.ldd+c.out+at:], c.src[r*c.lds+c.in+at:], c.ldd, c.lds, m, rows)
		r, at, lo = r+rows, 0, lo+m*rows
	}
}

// Interleave is dst[2i] = a[i], dst[2i+1] = b[i].
func Interleave[T any](p *pool.Pool, dst, a, b []T) {
	if len(b) < len(a) || len(dst) < 2*len(a) {
		panic("BUG: Interleave: a slice is short")
	}
	pool.Split(p, len(a), pool.Grain, interleaving[T]{p.Set, dst, a, b})
}

type interleaving[T any] struct {
	isa       *isa.Set
	dst, a, b []T
}

func (g *interleaving[T]) Do(lo, hi, _ int) {
	if dst, ok := any(g.dst).([]float32); ok {
		vec.On(g.isa).Zip(dst[2*lo:2*hi], any(g.a).([]float32)[lo:hi], any(g.b).([]float32)[lo:hi])
		return
	}
	a, b, dst := g.a[lo:hi], g.b[lo:hi], g.dst[2*lo:2*hi]
	for i, x := range a {
		dst[2*i], dst[2*i+1] = x, b[i]
	}
}

// Narrow copies [start, start+n) of an axis: src is [outer, extent, inner], dst is [outer, n, inner].
func Narrow[T any](p *pool.Pool, dst, src []T, outer, extent, inner, start, n int) {
	if start < 0 || n < 0 || start+n > extent || len(dst) < outer*n*inner {
		panic(fmt.Sprintf("BUG: Narrow to [%d, %d) of %d", start, start+n, extent))
	}
	pool.Split(p, outer*n*inner, pool.Grain, columns[T]{dst, src, n * inner, extent * inner, 0, start * inner,
		n * inner})
}

// Pad surrounds src of the given shape with value: before[i] elements ahead of axis i, after[i] behind it.
func Pad[T any](p *pool.Pool, dst, src []T, shape, before, after []int, value T) {
	g := padding[T]{dst: dst, src: src, value: value}
	for i, d := range shape {
		if before[i] < 0 || after[i] < 0 {
			panic("BUG: Pad by a negative width")
		}
		if last := g.rank - 1; last >= 0 && before[i] == 0 && after[i] == 0 { // lines of one axis are adjacent
			g.shape[last], g.before[last], g.out[last] = g.shape[last]*d, g.before[last]*d, g.out[last]*d
			continue
		}
		g.shape[g.rank], g.before[g.rank], g.out[g.rank] = d, before[i], before[i]+d+after[i]
		g.rank++
	}
	n := elementwise.Elements(g.out[:g.rank])
	if len(dst) < n || len(src) < elementwise.Elements(shape) {
		panic("BUG: Pad: a slice is short")
	}
	if g.rank == 0 {
		dst[0] = src[0]
		return
	}
	pool.Split(p, n, pool.Grain, g)
}

// padding has the axes of an array that are padded. Axes without padding are merged with the one before.
type padding[T any] struct {
	dst, src           []T
	value              T
	rank               int
	shape, before, out [elementwise.MaxRank]int
}

// Do counts items over the elements of dst, because there may be few rows.
func (g *padding[T]) Do(lo, hi, _ int) {
	last := g.rank - 1
	row, begin := g.out[last], g.before[last]
	end := begin + g.shape[last]
	for lo < hi {
		rest, at := lo/row, lo%row
		n := min(row-at, hi-lo)
		d := g.dst[lo : lo+n]
		lo += n
		from, stride, inside := 0, g.shape[last], true
		for i := last - 1; i >= 0; i-- {
			x := rest%g.out[i] - g.before[i]
			rest /= g.out[i]
			inside = inside && x >= 0 && x < g.shape[i]
			from += x * stride
			stride *= g.shape[i]
		}
		first, stop := max(at, begin), min(at+n, end)
		if !inside || first >= stop {
			vec.Fill(d, g.value)
			continue
		}
		vec.Fill(d[:first-at], g.value)
		copy(d[first-at:stop-at], g.src[from+first-begin:])
		vec.Fill(d[stop-at:], g.value)
	}
}

// Index constrains the types of an index. A float32 is truncated towards zero.
type Index interface {
	int32 | int64 | uint32 | float32
}

// Gather copies rows of table [outer, extent, inner] to dst [outer, len(index), inner]: row i is row index[i] of table.
// An index outside [0, extent) is an error; dst is then undefined.
func Gather[T any, I Index](p *pool.Pool, dst, table []T, outer, extent, inner int, index []I) error {
	return gather(p, outer*len(index), gathering[T, I]{&p.Bad, dst, table, extent, inner, len(index), index})
}

// GatherBatched is Gather with separate indices for each of the outer tables: index is [outer, k], dst is [outer, k,
// inner].
func GatherBatched[T any, I Index](p *pool.Pool, dst, table []T, outer, extent, inner int, index []I) error {
	return gather(p, len(index), gathering[T, I]{&p.Bad, dst, table, extent, inner, len(index) / max(1, outer), index})
}

func gather[T any, I Index](p *pool.Pool, rows int, g gathering[T, I]) error {
	if len(g.dst) < rows*g.inner || rows > 0 && len(g.table) < rows/g.per*g.extent*g.inner {
		panic("BUG: Gather: a slice is short")
	}
	p.Bad.Store(0)
	pool.Split(p, rows, 1+pool.Grain/max(1, g.inner), g)
	if b := p.Bad.Load(); b > 0 {
		return diag.New(code.Index, "", "index %v at position %d is out of range 0 to %d", g.index[b-1], b-1,
			g.extent-1)
	}
	return nil
}

type gathering[T any, I Index] struct {
	bad           *atomic.Int64 // 1 + the first bad position
	dst, table    []T
	extent, inner int
	per           int // rows of dst for each table
	index         []I // for each table, or shared by all
}

func (g *gathering[T, I]) Do(lo, hi, _ int) {
	for lo < hi { // rows of one table, whose indices are contiguous
		first := lo % len(g.index)
		n := min(hi-lo, g.per-lo%g.per)
		table := g.table[lo/g.per*g.extent*g.inner:][:g.extent*g.inner]
		dst := g.dst[lo*g.inner : (lo+n)*g.inner]
		if _, floats := any(g.index).([]float32); g.inner == 1 && !floats {
			for i, x := range g.index[first : first+n] {
				if at := uint64(int64(x)); at < uint64(len(table)) {
					dst[i] = table[at]
				} else {
					g.report(first + i)
				}
			}
		} else if g.inner == 1 {
			for i, x := range g.index[first : first+n] {
				if y := float64(x); y > -1 && y < float64(g.extent) {
					dst[i] = table[int(x)]
				} else { // also NaN
					g.report(first + i)
				}
			}
		} else {
			for i, x := range g.index[first : first+n] {
				if y := float64(x); y > -1 && y < float64(g.extent) {
					copy(dst[i*g.inner:(i+1)*g.inner], table[int(x)*g.inner:])
				} else {
					g.report(first + i)
				}
			}
		}
		lo += n
	}
}

// report stores position i if it is the first bad one so far.
func (g *gathering[T, I]) report(i int) {
	for old := g.bad.Load(); (old == 0 || int64(i) < old-1) &&
		!g.bad.CompareAndSwap(old, int64(i)+1); old = g.bad.Load() {
	}
}

// Iota fills dst, of the given shape, with the index along axis.
func Iota[T elementwise.Number](p *pool.Pool, dst []T, shape []int, axis int) {
	n := elementwise.Elements(shape)
	if len(dst) < n {
		panic("BUG: Iota: dst is short")
	}
	pool.Split(p, n, pool.Grain, counting[T]{dst, elementwise.Elements(shape[axis+1:]), shape[axis]})
}

type counting[T elementwise.Number] struct {
	dst           []T
	inner, extent int
}

func (c *counting[T]) Do(lo, hi, _ int) {
	for i := lo; i < hi; i++ {
		c.dst[i] = T(i / c.inner % c.extent)
	}
}
