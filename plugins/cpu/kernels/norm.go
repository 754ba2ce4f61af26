package kernels

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// NormArgs are the arguments of Norm, for rows of N elements. All tensors have one type. If Residual is not empty, X +
// Residual is normalized. Dst may be X or Residual.
//
// Norms over the last axis have Groups and Area 0, and Gamma and Beta [N]. A group norm of [batch, channels, Area] has
// batch*Groups rows of N = channels/Groups * Area elements, and Gamma and Beta [channels].
type NormArgs struct {
	Dst, X, Residual, Gamma, Beta Weights // Residual may be empty

	N            int
	Groups, Area int
	Eps          float32
	Center       bool
}

// Norm computes (x-mean)/sqrt(var+eps)*gamma + beta for each row if Center is set, where var is the biased variance,
// otherwise x/sqrt(mean(x^2)+eps)*gamma + beta.
func Norm(p *Pool, g NormArgs, rows int) {
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
	split(p, rows, rowGrain(n), normRows{g, p})
}

type normRows struct {
	NormArgs
	p *Pool
}

// NormScratch returns what Norm needs for rows of n elements of type d and gains elements of gamma.
func NormScratch(d dtype.DType, n, gains int) ScratchSize {
	if d == dtype.F32 {
		return ScratchSize{}
	}
	return ScratchSize{Worker: floats(n, n, gains, gains, spread, spread)}
}

func (g *normRows) do(lo, hi, worker int) {
	s, sc, n := g.p.Set, g.p.scratch(worker), g.N
	buf, other := g.X.buffer(sc, n), g.Residual.buffer(sc, n)
	per := n / g.Area // elements of gamma that a row uses
	gains := g.Groups * per
	gamma, beta := g.Gamma.row(s, 0, gains, g.Gamma.buffer(sc, gains)),
		g.Beta.row(s, 0, gains, g.Beta.buffer(sc, gains))
	var one, two []float32
	if g.Area > 1 {
		one, two = sc.floats(spread), sc.floats(spread)
	}
	for r := lo; r < hi; r++ {
		x, d := g.X.row(s, r*n, n, buf), g.Dst.room(r*n, n, buf)
		if g.Residual.Len() > 0 {
			elemOn(s).binary[Add](d, x, g.Residual.row(s, r*n, n, other))
			x = d
		}
		first := r % g.Groups * per
		if g.Area == 1 {
			normRow(s, d, x, gamma[first:first+per], beta[first:first+per], g.Eps, g.Center)
		} else {
			mean, scale, shift := moments(s, x, g.Eps, true)
			for c := range per {
				normalizeRow(s, d[c*g.Area:(c+1)*g.Area], x[c*g.Area:(c+1)*g.Area], gamma[first+c], beta[first+c], mean,
					scale, shift, one, two)
			}
		}
		g.Dst.put(s, r*n, d)
	}
}

// BatchNorm computes (x-mean)/sqrt(variance+eps)*gamma + beta for x [batch, channels, area]; the other operands are
// [channels]. dst may be x.
func BatchNorm(p *Pool, dst, x, gamma, beta, mean, variance []float32, batch, channels, area int, eps float32) {
	if len(dst) < batch*channels*area || len(x) < batch*channels*area ||
		min(len(gamma), len(beta), len(mean), len(variance)) < channels {
		panic("BUG: BatchNorm: a slice is short")
	}
	split(p, batch*channels, rowGrain(area), batchNorm{dst, x, gamma, beta, mean, variance, channels, area, eps, p})
}

type batchNorm struct {
	dst, x, gamma, beta, mean, variance []float32
	channels, area                      int
	eps                                 float32
	p                                   *Pool
}

func (g *batchNorm) do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.scratch(worker)
	gamma, beta := sc.floats(spread), sc.floats(spread)
	for r := lo; r < hi; r++ {
		c := r % g.channels
		normalizeRow(s, g.dst[r*g.area:(r+1)*g.area], g.x[r*g.area:(r+1)*g.area], g.gamma[c], g.beta[c], g.mean[c],
			float32(1/math.Sqrt(float64(g.variance[c])+float64(g.eps))), 0, gamma, beta)
	}
}

// normalizeRow is dst = ((x-mean)*scale + shift)*gamma + beta. one and two are buffers of spread elements.
func normalizeRow(s *isa.Set, dst, x []float32, gamma, beta, mean, scale, shift float32, one, two []float32) {
	one, two = spreadTo(one, gamma, len(x)), spreadTo(two, beta, len(x))
	for i := 0; i < len(x); i += spread {
		m := min(spread, len(x)-i)
		reduceOn(s).normalize(dst[i:i+m], x[i:i+m], one[:m], two[:m], mean, scale, shift)
	}
}

// moments returns the mean of a row, or 0 if center is false, and scale, 1/sqrt(the mean square distance from it +
// eps). It adds up blocks in float64. The mean is rounded: where all elements are near 1000 and differ by 1, that would
// cost ten bits of the result. Their distances from the rounded mean are nearly exact, so their mean is what the
// rounding has taken away; shift is that, times scale.
func moments(s *isa.Set, x []float32, eps float32, center bool) (mean, scale, shift float32) {
	var sum, distance, squares float64
	for i := 0; center && i < len(x); i += reduceBlock {
		sum += float64(reduceOn(s).sum(x[i:min(len(x), i+reduceBlock)]))
	}
	mean = float32(sum / float64(len(x)))
	for i := 0; i < len(x); i += reduceBlock {
		d, sq := reduceOn(s).deviations(x[i:min(len(x), i+reduceBlock)], mean)
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

// SoftmaxArgs are the arguments of Softmax, along the middle axis of [Outer, N, Inner]. Dst may be X.
type SoftmaxArgs struct {
	Dst, X          Weights
	Outer, N, Inner int
	Log             bool
}

// Softmax computes exp(x-max)/sum(exp(x-max)) or, if Log is set, x-max-log(sum(exp(x-max))). A row of -Inf only gives
// NaN.
func Softmax(p *Pool, g SoftmaxArgs) {
	if n := g.Outer * g.N * g.Inner; g.Dst.Len() < n || g.X.Len() < n {
		panic("BUG: Softmax: a slice is short")
	}
	if g.N == 0 || g.Inner == 0 {
		return
	}
	if g.Inner == 1 {
		if g.long(p) {
			softmaxLong(p, g)
			return
		}
		split(p, g.Outer, rowGrain(4*g.N), softmaxRows{g, p})
		return
	}
	split(p, g.Outer*g.strips(), rowGrain(4*g.N*softmaxWidth), softmaxColumns{g, p})
}

// ScratchSize returns what Softmax needs. It reads only the sizes and the type of X.
func (g SoftmaxArgs) ScratchSize() ScratchSize {
	switch {
	case g.X.kind == dtype.F32:
		return ScratchSize{Shared: floats(ceilDiv(g.N, softmaxChunk), g.N/reduceBlock+1)}
	case g.Inner == 1:
		return ScratchSize{Worker: floats(g.N, spread, spread)}
	}
	return ScratchSize{Worker: floats(g.N*softmaxWidth, softmaxWidth, softmaxWidth, softmaxWidth)}
}

func (g SoftmaxArgs) strips() int { return (g.Inner + softmaxWidth - 1) / softmaxWidth }

type softmaxRows struct {
	SoftmaxArgs
	p *Pool
}

func (g *softmaxRows) do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.scratch(worker)
	spreads, temporary := sc.floats(spread), sc.floats(spread)
	buf := g.X.buffer(sc, g.N)
	for r := lo; r < hi; r++ {
		d, x := g.Dst.room(r*g.N, g.N, buf), g.X.row(s, r*g.N, g.N, buf)
		if reduceOn(s).softmax != nil {
			reduceOn(s).softmax.row(s, d, x, g.Log)
		} else {
			softmaxRowByParts(s, d, x, g.Log, spreads, temporary)
		}
		g.Dst.put(s, r*g.N, d)
	}
}

// softmaxColumns goes down strips of columns.
type softmaxColumns struct {
	SoftmaxArgs
	p *Pool
}

const softmaxWidth = 128 // columns of a strip

func (g *softmaxColumns) do(lo, hi, worker int) {
	var sum [softmaxWidth]float64
	s, sc, n := g.p.Set, g.p.scratch(worker), g.N
	most, temporary, part := sc.floats(softmaxWidth), sc.floats(softmaxWidth), sc.floats(softmaxWidth)
	block := g.X.buffer(sc, n*softmaxWidth)
	for t := lo; t < hi; t++ {
		strip := t % g.strips() * softmaxWidth
		at, w := t/g.strips()*n*g.Inner+strip, min(softmaxWidth, g.Inner-strip)
		top, exp := most[:w], temporary[:w]
		row := func(j int) (x, d []float32) { // row j of the operand, and memory for its result
			if block == nil {
				return g.X.f32[at+j*g.Inner:][:w], g.Dst.f32[at+j*g.Inner:][:w]
			}
			return block[j*w:][:w], block[j*w:][:w]
		}
		for j := 0; block != nil && j < n; j++ {
			g.X.row(s, at+j*g.Inner, w, block[j*w:])
		}
		if reduceOn(s).softmax != nil {
			x, d, ld := block, block, w
			if block == nil {
				x, d, ld = g.X.f32[at:], g.Dst.f32[at:], g.Inner
			}
			reduceOn(s).softmax.columns(s, d, x, n, ld, g.Log, top, part[:w], exp, sum[:w])
			for j := 0; block != nil && j < n; j++ {
				g.Dst.put(s, at+j*g.Inner, block[j*w:][:w])
			}
			continue
		}
		for j := range n {
			if x, _ := row(j); j == 0 {
				copy(top, x)
			} else {
				elemOn(s).binary[Max](top, top, x)
			}
		}
		clear(sum[:])
		clear(part)
		for j := range n {
			x, d := row(j)
			elemOn(s).binary[Sub](d, x, top)
			e := d
			if g.Log {
				e = exp
			}
			apply(s, Exp, e, d)
			elemOn(s).binary[Add](part[:w], part[:w], e)
			if j%reduceRows == reduceRows-1 || j == n-1 {
				for i, v := range part[:w] {
					sum[i] += float64(v)
				}
				clear(part)
			}
		}
		f := Div
		for i, v := range sum[:w] {
			if exp[i] = float32(v); g.Log {
				f, exp[i] = Sub, float32(math.Log(v))
			}
		}
		for j := range n {
			_, d := row(j)
			elemOn(s).binary[f](d, d, exp)
			g.Dst.put(s, at+j*g.Inner, d)
		}
	}
}

// softmaxRowByParts is for sets without softmaxRoutines. buf and temporary have spread elements.
func softmaxRowByParts(s *isa.Set, dst, x []float32, log bool, buf, temporary []float32) {
	nr := s.Lanes
	whole := len(x) / nr * nr
	copy(dst, x)
	tops := spreadTo(buf, float32(math.Inf(-1)), nr)
	normOn(s).narrow.scoreMax(dst[:whole], 1, tops)
	top := tops[0]
	for _, v := range tops {
		raise(&top, v)
	}
	for _, v := range x[whole:] {
		raise(&top, v)
	}
	withNumber(elemOn(s).binary[Sub], dst, top, buf)
	if log {
		var sum float64
		for i := 0; i < len(dst); i += spread {
			e := temporary[:min(spread, len(dst)-i)]
			clear(temporary[copy(temporary, dst[i:i+len(e)]):])
			apply(s, Exp, temporary[:(len(e)+15)&^15], temporary[:(len(e)+15)&^15])
			sum += float64(reduceOn(s).sum(e))
		}
		withNumber(elemOn(s).binary[Sub], dst, float32(math.Log(sum)), buf)
		return
	}
	// The last elements are computed in a whole vector too, so that their bits do not depend on their position.
	whole = len(dst) &^ 15
	apply(s, Exp, dst[:whole], dst[:whole])
	rest := temporary[:16]
	clear(rest[copy(rest, dst[whole:]):])
	apply(s, Exp, rest, rest)
	copy(dst[whole:], rest)
	withNumber(elemOn(s).binary[Mul], dst, 1/reduceOn(s).sum(dst), buf)
}

// withNumber is dst = f(dst, y). buf has spread elements.
func withNumber(f func(dst, a, b []float32), dst []float32, y float32, buf []float32) {
	b := spreadTo(buf, y, len(dst))
	for len(dst) > 0 {
		n := min(len(dst), spread)
		f(dst[:n], dst[:n], b[:n])
		dst = dst[n:]
	}
}
