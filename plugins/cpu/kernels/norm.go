package kernels

import "math"

// rowGrain is the number of rows of n elements that make a task worth a thread.
func rowGrain(n int) int { return 1 + elementGrain/max(1, n) }

// LayerNorm is (x-mean)/sqrt(var+eps)*gamma + beta for each row of n elements; the variance is biased and computed from the mean.
// Dst may be x.
func LayerNorm(p *Pool, dst, x, gamma, beta []float32, rows, n int, eps float32) {
	norm(p, normRows{dst: dst, x: x, gamma: gamma, beta: beta, n: n, eps: eps, center: true}, rows)
}

// ResidualLayerNorm is LayerNorm of x + residual + bias; bias may be nil. Dst may be x or residual.
func ResidualLayerNorm(p *Pool, dst, x, residual, bias, gamma, beta []float32, rows, n int, eps float32) {
	norm(p, normRows{dst, x, residual, bias, gamma, beta, n, eps, true, nil}, rows)
}

// RmsNorm is x/sqrt(mean(x^2)+eps)*gamma + beta for each row of n elements. Dst may be x.
func RmsNorm(p *Pool, dst, x, gamma, beta []float32, rows, n int, eps float32) {
	norm(p, normRows{dst: dst, x: x, gamma: gamma, beta: beta, n: n, eps: eps}, rows)
}

// ResidualRmsNorm is RmsNorm of x + residual + bias; bias may be nil. Dst may be x or residual.
func ResidualRmsNorm(p *Pool, dst, x, residual, bias, gamma, beta []float32, rows, n int, eps float32) {
	norm(p, normRows{dst, x, residual, bias, gamma, beta, n, eps, false, nil}, rows)
}

// normRows holds the arguments of all four norms; residual and bias may be nil.
type normRows struct {
	dst, x, residual, bias, gamma, beta []float32

	n      int
	eps    float32
	center bool
	isa    *isa
}

func norm(p *Pool, g normRows, rows int) {
	n := g.n
	if len(g.dst) < rows*n || len(g.x) < rows*n || len(g.gamma) < n || len(g.beta) < n || g.residual != nil && len(g.residual) < rows*n ||
		g.bias != nil && len(g.bias) < n {
		panic("BUG: norm: a slice is short")
	}
	if n == 0 {
		return
	}
	g.isa = p.isa
	split(p, rows, rowGrain(n), g)
}

func (g *normRows) do(lo, hi, _ int) {
	s, n := g.isa, g.n
	for r := lo; r < hi; r++ {
		row, d := g.x[r*n:(r+1)*n], g.dst[r*n:(r+1)*n]
		if g.residual != nil {
			s.binary[Add](d, row, g.residual[r*n:(r+1)*n])
			row = d
			if g.bias != nil {
				s.binary[Add](d, d, g.bias[:n])
			}
		}
		normRow(s, d, row, g.gamma, g.beta, g.eps, g.center)
	}
}

// Softmax is exp(x-max)/sum(exp(x-max)) along the middle axis of [outer, n, inner]. A row of -Inf alone gives NaN. Dst may be x.
func Softmax(p *Pool, dst, x []float32, outer, n, inner int) {
	if len(dst) < outer*n*inner || len(x) < outer*n*inner {
		panic("BUG: Softmax: a slice is short")
	}
	if n == 0 || inner == 0 {
		return
	}
	if inner == 1 {
		split(p, outer, rowGrain(4*n), softmaxRows{dst, x, n, p})
		return
	}
	strips := (inner + softmaxWidth - 1) / softmaxWidth
	split(p, outer*strips, rowGrain(4*n*softmaxWidth), softmaxColumns{dst, x, n, inner, p.isa})
}

type softmaxRows struct {
	dst, x []float32
	n      int
	p      *Pool
}

func (g *softmaxRows) do(lo, hi, worker int) {
	buf := g.p.scratch(worker).floats(spread)
	for r := lo; r < hi; r++ {
		softmaxRow(g.p.isa, g.dst[r*g.n:(r+1)*g.n], g.x[r*g.n:(r+1)*g.n], buf)
	}
}

// softmaxColumns works on strips of columns, whose maxima and sums advance side by side.
type softmaxColumns struct {
	dst, x   []float32
	n, inner int
	isa      *isa
}

const softmaxWidth = 64 // columns of a strip

func (g *softmaxColumns) do(lo, hi, _ int) {
	var top [softmaxWidth]float32
	var sum [softmaxWidth]float64
	n, inner := g.n, g.inner
	strips := (inner + softmaxWidth - 1) / softmaxWidth
	for t := lo; t < hi; t++ {
		at := t/strips*n*inner + t%strips*softmaxWidth
		w := min(softmaxWidth, inner-t%strips*softmaxWidth)
		for i := range w {
			top[i], sum[i] = float32(math.Inf(-1)), 0
		}
		for j := range n {
			for i, v := range g.x[at+j*inner:][:w] {
				raise(&top[i], v)
			}
		}
		for j := range n {
			d := g.dst[at+j*inner:][:w]
			for i, v := range g.x[at+j*inner:][:w] {
				d[i] = v - top[i]
			}
			g.isa.apply(Exp, d, d)
			for i, v := range d {
				sum[i] += float64(v)
			}
		}
		for j := range n {
			for i := range w {
				g.dst[at+j*inner+i] /= float32(sum[i])
			}
		}
	}
}

// softmaxRow passes over one row. buf is spread long.
func softmaxRow(s *isa, dst, x, buf []float32) {
	nr := s.narrow.nr
	whole := len(x) / nr * nr
	copy(dst, x)
	tops := spreadTo(buf, float32(math.Inf(-1)), nr)
	s.narrow.scoreMax(dst[:whole], 1, tops)
	top := tops[0]
	for _, v := range tops {
		raise(&top, v)
	}
	for _, v := range x[whole:] {
		raise(&top, v)
	}
	withNumber(s.binary[Sub], dst, top, buf)
	s.apply(Exp, dst, dst)
	withNumber(s.binary[Mul], dst, 1/s.sum(dst), buf)
}

// withNumber is dst = f(dst, y). buf is spread long.
func withNumber(f func(dst, a, b []float32), dst []float32, y float32, buf []float32) {
	b := spreadTo(buf, y, len(dst))
	for len(dst) > 0 {
		n := min(len(dst), spread)
		f(dst[:n], dst[:n], b[:n])
		dst = dst[n:]
	}
}
