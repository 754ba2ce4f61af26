package kernels

import (
	"fmt"
	"sync/atomic"

	"github.com/rlx-go/rlx/core/diag"
)

// The kernels of this file move elements without looking at them: T is any type of the element's size.

// Transpose is dst[i0, i1, ...] = src at the index with src_index[perm[k]] = i_k; dst has the shape shape[perm[k]].
func Transpose[T any](p *Pool, dst, src []T, shape, perm []int) {
	n := product(shape)
	if len(perm) != len(shape) || len(dst) < n || len(src) < n {
		panic(fmt.Sprintf("BUG: transpose of %v by %v", shape, perm))
	}
	if n == 0 {
		return
	}
	dims, from := foldPerm(shape, perm)
	last := len(dims) - 1
	if last < 0 || from[last] == 1 { // whole runs stay together
		run, outer := 1, dims
		if last >= 0 {
			run, outer = dims[last], dims[:last]
		}
		walk(p, outer, from, run, func(out, in int) { copy(dst[out*run:(out+1)*run], src[in:in+run]) })
		return
	}
	// The dim that is contiguous in src is another one: blocks of it by the last keep both sides within a few cache lines.
	c := 0
	for from[c] != 1 {
		c++
	}
	const block = 32
	stride := 1 // of dim c in dst
	for _, d := range dims[c+1:] {
		stride *= d
	}
	outer, outerFrom, outerTo := []int{}, []int{}, []int{}
	to := n
	for i, d := range dims {
		to /= d
		if i != c && i != last {
			outer, outerFrom, outerTo = append(outer, d), append(outerFrom, from[i]), append(outerTo, to)
		}
	}
	rows, cols, jump := dims[c], dims[last], from[last]
	cuts := (rows + block - 1) / block
	total := product(outer) * cuts
	p.split(total, 1+elementGrain/(block*cols), func(lo, hi, _ int) {
		for t := lo; t < hi; t++ {
			in, out := 0, 0
			rest := t / cuts
			for i := len(outer) - 1; i >= 0; i-- {
				x := rest % outer[i]
				rest /= outer[i]
				in += x * outerFrom[i]
				out += x * outerTo[i]
			}
			r0 := t % cuts * block
			r1 := min(rows, r0+block)
			for c0 := 0; c0 < cols; c0 += block {
				c1 := min(cols, c0+block)
				for r := r0; r < r1; r++ {
					d := dst[out+r*stride+c0 : out+r*stride+c1]
					at := in + c0*jump + r
					for i := range d {
						d[i] = src[at]
						at += jump
					}
				}
			}
		}
	})
}

// foldPerm gives the dims of the result and their strides in the source, with unit dims dropped and neighbours merged that
// stay neighbours.
func foldPerm(shape, perm []int) (dims, from []int) {
	stride := make([]int, len(shape))
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
		if l := len(dims) - 1; l >= 0 && from[l] == stride[a]*d {
			dims[l] *= d
			from[l] = stride[a]
			continue
		}
		dims, from = append(dims, d), append(from, stride[a])
	}
	return dims, from
}

// walk calls f for every index of dims with its number and its offset by the strides; run is the work of one call in elements.
func walk(p *Pool, dims, strides []int, run int, f func(out, in int)) {
	p.split(product(dims), 1+elementGrain/max(1, run), func(lo, hi, _ int) {
		for t := lo; t < hi; t++ {
			in, rest := 0, t
			for i := len(dims) - 1; i >= 0; i-- {
				in += rest % dims[i] * strides[i]
				rest /= dims[i]
			}
			f(t, in)
		}
	})
}

// Concat joins parts along an axis: part k is [outer, extents[k], inner], dst is [outer, sum of extents, inner].
func Concat[T any](p *Pool, dst []T, parts [][]T, outer int, extents []int, inner int) {
	total := 0
	for _, e := range extents {
		total += e
	}
	if len(dst) < outer*total*inner {
		panic("BUG: Concat: dst is short")
	}
	at := 0
	for k, src := range parts {
		n, off := extents[k]*inner, at*inner
		p.split(outer, 1+elementGrain/max(1, n), func(lo, hi, _ int) {
			for o := lo; o < hi; o++ {
				copy(dst[o*total*inner+off:][:n], src[o*n:])
			}
		})
		at += extents[k]
	}
}

// Narrow copies [start, start+n) of an axis: src is [outer, extent, inner], dst is [outer, n, inner].
func Narrow[T any](p *Pool, dst, src []T, outer, extent, inner, start, n int) {
	if start < 0 || n < 0 || start+n > extent || len(dst) < outer*n*inner {
		panic(fmt.Sprintf("BUG: Narrow to [%d, %d) of %d", start, start+n, extent))
	}
	p.split(outer, 1+elementGrain/max(1, n*inner), func(lo, hi, _ int) {
		for o := lo; o < hi; o++ {
			copy(dst[o*n*inner:(o+1)*n*inner], src[(o*extent+start)*inner:])
		}
	})
}

// Pad surrounds src of the given shape with value: before[i] elements ahead of axis i, after[i] behind it.
func Pad[T any](p *Pool, dst, src []T, shape, before, after []int, value T) {
	rank := len(shape)
	out := make([]int, rank)
	for i, d := range shape {
		out[i] = before[i] + d + after[i]
		if before[i] < 0 || after[i] < 0 {
			panic("BUG: Pad by a negative width")
		}
	}
	if len(dst) < product(out) {
		panic("BUG: Pad: dst is short")
	}
	if rank == 0 {
		dst[0] = src[0]
		return
	}
	last := rank - 1
	row := out[last]
	p.split(product(out[:last]), 1+elementGrain/max(1, row), func(lo, hi, _ int) {
		for t := lo; t < hi; t++ {
			d := dst[t*row : (t+1)*row]
			at, stride, rest, inside := 0, shape[last], t, true
			for i := last - 1; i >= 0; i-- {
				x := rest%out[i] - before[i]
				rest /= out[i]
				inside = inside && x >= 0 && x < shape[i]
				at += x * stride
				stride *= shape[i]
			}
			for i := range d {
				d[i] = value
			}
			if inside {
				copy(d[before[last]:before[last]+shape[last]], src[at:])
			}
		}
	})
}

// Index is the types that an index may have. A float32 is truncated towards zero.
type Index interface {
	int32 | int64 | uint32 | float32
}

// Gather copies rows of table, [outer, extent, inner], by index: dst is [outer, len(index), inner]. An index outside
// [0, extent) is an error; dst is then undefined.
func Gather[T any, I Index](p *Pool, dst, table []T, outer, extent, inner int, index []I) error {
	if len(dst) < outer*len(index)*inner || len(table) < outer*extent*inner {
		panic("BUG: Gather: a slice is short")
	}
	n := len(index)
	var bad atomic.Int64 // 1 + the first bad position
	p.split(outer*n, 1+elementGrain/max(1, inner), func(lo, hi, _ int) {
		for t := lo; t < hi; t++ {
			o, i := t/n, t%n
			x := index[i]
			if y := float64(x); !(y > -1 && y < float64(extent)) { // NaN too
				for old := bad.Load(); (old == 0 || int64(i) < old-1) && !bad.CompareAndSwap(old, int64(i)+1); old = bad.Load() {
				}
				continue
			}
			copy(dst[t*inner:(t+1)*inner], table[(o*extent+int(x))*inner:])
		}
	})
	if b := bad.Load(); b > 0 {
		return diag.New(diag.IndexOutOfRange, "gather", "index %d is %v; allowed is 0 to %d", b-1, index[b-1], extent-1)
	}
	return nil
}

// Iota fills dst of the given shape with the index along axis.
func Iota[T Number](p *Pool, dst []T, shape []int, axis int) {
	inner := product(shape[axis+1:])
	extent := shape[axis]
	if len(dst) < product(shape) {
		panic("BUG: Iota: dst is short")
	}
	p.split(product(shape), elementGrain, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			dst[i] = T(i / inner % extent)
		}
	})
}
