package norm

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

// GroupBackwardArgs are the arguments of GroupBackward, for X, DY and DX [Batch,Channels,Area]. Groups divides
// Channels. The others have Channels elements. DX may be X or DY.
type GroupBackwardArgs struct {
	DX, DGamma, DBeta, X, Gamma, DY []float32

	Batch, Channels, Area, Groups int
	Eps                           float32
}

// GroupBackward computes the gradients of a group norm, of x, gamma and beta. A group is read from memory once, if it
// fits in the cache. The sums of a channel are added in the order of the batch, for any number of threads.
func GroupBackward(p *pool.Pool, g GroupBackwardArgs) {
	if n := g.Batch * g.Channels * g.Area; min(len(g.DX), len(g.X), len(g.DY)) < n ||
		min(len(g.DGamma), len(g.DBeta), len(g.Gamma)) < g.Channels {
		panic("BUG: norm: a slice is short")
	}
	clear(g.DGamma[:g.Channels])
	clear(g.DBeta[:g.Channels])
	if g.Batch*g.Channels*g.Area == 0 {
		return
	}
	p.Shared.Reset()
	sums := p.Shared.Floats(2 * g.Batch * g.Channels)
	pool.Split(p, g.Batch*g.Groups, pool.RowGrain(g.Channels/g.Groups*g.Area), groupBackward{g, p, sums})
	add := elementwise.On(p.Set).Binary[elementwise.Add]
	for b := range g.Batch {
		add(g.DGamma[:g.Channels], g.DGamma[:g.Channels], sums[2*b*g.Channels:][:g.Channels])
		add(g.DBeta[:g.Channels], g.DBeta[:g.Channels], sums[(2*b+1)*g.Channels:][:g.Channels])
	}
}

// GroupBackwardScratch returns what GroupBackward needs.
func GroupBackwardScratch(batch, channels int) pool.Size {
	spread := elementwise.Spread
	return pool.Size{Shared: pool.FloatBytes(2 * batch * channels),
		Worker: pool.FloatBytes(spread, spread, spread, spread)}
}

type groupBackward struct {
	GroupBackwardArgs
	p    *pool.Pool
	sums []float32 // of each batch element: Channels for gamma and Channels for beta
}

func (g *groupBackward) Do(lo, hi, worker int) {
	s, sc, per := g.p.Set, g.p.Scratch(worker), g.Channels/g.Groups
	w := chunks{s: s, hat: sc.Floats(elementwise.Spread), product: sc.Floats(elementwise.Spread),
		ones:  elementwise.SpreadTo(sc.Floats(elementwise.Spread), 1, elementwise.Spread),
		zeros: sc.Floats(elementwise.Spread)}
	clear(w.zeros)
	for r := lo; r < hi; r++ {
		first, size := r%g.Groups*per, per*g.Area
		sums := g.sums[2*(r/g.Groups)*g.Channels:]
		dgamma, dbeta := sums[first:first+per], sums[g.Channels+first:][:per]
		x, dy, dx := g.X[r*size:(r+1)*size], g.DY[r*size:(r+1)*size], g.DX[r*size:(r+1)*size]
		w.mean, w.scale, w.shift = moments(s, x, g.Eps, true)
		var base, slope float64
		for c := range per {
			at := c * g.Area
			hat, plain := w.sums(x[at:at+g.Area], dy[at:at+g.Area])
			dgamma[c], dbeta[c] = float32(hat), float32(plain)
			gamma := float64(g.Gamma[first+c])
			if math.IsInf(gamma, 0) { // a sum of infinities of both signs is NaN
				plain, hat = w.each(x[at:at+g.Area], dy[at:at+g.Area])
			}
			base += gamma * plain
			slope += gamma * hat
		}
		for c := range per {
			at := c * g.Area
			w.back(dx[at:at+g.Area], x[at:at+g.Area], dy[at:at+g.Area], g.Gamma[first+c], float32(base/float64(size)),
				float32(slope/float64(size)))
		}
	}
}

// chunks computes with the elements of a channel, at most elementwise.Spread at a time. The others are those of
// moments.
type chunks struct {
	s                         *isa.Set
	hat, product, ones, zeros []float32
	mean, scale, shift        float32
}

// affine is dst = (x-mean)*scale + shift.
func (w *chunks) affine(dst, x []float32, mean, scale, shift float32) {
	if len(x) < 8 { // a call costs more
		for i, v := range x {
			dst[i] = float32((v-mean)*scale) + shift
		}
		return
	}
	reduce.On(w.s).Normalize(dst, x, w.ones[:len(x)], w.zeros[:len(x)], mean, scale, shift)
}

// sums returns the sums of dy*xhat and of dy.
func (w *chunks) sums(x, dy []float32) (hat, plain float64) {
	for i := 0; i < len(x); i += elementwise.Spread {
		m := min(elementwise.Spread, len(x)-i)
		h, d := w.hat[:m], dy[i:i+m]
		w.affine(h, x[i:i+m], w.mean, w.scale, w.shift)
		if m < 8 {
			for k, v := range d {
				hat += float64(v * h[k])
				plain += float64(v)
			}
			continue
		}
		elementwise.On(w.s).Binary[elementwise.Mul](w.product[:m], d, h)
		hat += float64(reduce.On(w.s).Sum(w.product[:m]))
		plain += float64(reduce.On(w.s).Sum(d))
	}
	return hat, plain
}

// each returns an infinity times which is the sum of that infinity times each dy, and times each dy*xhat: NaN if they
// have both signs, or one is 0.
func (w *chunks) each(x, dy []float32) (plain, hat float64) {
	inf := math.Inf(1)
	for i, d := range dy {
		h := float32((x[i]-w.mean)*w.scale) + w.shift
		plain += inf * float64(d)
		hat += inf * float64(d*h)
	}
	return plain, hat
}

// back is dx = scale*(dy*gamma - base - xhat*slope). dx may be x or dy.
func (w *chunks) back(dx, x, dy []float32, gamma, base, slope float32) {
	sub := elementwise.On(w.s).Binary[elementwise.Sub]
	for i := 0; i < len(x); i += elementwise.Spread {
		m := min(elementwise.Spread, len(x)-i)
		h, t := w.hat[:m], w.product[:m]
		w.affine(h, x[i:i+m], w.mean, w.scale, w.shift)
		w.affine(h, h, 0, slope, 0)
		w.affine(t, dy[i:i+m], 0, gamma, 0)
		sub(t, t, h)
		w.affine(dx[i:i+m], t, base, w.scale, 0)
	}
}
