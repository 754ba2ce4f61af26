package norm

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
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
	DLoss, DX []float32 // gradients of Loss and of X, or nil
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
	fast := reduce.On(s).Softmax != nil
	var buf []float32
	if !fast {
		buf = g.p.Scratch(worker).Floats(n)
	}
	for r := lo; r < hi; r++ {
		x, label := g.X[r*n:(r+1)*n], g.Label(r)
		switch {
		case g.DX == nil:
			top, sum := g.sumOfExps(s, x, buf, fast)
			g.Loss[r] = float32(float64(top) + math.Log(sum) - float64(x[label]))
		case fast:
			g.backward(s, x, g.DX[r*n:(r+1)*n], label, float64(g.DLoss[r]))
		default:
			e := g.DX[r*n : (r+1)*n]
			exps(s, e, x)
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
}

// sumOfExps returns the largest element of a row, and the sum of e^(x-top). buf is scratch memory unless fast is set.
func (g *crossEntropy) sumOfExps(s *isa.Set, x, buf []float32, fast bool) (top float32, sum float64) {
	if !fast {
		top = exps(s, buf, x)
		return top, total(g.p, buf)
	}
	top = float32(reduce.On(s).Folds.Row[reduce.Max](&x[0], len(x)))
	for i := 0; i < len(x); i += reduce.Block {
		sum += float64(reduce.On(s).Softmax.ExpSumRow(&x[i], min(reduce.Block, len(x)-i), top))
	}
	return top, sum
}

// backward sets dx to the gradient of a row x.
func (g *crossEntropy) backward(s *isa.Set, x, dx []float32, label int, dloss float64) {
	top := float32(reduce.On(s).Folds.Row[reduce.Max](&x[0], len(x)))
	var others, own float64
	for i := 0; i < len(x); i += reduce.Block {
		n := min(reduce.Block, len(x)-i)
		sum := reduce.On(s).Softmax.ExpRow(&dx[i], &x[i], n, top)
		if i <= label && label < i+n { // a sum less the label's own weight would cancel
			own, dx[label] = float64(dx[label]), 0
			sum = reduce.On(s).Sum(dx[i : i+n])
		}
		others += float64(sum)
	}
	by := dloss / (others + own)
	reduce.On(s).Softmax.ScaleRow(&dx[0], len(dx), float32(by))
	dx[label] = float32(-others * by)
}

// exps sets e to e^(x-top), where top is the largest element of x. It returns top.
func exps(s *isa.Set, e, x []float32) (top float32) {
	top = float32(math.Inf(-1))
	for _, v := range x {
		top = elementwise.Larger(top, v)
	}
	for i, v := range x {
		e[i] = v - top
	}
	elementwise.Apply(s, elementwise.Exp, e, e)
	return top
}

// total adds up blocks in float64.
func total(p *pool.Pool, x []float32) (sum float64) {
	for i := 0; i < len(x); i += reduce.Block {
		sum += float64(reduce.On(p.Set).Sum(x[i:min(len(x), i+reduce.Block)]))
	}
	return sum
}
