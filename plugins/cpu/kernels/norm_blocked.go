package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// LayerNormBlocked is Norm with Center set and a blocked result, which must not overlap x.
func LayerNormBlocked(p *Pool, dst, x, gamma, beta []float32, rows, n int, eps float32) {
	if len(x) < rows*n || len(gamma) < n || len(beta) < n {
		panic("BUG: norm: a slice is short")
	}
	if n == 0 {
		return
	}
	s, q := p.Set, newBlocked(dst, rows, n)
	p.split(rows, rowGrain(n), func(lo, hi, w int) {
		d := p.scratch(w).floats(n)
		for r := lo; r < hi; r++ {
			normRow(s, d, x[r*n:(r+1)*n], gamma, beta, eps, true)
			q.put(s, r, 0, d, n, 1, n)
		}
		vecOn(s).storeFence()
	})
}

// normRow normalizes one row. d may be x.
func normRow(s *isa.Set, d, x, gamma, beta []float32, eps float32, center bool) {
	mean, scale, shift := moments(s, x, eps, center)
	reduceOn(s).normalize(d, x, gamma, beta, mean, scale, shift)
}
