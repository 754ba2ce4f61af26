package norm

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

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
