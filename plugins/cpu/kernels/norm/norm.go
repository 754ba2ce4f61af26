// Package norm has normalisations and softmax.
package norm

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Args are the arguments of Norm, for rows of N elements. All tensors have one type. If Residual is not empty, X +
// Residual is normalized. Dst may be X or Residual.
//
// Norms over the last axis have Groups and Area 0, and Gamma and Beta [N]. A group norm of [batch, channels, Area] has
// batch*Groups rows of N = channels/Groups * Area elements, and Gamma and Beta [channels].
type Args struct {
	Dst, X, Residual, Gamma, Beta stored.Values // Residual may be empty

	N            int
	Groups, Area int
	Eps          float32
	Center       bool
}

// Normalize computes (x-mean)/sqrt(var+eps)*gamma + beta for each row if Center is set, where var is the biased
// variance, otherwise x/sqrt(mean(x^2)+eps)*gamma + beta.
func Normalize(p *pool.Pool, g Args, rows int) {
	n := g.N
	g.Groups, g.Area = max(g.Groups, 1), max(g.Area, 1)
	if g.Dst.Len() < rows*n || g.X.Len() < rows*n || g.Gamma.Len() < g.Groups*n/g.Area ||
		g.Beta.Len() < g.Groups*n/g.Area ||
		g.Residual.Len() > 0 && g.Residual.Len() < rows*n {
		panic("BUG: norm: a slice is short")
	}
	if n == 0 {
		return
	}
	pool.Split(p, rows, pool.RowGrain(n), normPart{g, p})
}

type normPart struct {
	Args
	p *pool.Pool
}

// Scratch returns what Norm needs for rows of n elements of type d and gains elements of gamma.
func Scratch(d dtype.DType, n, gains int) pool.Size {
	if d == dtype.F32 {
		return pool.Size{}
	}
	return pool.Size{Worker: pool.FloatBytes(n, n, gains, gains, elementwise.Spread, elementwise.Spread)}
}

func (g *normPart) Do(lo, hi, worker int) {
	s, sc, n := g.p.Set, g.p.Scratch(worker), g.N
	buf, other := g.X.Buffer(sc, n), g.Residual.Buffer(sc, n)
	per := n / g.Area // elements of gamma that a row uses
	gains := g.Groups * per
	gamma, beta := g.Gamma.Row(s, 0, gains, g.Gamma.Buffer(sc, gains)),
		g.Beta.Row(s, 0, gains, g.Beta.Buffer(sc, gains))
	if g.X.Kind == dtype.F32 && g.Area == 1 && g.Groups == 1 {
		g.floats(lo, hi, gamma[:n], beta[:n])
		return
	}
	var one, two []float32
	if g.Area > longArea {
		one, two = sc.Floats(elementwise.Spread), sc.Floats(elementwise.Spread)
	}
	for r := lo; r < hi; r++ {
		x, d := g.X.Row(s, r*n, n, buf), g.Dst.Room(r*n, n, buf)
		if g.Residual.Len() > 0 {
			elementwise.On(s).Binary[elementwise.Add](d, x, g.Residual.Row(s, r*n, n, other))
			x = d
		}
		first := r % g.Groups * per
		if g.Area == 1 {
			normRow(s, d, x, gamma[first:first+per], beta[first:first+per], g.Eps, g.Center)
		} else {
			mean, scale, shift := moments(s, x, g.Eps, true)
			for c := range per {
				to, from := d[c*g.Area:(c+1)*g.Area], x[c*g.Area:(c+1)*g.Area]
				if g.Area > longArea {
					normalizeRow(s, to, from, gamma[first+c], beta[first+c], mean, scale, shift, one, two)
				} else {
					scaleRow(s, to, from, mean, -shift/scale, scale*gamma[first+c], beta[first+c])
				}
			}
		}
		g.Dst.Put(s, r*n, d)
	}
}

// floats computes rows of floats.
func (g *normPart) floats(lo, hi int, gamma, beta []float32) {
	s, n := g.p.Set, g.N
	if g.Residual.Len() > 0 {
		x := addRows{AddArgs{Sum: g.Dst.Floats, Dst: g.Dst.Floats, X: g.X.Floats, Residual: g.Residual.Floats,
			Gamma: gamma, Beta: beta, N: n, Eps: g.Eps, Center: g.Center}, g.p}
		x.Do(lo, hi, 0)
		return
	}
	normRows(s, g.Dst.Floats[lo*n:hi*n], g.X.Floats[lo*n:hi*n], gamma, beta, g.Eps, g.Center)
}

// normalizeRow is dst = ((x-mean)*scale + shift)*gamma + beta. one and two are buffers of spread elements.
func normalizeRow(s *isa.Set, dst, x []float32, gamma, beta, mean, scale, shift float32, one, two []float32) {
	one, two = elementwise.SpreadTo(one, gamma, len(x)), elementwise.SpreadTo(two, beta, len(x))
	for i := 0; i < len(x); i += elementwise.Spread {
		m := min(elementwise.Spread, len(x)-i)
		reduce.On(s).Normalize(dst[i:i+m], x[i:i+m], one[:m], two[:m], mean, scale, shift)
	}
}

// A call of a routine costs as much as about shortArea elements. Up to longArea elements, spreading gamma and beta over

// moments returns the mean of a row, or 0 if center is false, and scale, 1/sqrt(the mean square distance from it +
// eps). It adds up blocks in float64. The mean is rounded: where all elements are near 1000 and differ by 1, that would
// cost ten bits of the result. The distances from the rounded mean are nearly exact, so their mean is the rounding
// error. shift is this error times scale.
func moments(s *isa.Set, x []float32, eps float32, center bool) (mean, scale, shift float32) {
	var sum, distance, squares float64
	for i := 0; center && i < len(x); i += reduce.Block {
		sum += float64(reduce.On(s).Sum(x[i:min(len(x), i+reduce.Block)]))
	}
	mean = float32(sum / float64(len(x)))
	for i := 0; i < len(x); i += reduce.Block {
		d, sq := reduce.On(s).Deviations(x[i:min(len(x), i+reduce.Block)], mean)
		distance += float64(d)
		squares += float64(sq)
	}
	if !center {
		distance = 0
	}
	distance /= float64(len(x))
	inverse := 1 / math.Sqrt(max(squares/float64(len(x))-distance*distance, 0)+float64(eps))
	return mean, float32(inverse), float32(distance * inverse)
}
