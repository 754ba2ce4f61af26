package norm

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

// CrossEntropyArgs are the arguments of CrossEntropy: Rows rows of N logits. Label returns the label of a row, which is
// in [0, N).
type CrossEntropyArgs struct {
	X       []float32
	Rows, N int
	Label   func(row int) int

	Loss      []float32 // [Rows], or nil
	DLoss, DX []float32 // gradient of Loss, and that of X; or nil
}

// CrossEntropy computes the cross entropy of the softmax of each row and its label, or the gradient of X.
func CrossEntropy(p *pool.Pool, g CrossEntropyArgs) {
	if len(g.X) < g.Rows*g.N {
		panic("BUG: CrossEntropy: a slice is short")
	}
	pool.Split(p, g.Rows, pool.RowGrain(4*g.N), crossEntropy{g, p})
}

// CrossEntropyScratch returns what CrossEntropy needs.
func CrossEntropyScratch(n int) pool.Size { return pool.Size{Worker: pool.FloatBytes(n)} }

type crossEntropy struct {
	CrossEntropyArgs
	p *pool.Pool
}

func (g *crossEntropy) Do(lo, hi, worker int) {
	s, n := g.p.Set, g.N
	buf := g.p.Scratch(worker).Floats(n)
	for r := lo; r < hi; r++ {
		x, e, label := g.X[r*n:(r+1)*n], buf, g.Label(r)
		if g.DX != nil {
			e = g.DX[r*n : (r+1)*n]
		}
		top := float32(math.Inf(-1))
		for _, v := range x {
			top = elementwise.Larger(top, v)
		}
		for i, v := range x {
			e[i] = v - top
		}
		elementwise.Apply(s, elementwise.Exp, e, e)
		if g.DX == nil {
			g.Loss[r] = float32(float64(top) + math.Log(total(g.p, e)) - float64(x[label]))
			continue
		}
		// The gradient at the label is minus the weight of the others: 1 less the label's own weight would cancel.
		own := float64(e[label])
		e[label] = 0
		others := total(g.p, e)
		by := float64(g.DLoss[r]) / (others + own)
		for i := range e {
			e[i] = float32(float64(e[i]) * by)
		}
		e[label] = float32(-others * by)
	}
}

// total adds up blocks in float64.
func total(p *pool.Pool, x []float32) (sum float64) {
	for i := 0; i < len(x); i += reduce.Block {
		sum += float64(reduce.On(p.Set).Sum(x[i:min(len(x), i+reduce.Block)]))
	}
	return sum
}
