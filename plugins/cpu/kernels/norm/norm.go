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
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
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

// BatchNormArgs are the arguments of BatchNorm. X and Dst are [Batch, Channels, Area], the other operands [Channels].
// Dst may be X.
type BatchNormArgs struct {
	Dst, X, Gamma, Beta, Mean, Variance []float32

	Batch, Channels, Area int
	Eps                   float32

	// Kept is not nil if the calls with it have the same operands but X.
	Kept *BatchNormKept
}

// BatchNormKept keeps what BatchNorm computes of the operands but X. A root and a division for each channel take longer
// than a small image.
type BatchNormKept struct {
	channelBy, channelShift []float32 // see affine
	near                    []bool
	by, shift               []float32 // see batchNormRows
	area                    int       // of by and shift
	allNear, made           bool
}

// BatchNormKeptSize returns the bytes that Kept takes for images of so many channels and pixels, or fewer pixels.
func BatchNormKeptSize(channels, area int) int64 {
	n := channels * min(area, shortArea)
	return pool.SizeOf[bool](channels) + pool.FloatBytes(channels, channels, n, n)
}

// affine is the function x*by + shift, and whether it is exact enough in float32; see nearMean.
type affine struct {
	by, shift float32
	near      bool
}

// make computes what does not depend on the area.
func (k *BatchNormKept) make(g *BatchNormArgs) {
	if k.made {
		return
	}
	n := g.Channels
	k.channelBy, k.channelShift, k.near = make([]float32, n), make([]float32, n), make([]bool, n)
	k.allNear, k.made = true, true
	for c := range n {
		a := g.channel(c)
		k.channelBy[c], k.channelShift[c], k.near[c] = a.by, a.shift, a.near
		k.allNear = k.allNear && a.near
	}
}

// rows returns by and shift for rows of all channels.
func (k *BatchNormKept) rows(g *BatchNormArgs) (by, shift []float32) {
	if k.area != g.Area {
		n := g.Channels * g.Area
		k.by, k.shift, k.area = pool.Sized(k.by, n), pool.Sized(k.shift, n), g.Area
		for c := range g.Channels {
			vec.Fill(k.by[c*g.Area:][:g.Area], k.channelBy[c])
			vec.Fill(k.shift[c*g.Area:][:g.Area], k.channelShift[c])
		}
	}
	return k.by, k.shift
}

// BatchNorm computes (x-mean)/sqrt(variance+eps)*gamma + beta.
func BatchNorm(p *pool.Pool, g *BatchNormArgs) {
	if n := g.Batch * g.Channels * g.Area; len(g.Dst) < n || len(g.X) < n ||
		min(len(g.Gamma), len(g.Beta), len(g.Mean), len(g.Variance)) < g.Channels {
		panic("BUG: BatchNorm: a slice is short")
	}
	if g.Kept != nil {
		g.Kept.make(g)
	}
	x := batchNorm{*g, p}
	if g.Area <= shortArea && g.Batch > 0 {
		n := g.Channels * g.Area
		rows, ok := batchNormRows{batchNorm: x}, true
		if g.Kept == nil {
			p.Shared.Reset()
			rows.by, rows.shift = p.Shared.Floats(n), p.Shared.Floats(n)
			ok = rows.fill()
		} else if ok = g.Kept.allNear; ok {
			rows.by, rows.shift = g.Kept.rows(g)
		}
		if ok {
			pool.Split(p, g.Batch*rows.pieces(), max(1, pool.Grain/elementwise.Spread), rows)
			return
		}
	}
	pool.Split(p, g.Batch*g.Channels, pool.RowGrain(g.Area), x)
}

// BatchNormScratch returns what BatchNorm needs for images of so many channels and pixels.
func BatchNormScratch(channels, area int) pool.Size {
	r := pool.Size{Worker: pool.FloatBytes(elementwise.Spread, elementwise.Spread, 1, 1)}
	n := channels * min(area, shortArea) // smaller images may come, too
	r.Shared = pool.FloatBytes(n, n)
	return r
}

// batchNormRows multiplies and adds elements of all channels at once, because rows of one channel would be too short.
type batchNormRows struct {
	batchNorm
	by, shift []float32 // [channels, area]
}

// fill sets by and shift. It reports whether that is as exact for all channels; see nearMean.
func (g *batchNormRows) fill() bool {
	for c := range g.Channels {
		a := g.channel(c)
		vec.Fill(g.by[c*g.Area:][:g.Area], a.by)
		vec.Fill(g.shift[c*g.Area:][:g.Area], a.shift)
		if !a.near {
			return false
		}
	}
	return true
}

// pieces returns the number of pieces of an image. A vector routine may round the last elements of its operands
// differently, so the pieces must not depend on the number of threads.
func (g *batchNormRows) pieces() int { return pool.CeilDiv(len(g.by), elementwise.Spread) }

// Do computes pieces [lo, hi) of all images.
func (g *batchNormRows) Do(lo, hi, _ int) {
	n, pieces := len(g.by), g.pieces()
	for i := lo; i < hi; i++ {
		at := i % pieces * elementwise.Spread
		m, first := min(elementwise.Spread, n-at), i/pieces*n+at
		reduce.On(g.p.Set).Normalize(g.Dst[first:][:m], g.X[first:][:m], g.by[at:][:m], g.shift[at:][:m], 0, 1, 0)
	}
}

type batchNorm struct {
	BatchNormArgs
	p *pool.Pool
}

func (g *batchNorm) Do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	gamma, beta := sc.Floats(elementwise.Spread), sc.Floats(elementwise.Spread)
	one, two := sc.Floats(1), sc.Floats(1)
	for r, rows := lo, 1; r < hi; r += rows {
		c, by, shift, near := r%g.Channels, one, two, false
		if k := g.Kept; k != nil {
			by, shift, near = k.channelBy[c:], k.channelShift[c:], k.near[c]
		} else {
			a := g.channel(c)
			by[0], shift[0], near = a.by, a.shift, a.near
		}
		rows = 1
		for g.Kept != nil && near && rows < min(hi-r, g.Channels-c) && g.Kept.near[c+rows] {
			rows++
		}
		dst, x := g.Dst[r*g.Area:][:rows*g.Area], g.X[r*g.Area:][:rows*g.Area]
		if near {
			elementwise.MulAddRows(s, dst, x, g.Area, by, shift)
		} else {
			normalizeRow(s, dst, x, g.Gamma[c], g.Beta[c], g.Mean[c], float32(g.scale(c)), 0, gamma, beta)
		}
	}
}

func (g *BatchNormArgs) scale(c int) float64 {
	return 1 / math.Sqrt(float64(g.Variance[c])+float64(g.Eps))
}

// channel returns the function of a channel.
func (g *BatchNormArgs) channel(c int) affine {
	scale := g.scale(c)
	by := scale * float64(g.Gamma[c])
	shift := float64(g.Beta[c]) - float64(g.Mean[c])*by
	return affine{float32(by), float32(shift),
		math.Abs(float64(g.Mean[c])*scale) <= nearMean && math.Abs(by)+math.Abs(shift) <= math.MaxFloat32}
}

// A batch norm becomes one multiplication and one addition for each element if the mean is at most this many standard
// deviations. That costs an error of the same number of units in the last place of gamma.
const nearMean = 16

// normalizeRow is dst = ((x-mean)*scale + shift)*gamma + beta. one and two are buffers of spread elements.
func normalizeRow(s *isa.Set, dst, x []float32, gamma, beta, mean, scale, shift float32, one, two []float32) {
	one, two = elementwise.SpreadTo(one, gamma, len(x)), elementwise.SpreadTo(two, beta, len(x))
	for i := 0; i < len(x); i += elementwise.Spread {
		m := min(elementwise.Spread, len(x)-i)
		reduce.On(s).Normalize(dst[i:i+m], x[i:i+m], one[:m], two[:m], mean, scale, shift)
	}
}

// A call of a routine costs as much as about shortArea elements. Up to longArea elements, spreading gamma and beta over
// a row takes longer than to pass over it three times.
const shortArea, longArea = 16, 1 << 10

// scaleRow is dst = ((x-mean)-rest)*scale + beta. dst may be x.
func scaleRow(s *isa.Set, dst, x []float32, mean, rest, scale, beta float32) {
	f := reduce.On(s).Softmax
	if f == nil || len(x) < shortArea {
		for i, v := range x {
			dst[i] = float32(((v-mean)-rest)*scale) + beta // rounded, so that no processor fuses the sum
		}
		return
	}
	f.ShiftRow(&dst[0], &x[0], len(x), mean, rest)
	f.ScaleRow(&dst[0], len(x), scale)
	f.ShiftRow(&dst[0], &dst[0], len(x), -beta, 0)
}

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

// SoftmaxArgs are the arguments of Softmax, along the middle axis of [Outer, N, Inner]. Dst may be X.
type SoftmaxArgs struct {
	Dst, X          stored.Values
	Outer, N, Inner int
	Log             bool
}

// Softmax computes exp(x-max)/sum(exp(x-max)) or, if Log is set, x-max-log(sum(exp(x-max))). A row of -Inf only gives
// NaN.
func Softmax(p *pool.Pool, g SoftmaxArgs) {
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
		pool.Split(p, g.Outer, pool.RowGrain(4*g.N), softmaxRows{g, p})
		return
	}
	pool.Split(p, g.Outer*g.strips(), pool.RowGrain(4*g.N*softmaxWidth), softmaxColumns{g, p})
}

// ScratchSize returns what Softmax needs. It reads only the sizes and the type of X.
func (g SoftmaxArgs) ScratchSize() pool.Size {
	switch {
	case g.X.Kind == dtype.F32:
		return pool.Size{Shared: pool.FloatBytes(pool.CeilDiv(g.N, softmaxChunk), g.N/reduce.Block+1)}
	case g.Inner == 1:
		return pool.Size{Worker: pool.FloatBytes(g.N, elementwise.Spread, elementwise.Spread)}
	}
	return pool.Size{Worker: pool.FloatBytes(g.N*softmaxWidth, softmaxWidth, softmaxWidth, softmaxWidth)}
}

func (g SoftmaxArgs) strips() int { return (g.Inner + softmaxWidth - 1) / softmaxWidth }

type softmaxRows struct {
	SoftmaxArgs
	p *pool.Pool
}

func (g *softmaxRows) Do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	spreads, temporary := sc.Floats(elementwise.Spread), sc.Floats(elementwise.Spread)
	buf := g.X.Buffer(sc, g.N)
	for r := lo; r < hi; r++ {
		d, x := g.Dst.Room(r*g.N, g.N, buf), g.X.Row(s, r*g.N, g.N, buf)
		if reduce.On(s).Softmax != nil {
			reduce.On(s).Softmax.Row(s, d, x, g.Log)
		} else {
			softmaxRowByParts(s, d, x, g.Log, spreads, temporary)
		}
		g.Dst.Put(s, r*g.N, d)
	}
}

// softmaxColumns goes down strips of columns.
type softmaxColumns struct {
	SoftmaxArgs
	p *pool.Pool
}

const softmaxWidth = 128 // columns of a strip

func (g *softmaxColumns) Do(lo, hi, worker int) {
	var sum [softmaxWidth]float64
	s, sc, n := g.p.Set, g.p.Scratch(worker), g.N
	most, temporary, part := sc.Floats(softmaxWidth), sc.Floats(softmaxWidth), sc.Floats(softmaxWidth)
	block := g.X.Buffer(sc, n*softmaxWidth)
	for t := lo; t < hi; t++ {
		strip := t % g.strips() * softmaxWidth
		at, w := t/g.strips()*n*g.Inner+strip, min(softmaxWidth, g.Inner-strip)
		top, exp := most[:w], temporary[:w]
		row := func(j int) (x, d []float32) { // row j of the operand, and memory for its result
			if block == nil {
				return g.X.Floats[at+j*g.Inner:][:w], g.Dst.Floats[at+j*g.Inner:][:w]
			}
			return block[j*w:][:w], block[j*w:][:w]
		}
		for j := 0; block != nil && j < n; j++ {
			g.X.Row(s, at+j*g.Inner, w, block[j*w:])
		}
		if reduce.On(s).Softmax != nil {
			x, d, ld := block, block, w
			if block == nil {
				x, d, ld = g.X.Floats[at:], g.Dst.Floats[at:], g.Inner
			}
			reduce.On(s).Softmax.Columns(s, d, x, n, ld, g.Log, top, part[:w], exp, sum[:w])
			for j := 0; block != nil && j < n; j++ {
				g.Dst.Put(s, at+j*g.Inner, block[j*w:][:w])
			}
			continue
		}
		for j := range n {
			if x, _ := row(j); j == 0 {
				copy(top, x)
			} else {
				elementwise.On(s).Binary[elementwise.Max](top, top, x)
			}
		}
		clear(sum[:])
		clear(part)
		for j := range n {
			x, d := row(j)
			elementwise.On(s).Binary[elementwise.Sub](d, x, top)
			e := d
			if g.Log {
				e = exp
			}
			elementwise.Apply(s, elementwise.Exp, e, d)
			elementwise.On(s).Binary[elementwise.Add](part[:w], part[:w], e)
			if j%reduce.Rows == reduce.Rows-1 || j == n-1 {
				for i, v := range part[:w] {
					sum[i] += float64(v)
				}
				clear(part)
			}
		}
		f := elementwise.Div
		for i, v := range sum[:w] {
			exp[i] = float32(v)
			if g.Log {
				f, exp[i] = elementwise.Sub, float32(math.Log(v))
			}
		}
		for j := range n {
			_, d := row(j)
			elementwise.On(s).Binary[f](d, d, exp)
			g.Dst.Put(s, at+j*g.Inner, d)
		}
	}
}

// softmaxRowByParts is for sets without reduce.softmaxRoutines. buf and temporary have spread elements.
func softmaxRowByParts(s *isa.Set, dst, x []float32, log bool, buf, temporary []float32) {
	nr := s.Lanes
	whole := len(x) / nr * nr
	copy(dst, x)
	tops := elementwise.SpreadTo(buf, float32(math.Inf(-1)), nr)
	On(s).Narrow.ScoreMax(dst[:whole], 1, tops)
	top := tops[0]
	for _, v := range tops {
		Raise(&top, v)
	}
	for _, v := range x[whole:] {
		Raise(&top, v)
	}
	withNumber(elementwise.On(s).Binary[elementwise.Sub], dst, top, buf)
	if log {
		var sum float64
		for i := 0; i < len(dst); i += elementwise.Spread {
			e := temporary[:min(elementwise.Spread, len(dst)-i)]
			clear(temporary[copy(temporary, dst[i:i+len(e)]):])
			elementwise.Apply(s, elementwise.Exp, temporary[:(len(e)+15)&^15], temporary[:(len(e)+15)&^15])
			sum += float64(reduce.On(s).Sum(e))
		}
		withNumber(elementwise.On(s).Binary[elementwise.Sub], dst, float32(math.Log(sum)), buf)
		return
	}
	// The last elements are computed in a whole vector too, so that their bits do not depend on their position.
	whole = len(dst) &^ 15
	elementwise.Apply(s, elementwise.Exp, dst[:whole], dst[:whole])
	rest := temporary[:16]
	clear(rest[copy(rest, dst[whole:]):])
	elementwise.Apply(s, elementwise.Exp, rest, rest)
	copy(dst[whole:], rest)
	withNumber(elementwise.On(s).Binary[elementwise.Mul], dst, 1/reduce.On(s).Sum(dst), buf)
}

// withNumber is dst = f(dst, y). buf has spread elements.
func withNumber(f func(dst, a, b []float32), dst []float32, y float32, buf []float32) {
	b := elementwise.SpreadTo(buf, y, len(dst))
	for len(dst) > 0 {
		n := min(len(dst), elementwise.Spread)
		f(dst[:n], dst[:n], b[:n])
		dst = dst[n:]
	}
}
