package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// joint computes products of the same activations with different weights, such as q, k and v of attention, in one run
// of the pool. Between two runs, memory is idle: the workers that end first wait for the last, and then all begin with
// weights that are not prefetched.
type joint struct {
	p       *pool.Pool
	parts   []jointPart
	bytes   []byteStrips
	packed  []packedStrips
	plain   []gemvStrips
	rounded []rounding // one for each excess (see byteDot)
}

// jointPart is one product: work over items [0, items) in tasks of size items.
type jointPart struct {
	work        pool.Part
	items, size int
	end         int // the number of tasks of this part and of the parts before it
}

// GemmJoint computes products that have the same A, LDA, M and K. If rounds is set, packed weights are multiplied by
// rounded activations, as by GemmRounded. It returns false, and computes nothing, if one of them cannot be computed
// jointly. Only products of a few rows can, because only they are limited by memory.
func GemmJoint(p *pool.Pool, products []GemmArgs, rounds bool) bool {
	x := pool.Keep[joint](p)
	for i := range products {
		if g := &products[i]; g.M == 0 || g.N == 0 || g.Batch > 1 || !g.joins(p.Set, rounds) {
			return false
		}
	}
	if n := len(products); len(x.bytes) < n {
		x.bytes, x.packed, x.plain, x.rounded = make([]byteStrips, n), make([]packedStrips, n), make([]gemvStrips, n),
			make([]rounding, n)
	}
	x.p, x.parts = p, x.parts[:0]
	p.Shared.Reset()
	for i := range products {
		g := &products[i]
		g.check(1)
		switch {
		case rounds && g.B.Kind.IsPacked():
			x.bytes[i] = byteStrips{p, *g, x.roundedRows(p, products[:i+1])}
			x.add(&x.bytes[i], g.N, g.dotStrip())
		case g.B.Kind.IsPacked():
			var ok bool
			if x.packed[i], ok = packedStripsOf(p, g); !ok {
				return false
			}
			x.add(&x.packed[i], g.N, g.dotStrip())
		default:
			x.plain[i] = gemvStripsOf(p, g)
			x.add(&x.plain[i], x.plain[i].strips, 1)
		}
	}
	p.Share(x.parts[len(x.parts)-1].end, 1, x)
	return true
}

// joins reports whether GemmJoint computes a product.
func (g *GemmArgs) joins(s *isa.Set, rounds bool) bool {
	switch {
	case !g.B.Kind.IsPacked():
		return g.dots(s)
	case rounds:
		return g.dotsRounded(s)
	}
	return g.dotsPacked(s, 1)
}

// roundedRows returns the rounded activations for the last product. Products whose weights have the same excess share
// them.
func (x *joint) roundedRows(p *pool.Pool, products []GemmArgs) []roundedRow {
	last := len(products) - 1
	for i := range last {
		if was := products[i].B.Kind; was.IsPacked() &&
			On(p.Set).dotBytes[was].excess == On(p.Set).dotBytes[products[last].B.Kind].excess {
			return x.bytes[i].rows
		}
	}
	x.rounded[last].roundRows(p, &products[last])
	return x.rounded[last].rows
}

func (x *joint) add(work pool.Part, items, size int) {
	tasks := (items + size - 1) / size
	if n := len(x.parts); n > 0 {
		tasks += x.parts[n-1].end
	}
	x.parts = append(x.parts, jointPart{work, items, size, tasks})
}

// Do runs tasks [lo, hi) of all parts.
func (x *joint) Do(lo, hi, worker int) {
	begin := 0
	for _, t := range x.parts {
		if from, to := max(lo, begin)-begin, min(hi, t.end)-begin; from < to {
			x.p.Scratch(worker).Reset()
			t.work.Do(from*t.size, min(t.items, to*t.size), worker)
		}
		begin = t.end
	}
}

// JointScratch returns what GemmJoint needs for up to m rows of k values and weights of the given types, in addition to
// what the products need by themselves.
func JointScratch(m, k int, types []dtype.DType) (r pool.Size) {
	few := min(m, packedDotRows)
	for _, d := range types {
		if d.IsPacked() {
			r.Shared += pool.FloatBytes(few*k/32, few*k)
			r.Other += roundedRowBytes(min(m, mostDotRows), k)
		}
	}
	return r
}
