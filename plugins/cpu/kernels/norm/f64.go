package norm

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// F64Args are the arguments of NormalizeF64: Rows rows of N elements. Groups, Area, Gamma and Beta are as in Args,
// but for norms over the last axis Groups and Area are 1. Residual may be nil. Dst may be X or Residual.
type F64Args struct {
	Dst, X, Residual, Gamma, Beta []float64
	Rows, N, Groups, Area         int
	Eps                           float64
	Center                        bool
}

// NormalizeF64 is Norm in f64.
func NormalizeF64(p *pool.Pool, g F64Args) {
	if g.N == 0 {
		return
	}
	pool.Split(p, g.Rows, pool.RowGrain(g.N), normsF64(g))
}

type normsF64 F64Args

func (g *normsF64) Do(lo, hi, _ int) {
	n, per := g.N, g.N/g.Area
	for r := lo; r < hi; r++ {
		x, d := g.X[r*n:(r+1)*n], g.Dst[r*n:(r+1)*n]
		if g.Residual != nil {
			for i, v := range g.Residual[r*n : (r+1)*n] {
				d[i] = x[i] + v
			}
			x = d
		}
		var mean, squares float64
		if g.Center {
			for _, v := range x {
				mean += v
			}
			mean /= float64(n)
		}
		for _, v := range x {
			squares += (v - mean) * (v - mean)
		}
		scale := 1 / math.Sqrt(squares/float64(n)+g.Eps)
		first := r % g.Groups * per
		for c := range per {
			gamma, beta := g.Gamma[first+c], g.Beta[first+c]
			for i := c * g.Area; i < (c+1)*g.Area; i++ {
				d[i] = (x[i]-mean)*scale*gamma + beta
			}
		}
	}
}

// SoftmaxF64 is Softmax in f64, along the middle axis of [outer, n, inner].
func SoftmaxF64(p *pool.Pool, dst, x []float64, outer, n, inner int, log bool) {
	if len(dst) < outer*n*inner || len(x) < outer*n*inner {
		panic("BUG: SoftmaxF64: a slice is short")
	}
	if n == 0 || inner == 0 {
		return
	}
	strips := (inner + softmaxWidth - 1) / softmaxWidth
	pool.Split(p, outer*strips, pool.RowGrain(8*n*min(inner, softmaxWidth)), softmaxF64{dst, x, n, inner, log})
}

type softmaxF64 struct {
	dst, x   []float64
	n, inner int
	log      bool
}

func (g *softmaxF64) Do(lo, hi, _ int) {
	var top, sum [softmaxWidth]float64
	strips := (g.inner + softmaxWidth - 1) / softmaxWidth
	for t := lo; t < hi; t++ {
		c := t % strips * softmaxWidth
		w, at := min(softmaxWidth, g.inner-c), t/strips*g.n*g.inner+c
		for i := range w {
			top[i], sum[i] = math.Inf(-1), 0
		}
		for j := range g.n {
			for i, v := range g.x[at+j*g.inner:][:w] {
				top[i] = elementwise.Larger(top[i], v)
			}
		}
		for j := range g.n {
			d := g.dst[at+j*g.inner:][:w]
			for i, v := range g.x[at+j*g.inner:][:w] {
				v -= top[i]
				e := math.Exp(v)
				sum[i] += e
				if !g.log {
					v = e
				}
				d[i] = v
			}
		}
		if g.log {
			for i := range w {
				sum[i] = math.Log(sum[i])
			}
		}
		for j := range g.n {
			d := g.dst[at+j*g.inner:][:w]
			for i := range d {
				if g.log {
					d[i] -= sum[i]
				} else {
					d[i] /= sum[i]
				}
			}
		}
	}
}
