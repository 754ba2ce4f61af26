package norm

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// L2Norm divides each row of n elements by max(|x|, eps), where |x| is the square root of the sum of squares. dst may
// be x.
func L2Norm(p *pool.Pool, dst, x stored.Values, rows, n int, eps float32) {
	if dst.Len() < rows*n || x.Len() < rows*n {
		panic("BUG: L2Norm: a slice is short")
	}
	if n > 0 {
		pool.Split(p, rows, pool.RowGrain(n), l2Norm{dst, x, n, eps, p})
	}
}

type l2Norm struct {
	dst, x stored.Values
	n      int
	eps    float32
	p      *pool.Pool
}

func (g *l2Norm) Do(lo, hi, worker int) {
	s, sc, n := g.p.Set, g.p.Scratch(worker), g.n
	by, buf := sc.Floats(elementwise.Spread), g.x.Buffer(sc, n)
	for r := lo; r < hi; r++ {
		x, d := g.x.Row(s, r*n, n, buf), g.dst.Room(r*n, n, buf)
		length := length(s, x)
		if length < g.eps {
			length = g.eps
		}
		divisors := elementwise.SpreadTo(by, length, n)
		for i := 0; i < n; i += elementwise.Spread {
			m := min(elementwise.Spread, n-i)
			elementwise.On(s).Binary[elementwise.Div](d[i:i+m], x[i:i+m], divisors[:m])
		}
		g.dst.Put(s, r*n, d)
	}
}

// length returns the square root of the sum of squares.
func length(s *isa.Set, x []float32) float32 {
	sum := 0.0
	for i := 0; i < len(x); i += reduce.Block {
		_, squares := reduce.On(s).Deviations(x[i:min(len(x), i+reduce.Block)], 0)
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
func L2NormScratch(n int) pool.Size { return pool.Size{Worker: pool.FloatBytes(n, elementwise.Spread)} }
