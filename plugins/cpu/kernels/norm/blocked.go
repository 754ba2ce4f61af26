package norm

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// LayerNormBlocked is Norm with Center set and a blocked result, which must not overlap x.
func LayerNormBlocked(p *pool.Pool, dst, x, gamma, beta []float32, rows, n int, eps float32) {
	if len(x) < rows*n || len(gamma) < n || len(beta) < n {
		panic("BUG: norm: a slice is short")
	}
	if n == 0 {
		return
	}
	s, q := p.Set, product.NewBlocked(dst, rows, n)
	p.Split(rows, pool.RowGrain(n), func(lo, hi, w int) {
		d := p.Scratch(w).Floats(n)
		for r := lo; r < hi; r++ {
			normRow(s, d, x[r*n:(r+1)*n], gamma, beta, eps, true)
			q.Put(s, r, 0, d, n, 1, n)
		}
		vec.On(s).StoreFence()
	})
}

// normRow normalizes one row. d may be x.
func normRow(s *isa.Set, d, x, gamma, beta []float32, eps float32, center bool) {
	mean, scale, shift := moments(s, x, eps, center)
	reduce.On(s).Normalize(d, x, gamma, beta, mean, scale, shift)
}
