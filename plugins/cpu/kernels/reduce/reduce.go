// Package reduce reduces axes of tensors: sums, means, products, extremes and their places, and pooling.
package reduce

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Op is a reduction.
type Op uint8

// The reductions. NaN propagates through all of them. Of no elements they give, in this order, 0, NaN, -Inf, +Inf and
// 1; for integers, the least and the largest value take the place of the infinities.
const (
	Sum Op = iota
	Mean
	Max
	Min
	Prod
	reduceCount
)

var reduceNames = [reduceCount]string{"sum", "mean", "max", "min", "prod"}

func (op Op) String() string {
	if op < reduceCount {
		return reduceNames[op]
	}
	return fmt.Sprintf("ReduceOp(%d)", uint8(op))
}

// Parse finds a reduction by its name.
func Parse(name string) (Op, bool) {
	for i, n := range reduceNames {
		if n == name {
			return Op(i), true
		}
	}
	return 0, false
}

// Reduce reduces src, of the given shape, over axes, which are in any order and without duplicates. Without axes it
// copies. dst has the remaining dims. Integers wrap. There is no Mean of integers.
func Reduce[T float64 | elementwise.Integer](p *pool.Pool, op Op, dst, src []T, shape, axes []int) {
	if op >= reduceCount || op == Mean && !elementwise.IsFloat[T]() {
		panic("BUG: reduce by " + op.String())
	}
	g := pool.Keep[numeric[T]](p)
	g.op, g.dst, g.src = op, dst, src
	reduce(p, &g.reducing, g, shape, axes, len(dst), len(src))
}

// Floats is Reduce for f32, f16 and bf16. It reduces blocks in f32, and the results of blocks in float64.
func Floats(p *pool.Pool, op Op, dst, src stored.Values, shape, axes []int) {
	g := pool.Keep[singles](p)
	g.op, g.dst, g.src, g.p = op, dst, src, p
	reduce(p, &g.reducing, g, shape, axes, dst.Len(), src.Len())
}

// Bools stores 1 if all elements are true or, if all is not set, if any element is; otherwise 0.
func Bools(p *pool.Pool, all bool, dst, src []uint8, shape, axes []int) {
	g := pool.Keep[bools](p)
	g.all, g.dst, g.src = all, dst, src
	reduce(p, &g.reducing, g, shape, axes, len(dst), len(src))
}

// folder reduces elements of one type with accumulators of type A.
type folder[A any] interface {
	start() A
	// runs folds n contiguous elements from index at + i*ld on into acc[i], for each i.
	runs(acc []A, at, n, ld, worker int)
	// columns folds rows of elements into an accumulator for each column. The first row is at index at, the next ones
	// stride apart.
	columns(acc []A, at, rows, stride, worker int)
	// merge folds the accumulators src into dst.
	merge(dst, src []A)
	// finish stores results from index at on. Each is the reduction of count elements.
	finish(at int, acc []A, count int)
	// few stores n results, of the columns from index from on, from index at on. It returns false if it cannot.
	few(at, from, n, worker int) bool
}

// reducing iterates over the elements of an operand. Adjacent axes that are both kept, or both reduced, are merged, and
// axes of size 1 dropped. Threads share strips of results along the innermost axis that is kept. If the last axis is
// reduced, a strip is made from runs of contiguous elements, one or several for each result. If it is kept, the
// elements of a strip are columns.
type reducing[A any] struct {
	f folder[A]
	// sizes and strides of outer axes that are kept, and of axes that are reduced
	keep, keepStride, cut, cutStride [elementwise.MaxRank]int
	kept, cuts                       int  // their numbers
	outer, inner, count              int  // results are [outer, inner], each of count elements
	ld, width                        int  // distance between the elements of inner results; results in a strip
	runs                             bool // the last axis is reduced

	// If there are few results, the elements of each are divided into chunks. The chunks depend on the shape alone, so
	// that sums have the same bits for any number of threads.
	chunks, chunk int
	partial       []A              // [outer, chunks, inner]
	acc           [][reduceWidth]A // one for each worker
}

const (
	reduceWidth = 1 << 10 // most results of a strip
	Block       = 1 << 12 // elements of a run that are widened and summed in f32
	reduceLanes = 256     // accumulators of a run, in vectors
	Rows        = 64      // rows that are summed in f32
	reduceTasks = 64      // tasks of a reduction to few results
)

func reduce[A any](p *pool.Pool, g *reducing[A], f folder[A], shape, axes []int, dst, src int) {
	total := elementwise.Elements(shape)
	if src < total {
		panic("BUG: Reduce: src is short")
	}
	g.f, g.kept, g.cuts, g.inner, g.count, g.outer, g.ld, g.width = f, 0, 0, 1, 1, 1, 0, reduceWidth
	stride, last := total, -1 // last is 1 if the axis before is reduced, 0 if it is kept
	for i, d := range shape {
		if d == 1 {
			continue
		}
		if d != 0 {
			stride /= d
		}
		reduced := slices.Contains(axes, i)
		sizes, strides, n := &g.keep, &g.keepStride, &g.kept
		if reduced {
			sizes, strides, n = &g.cut, &g.cutStride, &g.cuts
			g.count *= d
		} else {
			g.outer *= d
		}
		if kind := int(elementwise.Bit(reduced)); last == kind {
			sizes[*n-1] *= d
		} else {
			sizes[*n], last = d, kind
			*n++
		}
		strides[*n-1] = stride
	}
	if dst < g.outer {
		panic("BUG: Reduce: dst is short")
	}
	if g.runs = last == 1; g.runs { // few results, so that there are tasks for all threads
		g.width = min(reduceWidth, 1+pool.Grain/max(1, g.count))
	}
	if g.kept > 0 {
		g.kept--
		g.inner, g.ld = g.keep[g.kept], g.keepStride[g.kept]
		if g.outer > 0 {
			g.outer /= g.inner
		}
	}
	if g.outer*g.inner == 0 {
		return
	}
	strips := pool.CeilDiv(g.inner, g.width)
	g.chunks, g.chunk = 1, g.count
	if work := g.count * min(g.inner, g.width); work > 2*pool.Grain && g.outer*strips < reduceTasks {
		g.chunks = min((work+pool.Grain-1)/pool.Grain, (reduceTasks+g.outer*strips-1)/(g.outer*strips), g.count)
		g.chunk = (g.count + g.chunks - 1) / g.chunks
		g.chunks = (g.count + g.chunk - 1) / g.chunk
		if n := g.outer * g.chunks * g.inner; len(g.partial) < n {
			g.partial = make([]A, n)
		}
	}
	if g.acc == nil {
		g.acc = make([][reduceWidth]A, p.Threads())
	}
	p.Share(g.outer*strips*g.chunks, 1+pool.Grain/max(1, g.chunk*min(g.inner, g.width)), g)
	if g.chunks > 1 {
		for o := range g.outer {
			part := g.partial[o*g.chunks*g.inner:]
			for k := range g.chunks - 1 {
				f.merge(part[:g.inner], part[(k+1)*g.inner:(k+2)*g.inner])
			}
			f.finish(o*g.inner, part[:g.inner], g.count)
		}
	}
}

// Scratch returns the memory that a reduction of up to this many elements needs for the partial results of chunks. With
// chunks there are at most 2*reduceTasks tasks, each with a strip of results.
func Scratch(elements int) pool.Size {
	if elements <= 2*pool.Grain {
		return pool.Size{}
	}
	return pool.Size{Other: pool.SizeOf[float64](min(elements, 2*reduceTasks*reduceWidth))}
}

func (g *reducing[A]) Do(lo, hi, worker int) {
	acc := g.acc[worker][:]
	strips := pool.CeilDiv(g.inner, g.width)
	for t := lo; t < hi; t++ {
		k, s, o := t%g.chunks, t/g.chunks%strips, t/g.chunks/strips
		c := s * g.width
		n := min(g.width, g.inner-c)
		at, rest := c*g.ld, o
		for i := g.kept - 1; i >= 0; i-- {
			at += rest % g.keep[i] * g.keepStride[i]
			rest /= g.keep[i]
		}
		if g.chunks == 1 && !g.runs && g.cuts == 1 && g.f.few(o*g.inner+c, at, n, worker) {
			continue
		}
		start := g.f.start()
		for i := range n {
			acc[i] = start
		}
		g.fold(acc[:n], at, k*g.chunk, min(g.count, (k+1)*g.chunk), worker)
		if g.chunks == 1 {
			g.f.finish(o*g.inner+c, acc[:n], g.count)
		} else {
			copy(g.partial[(o*g.chunks+k)*g.inner+c:], acc[:n])
		}
	}
}

// fold folds elements [lo, hi) of those that are reduced to one result, or one strip of results, in their order.
func (g *reducing[A]) fold(acc []A, at, lo, hi, worker int) {
	if g.cuts == 0 { // nothing is reduced
		g.f.columns(acc, at, hi-lo, 0, worker)
		return
	}
	last := g.cuts - 1
	for lo < hi {
		from, rest := at, lo/g.cut[last]
		for i := last - 1; i >= 0; i-- {
			from += rest % g.cut[i] * g.cutStride[i]
			rest /= g.cut[i]
		}
		first := lo % g.cut[last]
		n := min(g.cut[last]-first, hi-lo)
		from += first * g.cutStride[last]
		if g.runs {
			g.f.runs(acc, from, n, g.ld, worker)
		} else {
			g.f.columns(acc, from, n, g.cutStride[last], worker)
		}
		lo += n
	}
}
