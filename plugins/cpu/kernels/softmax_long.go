package kernels

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// softmaxChunk is the number of elements of a long row that are a task: whole blocks of a sum.
const softmaxChunk = 4 * reduceBlock

// long reports whether threads share each row. Then there are few rows, and each is long, as the logits of a vocabulary
// are.
func (g SoftmaxArgs) long(p *Pool) bool {
	return g.X.kind == dtype.F32 && reduceOn(p.Set).softmax != nil && g.Outer < p.Threads() && g.N >= 2*softmaxChunk
}

// softmaxLong is softmaxRows for long rows. The bits are the same.
func softmaxLong(p *Pool, g SoftmaxArgs) {
	x := keep[longSoftmax](p)
	x.p, x.log = p, g.Log
	chunks := ceilDiv(g.N, softmaxChunk)
	for r := range g.Outer {
		p.shared.reset()
		x.tops, x.sums = p.shared.floats(chunks), p.shared.floats(ceilDiv(g.N, reduceBlock))
		x.dst, x.x = g.Dst.f32[r*g.N:][:g.N], g.X.f32[r*g.N:][:g.N]
		x.pass = findTop
		p.each(chunks, 1, x)
		x.top = float32(reduceOn(p.Set).folds.row[ReduceMax](&x.tops[0], chunks))
		x.pass = addUp
		p.each(chunks, 1, x)
		var sum float64
		for _, s := range x.sums {
			sum += float64(s)
		}
		if x.by = float32(1 / sum); g.Log {
			x.by = float32(math.Log(sum))
		}
		x.pass = finish
		p.each(chunks, 1, x)
	}
}

// longSoftmax is the state of softmaxLong.
type longSoftmax struct {
	p          *Pool
	log        bool
	pass       softmaxPass
	dst, x     []float32
	tops, sums []float32 // of chunks; of blocks of reduceBlock elements
	top, by    float32   // by is what the last pass multiplies by or, for a logarithm, subtracts
}

type softmaxPass uint8

// The passes of softmaxLong.
const (
	findTop softmaxPass = iota
	addUp
	finish
)

func (x *longSoftmax) do(lo, hi, _ int) {
	f, top := reduceOn(x.p.Set).softmax, reduceOn(x.p.Set).folds.row[ReduceMax]
	for c := lo; c < hi; c++ {
		at := c * softmaxChunk
		n := min(softmaxChunk, len(x.x)-at)
		switch x.pass {
		case findTop:
			x.tops[c] = float32(top(&x.x[at], n))
		case addUp:
			for i := 0; i < n; i += reduceBlock {
				n, sum := min(reduceBlock, n-i), &x.sums[(at+i)/reduceBlock]
				if x.log {
					*sum = f.expSumRow(&x.x[at+i], n, x.top)
				} else {
					*sum = f.expRow(&x.dst[at+i], &x.x[at+i], n, x.top)
				}
			}
		case finish:
			if x.log {
				f.shiftRow(&x.dst[at], &x.x[at], n, x.top, x.by)
			} else {
				f.scaleRow(&x.dst[at], n, x.by)
			}
		}
	}
}
