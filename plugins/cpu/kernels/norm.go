package kernels

import "math"

// rowGrain is the number of rows of n elements that make a task worth a thread.
func rowGrain(n int) int { return 1 + elementGrain/max(1, n) }

// LayerNorm is (x-mean)/sqrt(var+eps)*gamma + beta for each row of n elements; the variance is biased and computed from the mean.
// Dst may be x.
func LayerNorm(p *Pool, dst, x, gamma, beta []float32, rows, n int, eps float32) {
	norm(p, dst, x, nil, nil, gamma, beta, rows, n, eps, true)
}

// ResidualLayerNorm is LayerNorm of x + residual + bias; bias may be nil. Dst may be x or residual.
func ResidualLayerNorm(p *Pool, dst, x, residual, bias, gamma, beta []float32, rows, n int, eps float32) {
	norm(p, dst, x, residual, bias, gamma, beta, rows, n, eps, true)
}

// RmsNorm is x/sqrt(mean(x^2)+eps)*gamma + beta for each row of n elements. Dst may be x.
func RmsNorm(p *Pool, dst, x, gamma, beta []float32, rows, n int, eps float32) {
	norm(p, dst, x, nil, nil, gamma, beta, rows, n, eps, false)
}

// ResidualRmsNorm is RmsNorm of x + residual + bias; bias may be nil. Dst may be x or residual.
func ResidualRmsNorm(p *Pool, dst, x, residual, bias, gamma, beta []float32, rows, n int, eps float32) {
	norm(p, dst, x, residual, bias, gamma, beta, rows, n, eps, false)
}

func norm(p *Pool, dst, x, residual, bias, gamma, beta []float32, rows, n int, eps float32, center bool) {
	if len(dst) < rows*n || len(x) < rows*n || len(gamma) < n || len(beta) < n || residual != nil && len(residual) < rows*n ||
		bias != nil && len(bias) < n {
		panic("BUG: norm: a slice is short")
	}
	if n == 0 {
		return
	}
	s := p.isa
	p.split(rows, rowGrain(n), func(lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			row, d := x[r*n:(r+1)*n], dst[r*n:(r+1)*n]
			if residual != nil {
				s.add(d, row, residual[r*n:(r+1)*n])
				row = d
				if bias != nil {
					s.add(d, d, bias[:n])
				}
			}
			var mean float32
			if center {
				mean = s.sum(row) / float32(n)
			}
			variance := s.squares(row, mean) / float32(n)
			s.normalize(d, row, gamma, beta, mean, float32(1/math.Sqrt(float64(variance)+float64(eps))))
		}
	})
}

// Softmax is exp(x-max)/sum(exp(x-max)) along the middle axis of [outer, n, inner]. A row of -Inf alone gives NaN. Dst may be x.
func Softmax(p *Pool, dst, x []float32, outer, n, inner int) {
	if len(dst) < outer*n*inner || len(x) < outer*n*inner {
		panic("BUG: Softmax: a slice is short")
	}
	if n == 0 || inner == 0 {
		return
	}
	s := p.isa
	if inner == 1 {
		p.split(outer, rowGrain(4*n), func(lo, hi, _ int) {
			for r := lo; r < hi; r++ {
				softmaxRow(s, dst[r*n:(r+1)*n], x[r*n:(r+1)*n])
			}
		})
		return
	}
	// Another axis: strips of columns, whose maxima and sums advance side by side.
	const width = 64
	strips := (inner + width - 1) / width
	p.split(outer*strips, rowGrain(4*n*width), func(lo, hi, _ int) {
		var top [width]float32
		var sum [width]float64
		for t := lo; t < hi; t++ {
			at := t/strips*n*inner + t%strips*width
			w := min(width, inner-t%strips*width)
			for i := range w {
				top[i], sum[i] = float32(math.Inf(-1)), 0
			}
			for j := range n {
				for i, v := range x[at+j*inner:][:w] {
					raise(&top[i], v)
				}
			}
			for j := range n {
				d := dst[at+j*inner:][:w]
				for i, v := range x[at+j*inner:][:w] {
					d[i] = v - top[i]
				}
				s.exp(d, d)
				for i, v := range d {
					sum[i] += float64(v)
				}
			}
			for j := range n {
				for i := range w {
					dst[at+j*inner+i] /= float32(sum[i])
				}
			}
		}
	})
}

func softmaxRow(s *isa, dst, x []float32) {
	top := float32(math.Inf(-1))
	for _, v := range x {
		raise(&top, v)
	}
	for i, v := range x {
		dst[i] = v - top
	}
	s.exp(dst, dst)
	by := 1 / s.sum(dst)
	for i := range dst {
		dst[i] *= by
	}
}
