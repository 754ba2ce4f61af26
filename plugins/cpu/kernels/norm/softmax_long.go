package norm

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

// softmaxChunk is the number of elements of a long row that are a task: whole blocks of a sum.
const softmaxChunk = 4 * reduce.Block

// long reports whether threads share each row. Then there are few rows, and each is long, as the logits of a vocabulary
// are.
func (g SoftmaxArgs) long(p *pool.Pool) bool {
	return g.X.Kind == dtype.F32 && reduce.On(p.Set).Softmax != nil && g.Outer < p.Threads() && g.N >= 2*softmaxChunk
}

// softmaxLong is softmaxRows for long rows. The bits are the same.
func softmaxLong(p *pool.Pool, g SoftmaxArgs) {
	x := pool.Keep[longSoftmax](p)
	x.p, x.log = p, g.Log
	chunks := pool.CeilDiv(g.N, softmaxChunk)
	for r := range g.Outer {
		p.Shared.Reset()
		x.tops, x.sums = p.Shared.Floats(chunks), p.Shared.Floats(pool.CeilDiv(g.N, reduce.Block))
		x.dst, x.x = g.Dst.Floats[r*g.N:][:g.N], g.X.Floats[r*g.N:][:g.N]
		x.pass = findTop
		p.Each(chunks, 1, x)
		x.top = float32(reduce.On(p.Set).Folds.Row[reduce.Max](&x.tops[0], chunks))
		x.pass = addUp
		p.Each(chunks, 1, x)
		var sum float64
		for _, s := range x.sums {
			sum += float64(s)
		}
		x.by = float32(1 / sum)
		if g.Log {
			x.by = float32(math.Log(sum))
		}
		x.pass = finish
		p.Each(chunks, 1, x)
	}
}

// longSoftmax is the state of softmaxLong.
type longSoftmax struct {
	p          *pool.Pool
	log        bool
	pass       softmaxPass
	dst, x     []float32
	tops, sums []float32 // of chunks; of blocks of reduce.Block elements
	top, by    float32   // the last pass multiplies by by or, for a logarithm, subtracts it
}

type softmaxPass uint8

// The passes of softmaxLong.
const (
	findTop softmaxPass = iota
	addUp
	finish
)

func (x *longSoftmax) Do(lo, hi, _ int) {
	f, top := reduce.On(x.p.Set).Softmax, reduce.On(x.p.Set).Folds.Row[reduce.Max]
	for c := lo; c < hi; c++ {
		at := c * softmaxChunk
		n := min(softmaxChunk, len(x.x)-at)
		switch x.pass {
		case findTop:
			x.tops[c] = float32(top(&x.x[at], n))
		case addUp:
			for i := 0; i < n; i += reduce.Block {
				size, sum := min(reduce.Block, n-i), &x.sums[(at+i)/reduce.Block]
				if x.log {
					*sum = f.ExpSumRow(&x.x[at+i], size, x.top)
				} else {
					*sum = f.ExpRow(&x.dst[at+i], &x.x[at+i], size, x.top)
				}
			}
		case finish:
			if x.log {
				f.ShiftRow(&x.dst[at], &x.x[at], n, x.top, x.by)
			} else {
				f.ScaleRow(&x.dst[at], n, x.by)
			}
		}
	}
}
