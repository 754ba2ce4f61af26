package kernels

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// L2Norm divides each row of n elements by max(|x|, eps), where |x| is the square root of the sum of squares. dst may
// be x.
func L2Norm(p *Pool, dst, x Weights, rows, n int, eps float32) {
	if dst.Len() < rows*n || x.Len() < rows*n {
		panic("BUG: L2Norm: a slice is short")
	}
	if n > 0 {
		split(p, rows, rowGrain(n), l2Norm{dst, x, n, eps, p})
	}
}

type l2Norm struct {
	dst, x Weights
	n      int
	eps    float32
	p      *Pool
}

func (g *l2Norm) do(lo, hi, worker int) {
	s, sc, n := g.p.Set, g.p.scratch(worker), g.n
	by, buf := sc.floats(spread), g.x.buffer(sc, n)
	for r := lo; r < hi; r++ {
		x, d := g.x.row(s, r*n, n, buf), g.dst.room(r*n, n, buf)
		length := length(s, x)
		if length < g.eps {
			length = g.eps
		}
		divisors := spreadTo(by, length, n)
		for i := 0; i < n; i += spread {
			m := min(spread, n-i)
			elemOn(s).binary[Div](d[i:i+m], x[i:i+m], divisors[:m])
		}
		g.dst.put(s, r*n, d)
	}
}

// length returns the square root of the sum of squares.
func length(s *isa.Set, x []float32) float32 {
	sum := 0.0
	for i := 0; i < len(x); i += reduceBlock {
		_, squares := reduceOn(s).deviations(x[i:min(len(x), i+reduceBlock)], 0)
		sum += float64(squares)
	}
	if !(sum > 1e-30 && sum < math.MaxFloat32) { // out of the range of f32, or NaN: sum in float64
		sum = 0
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
	}
	return float32(math.Sqrt(sum))
}

// L2NormScratch returns what L2Norm needs for rows of n elements.
func L2NormScratch(n int) ScratchSize { return ScratchSize{Worker: floats(n, spread)} }
