package attention

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// BackwardArgs describes the gradients of an attention. Values are as in Args. DQ, DK and DV have the strides of Q, K
// and V.
type BackwardArgs struct {
	B, Heads, KVHeads, SQ, SK, KeyDim, ValueDim int

	Q, K, V, DY                          []float32
	DQ, DK, DV                           []float32
	QStride, KStride, VStride, OutStride Strides

	Scale, Softcap float32
	Mask           MaskKind
	Window         int
	MaskF32        []float32
	MaskBool       []uint8
	MaskStride     [4]int // between batches, heads, queries and keys
	Sinks          []float32

	DBias, DSinks []float32 // the former like MaskF32; nil if not wanted
	// Span returns the number of keys of batch element b and the position of query 0 among them.
	Span func(b int) (keys, offset int)
}

// backwardStrip is the number of scores that Backward keeps, about: 1 MB of them stay in the second-level caches.
const backwardStrip = 1 << 17

// rows returns the number of queries of a strip.
func (g *BackwardArgs) rows() int {
	return min(max(g.SQ, 1), max(16, min(128, backwardStrip/max(1, g.SK))))
}

// BackwardScratch returns what Backward needs.
func BackwardScratch(p *pool.Pool, g BackwardArgs) pool.Size {
	t := g.rows()
	strips := 2
	if g.DBias != nil {
		strips = 3
	}
	r := pool.Size{Other: pool.FloatBytes(strips*t*g.SK, 2*t), Worker: pool.FloatBytes(g.SK)}
	for _, x := range []product.GemmArgs{
		{M: t, N: g.SK, K: g.KeyDim, TransB: true}, {M: t, N: g.SK, K: g.ValueDim, TransB: true},
		{M: g.SK, N: g.ValueDim, K: t, TransA: true}, {M: g.SK, N: g.KeyDim, K: t, TransA: true},
		{M: t, N: g.KeyDim, K: g.SK},
	} {
		// Strips of fewer keys and rows may take other routes.
		r = r.With(x.ScratchSize(p, false))
	}
	return r
}

// backward has the state of Backward. Gradients are computed for a strip of queries of one head after another: the
// strip's scores against all its keys become weights, and then their gradients, which the products read. So the scores
// are not stored, each is computed once, and sums over queries are in the same order for any number of threads.
type backward struct {
	BackwardArgs
	p *pool.Pool

	weights, scores, bias []float32 // strips [rows, keys]
	lost                  []float32 // for each query: what its sink loses
	odd                   []bool    // for each query: whether there are infinities or NaN among q.k and dy.v

	b, head, first, offset, lo, keys int // the strip: its keys are [lo, lo+keys)
}

// Backward computes the gradients.
func Backward(p *pool.Pool, args *BackwardArgs) {
	g := pool.Keep[backward](p)
	g.BackwardArgs, g.p = *args, p
	for _, d := range [][]float32{g.DQ, g.DK, g.DV, g.DBias, g.DSinks} {
		clear(d)
	}
	t := g.rows()
	g.weights, g.scores = pool.Sized(g.weights, t*g.SK), pool.Sized(g.scores, t*g.SK)
	g.lost, g.odd = pool.Sized(g.lost, t), pool.Sized(g.odd, t)
	if g.DBias != nil {
		g.bias = pool.Sized(g.bias, t*g.SK)
	}
	for b := range g.B {
		keys, offset := g.Span(b)
		for h := range g.Heads {
			for i := 0; i < g.SQ; i += t {
				g.b, g.head, g.first, g.offset = b, h, i, offset
				n := min(t, g.SQ-i)
				lo, _ := g.keyRange(i+offset, keys)
				_, hi := g.keyRange(i+n-1+offset, keys)
				if g.lo, g.keys = lo, hi-lo; g.keys > 0 {
					g.strip(n)
				}
			}
		}
	}
}

// keyRange returns the keys [lo, hi) that a query at a position may attend to.
func (g *BackwardArgs) keyRange(position, keys int) (lo, hi int) {
	lo, hi = 0, keys
	if g.Mask == MaskCausal || g.Mask == MaskSliding {
		hi = min(max(position+1, 0), keys)
	}
	if g.Mask == MaskSliding {
		lo = min(max(position-g.Window, 0), hi)
	}
	return lo, hi
}

// strip adds the gradients that n queries give.
func (g *backward) strip(n int) {
	kv := g.head * g.KVHeads / g.Heads
	at := func(s Strides, head, i int) int { return g.b*s.Batch + head*s.Head + i*s.Seq }
	q, dy := at(g.QStride, g.head, g.first), at(g.OutStride, g.head, g.first)
	k, v := at(g.KStride, kv, g.lo), at(g.VStride, kv, g.lo)
	multiply := func(x product.GemmArgs) { product.Gemm(g.p, &x) }
	multiply(product.GemmArgs{M: n, N: g.keys, K: g.KeyDim, A: g.Q[q:], LDA: g.QStride.Seq, B: stored.F32(g.K[k:]),
		LDB: g.KStride.Seq, TransB: true, C: g.weights, LDC: g.keys})
	multiply(product.GemmArgs{M: n, N: g.keys, K: g.ValueDim, A: g.DY[dy:], LDA: g.OutStride.Seq,
		B: stored.F32(g.V[v:]), LDB: g.VStride.Seq, TransB: true, C: g.scores, LDC: g.keys})
	g.p.Share(n, pool.RowGrain(8*g.keys), g)
	if g.DSinks != nil {
		for _, x := range g.lost[:n] {
			g.DSinks[g.head] -= x
		}
	}
	if g.DBias != nil {
		for i := range n {
			to := g.b*g.MaskStride[0] + g.head*g.MaskStride[1] + (g.first+i)*g.MaskStride[2] + g.lo*g.MaskStride[3]
			for j, x := range g.bias[i*g.keys : (i+1)*g.keys] {
				g.DBias[to+j*g.MaskStride[3]] += x
			}
		}
	}
	if slices.Contains(g.odd[:n], true) {
		g.addPairs(n, q, dy, k, v)
		return
	}
	multiply(product.GemmArgs{M: g.keys, N: g.ValueDim, K: n, A: g.weights, LDA: g.keys, TransA: true,
		B: stored.F32(g.DY[dy:]), LDB: g.OutStride.Seq, C: g.DV[v:], LDC: g.VStride.Seq, Residual: g.DV[v:],
		LDR: g.VStride.Seq})
	multiply(product.GemmArgs{M: g.keys, N: g.KeyDim, K: n, A: g.scores, LDA: g.keys, TransA: true,
		B: stored.F32(g.Q[q:]), LDB: g.QStride.Seq, C: g.DK[k:], LDC: g.KStride.Seq, Residual: g.DK[k:],
		LDR: g.KStride.Seq})
	multiply(product.GemmArgs{M: n, N: g.KeyDim, K: g.keys, A: g.scores, LDA: g.keys, B: stored.F32(g.K[k:]),
		LDB: g.KStride.Seq, C: g.DQ[q:], LDC: g.QStride.Seq})
}

// addPairs adds what pairs of a query and a key give whose weight is not 0. A product of matrices would multiply the
// zeros, too, and an infinity or NaN would reach gradients that do not depend on it.
func (g *backward) addPairs(n, q, dy, k, v int) {
	for i := range n {
		from, gradient := q+i*g.QStride.Seq, g.DY[dy+i*g.OutStride.Seq:][:g.ValueDim]
		for j, w := range g.weights[i*g.keys : (i+1)*g.keys] {
			if w == 0 {
				continue
			}
			ds, key := g.scores[i*g.keys+j], k+j*g.KStride.Seq
			for d := range g.KeyDim {
				g.DQ[from+d] += ds * g.K[key+d]
				g.DK[key+d] += ds * g.Q[from+d]
			}
			for d, x := range gradient {
				g.DV[v+j*g.VStride.Seq+d] += w * x
			}
		}
	}
}

// Do turns rows [lo, hi) of the strip: products q.k into weights, and products dy.v into gradients of q.k.
func (g *backward) Do(lo, hi, worker int) {
	s, temporary := g.p.Set, g.p.Scratch(worker).Floats(g.SK)[:g.keys]
	for i := lo; i < hi; i++ {
		p, ds := g.weights[i*g.keys:(i+1)*g.keys], g.scores[i*g.keys:(i+1)*g.keys]
		g.odd[i] = !allFinite(p) || !allFinite(ds)
		if g.Softcap != 0 {
			for j, x := range p {
				temporary[j] = x * (g.Scale / g.Softcap)
			}
			elementwise.Apply(s, elementwise.Tanh, temporary, temporary)
			for j, x := range temporary {
				p[j] = g.Softcap * x
				temporary[j] = g.Scale * (1 - x*x) // the derivative of the score
			}
		} else {
			for j := range p {
				p[j] *= g.Scale
			}
		}
		g.mask(i, p, ds)
		mean := g.weigh(s, i, p, ds)
		for j, w := range p {
			ds[j] = w * (ds[j] - mean)
			if w == 0 {
				ds[j] = 0
			}
		}
		if g.DBias != nil {
			copy(g.bias[i*g.keys:], ds)
		}
		if g.Softcap != 0 {
			for j, w := range p {
				if w != 0 { // the derivative may be NaN
					ds[j] *= temporary[j]
				}
			}
			continue
		}
		for j := range ds {
			ds[j] *= g.Scale
		}
	}
}

// mask sets the scores of row i that take no part to -Inf, and their ds to 0, and adds a bias.
func (g *backward) mask(i int, score, ds []float32) {
	never := float32(math.Inf(-1))
	lo, hi := g.keyRange(g.first+i+g.offset, g.lo+g.keys)
	for j := range score {
		if k := g.lo + j; k < lo || k >= hi {
			score[j], ds[j] = never, 0
		}
	}
	if g.Mask != MaskCustom && g.Mask != MaskBias {
		return
	}
	at := g.b*g.MaskStride[0] + g.head*g.MaskStride[1] + (g.first+i)*g.MaskStride[2] + g.lo*g.MaskStride[3]
	for j := range score {
		x := at + j*g.MaskStride[3]
		switch {
		case g.Mask == MaskBias:
			if score[j] += g.MaskF32[x]; score[j] == never {
				ds[j] = 0
			}
		case g.MaskBool != nil && g.MaskBool[x] == 0, g.MaskF32 != nil && g.MaskF32[x] < 0.5:
			score[j], ds[j] = never, 0
		}
	}
}

// weigh turns the scores of row i into softmax weights and returns the sum of weights times dp.
func (g *backward) weigh(s *isa.Set, i int, score, dp []float32) (mean float32) {
	top, sink := float32(math.Inf(-1)), float32(math.Inf(-1))
	if g.Sinks != nil {
		sink = g.Sinks[g.head]
		top = sink
	}
	for _, x := range score {
		top = elementwise.Larger(top, x)
	}
	g.lost[i] = 0
	if math.IsInf(float64(top), -1) { // no keys
		clear(score)
		return 0
	}
	if g.odd[i] = g.odd[i] || !(top <= math.MaxFloat32); g.odd[i] {
		return g.weighOdd(i, score, dp, float64(top), float64(sink))
	}
	var sum, products float64
	for j, x := range score {
		score[j] = x - top
	}
	elementwise.Apply(s, elementwise.Exp, score, score)
	for j := 0; j < len(score); j += reduce.Block {
		part := score[j:min(len(score), j+reduce.Block)]
		sum += float64(reduce.On(s).Sum(part))
	}
	own := math.Exp(float64(sink) - float64(top))
	by := float32(1 / (sum + own))
	for j, x := range score {
		x *= by
		score[j] = x
		products += float64(x * dp[j])
	}
	g.lost[i] = float32(own / (sum + own) * products)
	return float32(products)
}

// weighOdd is weigh for rows with infinities or NaN: those of a key whose weight is 0 reach nothing else.
func (g *backward) weighOdd(i int, score, dp []float32, top, sink float64) (mean float32) {
	sum, free, products := math.Exp(sink-top), 1.0, 0.0
	for j, x := range score {
		score[j] = 0
		if !math.IsInf(float64(x), -1) {
			score[j] = float32(math.Exp(float64(x) - top))
		}
		sum += float64(score[j])
	}
	for j, w := range score {
		if w != 0 {
			score[j] = float32(float64(w) / sum)
			free -= float64(score[j])
			products += float64(score[j]) * float64(dp[j])
		}
	}
	if g.Sinks != nil {
		g.lost[i] = float32(free * products)
	}
	return float32(products)
}

// allFinite reports whether no element is infinite or NaN.
func allFinite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}
