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
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
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

// byHead reports whether a worker computes all gradients of one key and value head alone. The products of one are too
// small to share, unless there are few heads. It does not depend on the number of threads, so that the bits do not.
func (g *BackwardArgs) byHead() bool { return g.B*g.KVHeads >= 8 }

// rows returns the number of queries of a strip. Short strips leave out more of what a causal mask hides.
func (g *BackwardArgs) rows() int {
	most := 128
	if g.byHead() {
		most = 64
	}
	return min(max(g.SQ, 1), max(16, min(most, backwardStrip/max(1, g.SK))))
}

// BackwardScratch returns what Backward needs.
func BackwardScratch(p *pool.Pool, g BackwardArgs) (r pool.Size) {
	t := g.rows()
	strips := pool.FloatBytes(2*t*g.SK, 2*t)
	if g.DBias != nil {
		strips += pool.FloatBytes(t * g.SK)
	}
	products := []product.GemmArgs{
		{M: t, N: g.SK, K: g.KeyDim, TransB: true}, {M: t, N: g.SK, K: g.ValueDim, TransB: true},
		{M: g.SK, N: g.ValueDim, K: t, TransA: true}, {M: g.SK, N: g.KeyDim, K: t, TransA: true},
		{M: t, N: g.KeyDim, K: g.SK},
	}
	each := pool.FloatBytes(g.SK, 1)
	r = pool.Size{Other: strips, Worker: each}
	if g.byHead() {
		r.Other *= int64(p.Threads())
	}
	for _, x := range products {
		// Strips of fewer keys and rows may take other routes, and a smaller batch may not be computed by heads.
		r = r.With(x.ScratchSize(p))
		if g.byHead() {
			r.Worker = max(r.Worker, x.AloneScratch(p)+each)
		}
	}
	return r
}

// backward has the state of Backward. Gradients are computed for a strip of queries of one head after another: the
// strip's scores against all its keys become weights, and then their gradients, which the products read. So the scores
// are not stored, each is computed once, and sums over queries are in the same order for any number of threads.
type backward struct {
	BackwardArgs
	p      *pool.Pool
	strips []strip // by worker if heads are computed by one worker each, else one
}

// A strip is a number of queries of a head that are computed together.
type strip struct {
	*backward
	alone   bool // one worker computes the strip
	worker  int
	product product.GemmArgs

	weights, scores, bias []float32 // [rows, keys]
	lost                  []float32 // for each query: what its sink loses
	odd                   []bool    // for each query: whether there are infinities or NaN among q.k and dy.v

	b, head, first, offset, lo, keys int // the keys are [lo, lo+keys)
}

// Backward computes the gradients.
func Backward(p *pool.Pool, args *BackwardArgs) {
	g := pool.Keep[backward](p)
	g.BackwardArgs, g.p = *args, p
	for _, d := range [][]float32{g.DQ, g.DK, g.DV, g.DBias, g.DSinks} {
		clear(d)
	}
	alone := g.byHead() && g.separate()
	n, t := 1, g.rows()
	if alone {
		n = p.Threads()
	}
	for len(g.strips) < n {
		g.strips = append(g.strips, strip{})
	}
	for i := range g.strips[:n] {
		x := &g.strips[i]
		x.backward, x.alone, x.worker = g, alone, i
		x.weights, x.scores = pool.Sized(x.weights, t*g.SK), pool.Sized(x.scores, t*g.SK)
		x.lost, x.odd = pool.Sized(x.lost, t), pool.Sized(x.odd, t)
		if g.DBias != nil {
			x.bias = pool.Sized(x.bias, t*g.SK)
		}
	}
	if alone {
		p.Each(g.B*g.KVHeads, 1, (*headGradients)(g))
		return
	}
	for h := range g.B * g.KVHeads {
		g.strips[0].group(h)
	}
}

// separate reports whether no two heads of keys add to the same gradient of the bias or of a sink.
func (g *BackwardArgs) separate() bool {
	if g.DSinks != nil && g.B > 1 {
		return false
	}
	return g.DBias == nil || (g.MaskStride[0] != 0 || g.B == 1) && (g.MaskStride[1] != 0 || g.KVHeads == 1)
}

// headGradients computes heads of keys and values, one after another.
type headGradients backward

func (x *headGradients) Do(lo, hi, worker int) {
	for h := lo; h < hi; h++ {
		x.strips[worker].group(h)
	}
}

// group adds the gradients that one head of keys and values has a part in: number h, counted over batch elements.
func (g *strip) group(h int) {
	t := g.rows()
	g.b = h / g.KVHeads
	keys, offset := g.Span(g.b)
	g.offset = offset
	share := g.Heads / g.KVHeads
	for g.head = h % g.KVHeads * share; g.head < (h%g.KVHeads+1)*share; g.head++ {
		for g.first = 0; g.first < g.SQ; g.first += t {
			n := min(t, g.SQ-g.first)
			lo, _ := g.keyRange(g.first+offset, keys)
			_, hi := g.keyRange(g.first+n-1+offset, keys)
			if g.lo, g.keys = lo, hi-lo; g.keys > 0 {
				g.add(n)
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

// multiply computes a product, by this worker if the strip is computed alone.
func (g *strip) multiply(x product.GemmArgs) {
	g.product = x
	if g.alone {
		g.product.Alone(g.p, g.worker)
		return
	}
	product.Gemm(g.p, &g.product)
}

// add adds the gradients that n queries give.
func (g *strip) add(n int) {
	kv := g.head * g.KVHeads / g.Heads
	at := func(s Strides, head, i int) int { return g.b*s.Batch + head*s.Head + i*s.Seq }
	q, dy := at(g.QStride, g.head, g.first), at(g.OutStride, g.head, g.first)
	k, v := at(g.KStride, kv, g.lo), at(g.VStride, kv, g.lo)
	g.multiply(product.GemmArgs{M: n, N: g.keys, K: g.KeyDim, A: g.Q[q:], LDA: g.QStride.Seq, B: stored.F32(g.K[k:]),
		LDB: g.KStride.Seq, TransB: true, C: g.weights, LDC: g.keys})
	g.multiply(product.GemmArgs{M: n, N: g.keys, K: g.ValueDim, A: g.DY[dy:], LDA: g.OutStride.Seq,
		B: stored.F32(g.V[v:]), LDB: g.VStride.Seq, TransB: true, C: g.scores, LDC: g.keys})
	if g.alone {
		g.Do(0, n, g.worker)
	} else {
		g.p.Share(n, pool.RowGrain(8*g.keys), g)
	}
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
	g.multiply(product.GemmArgs{M: g.keys, N: g.ValueDim, K: n, A: g.weights, LDA: g.keys, TransA: true,
		B: stored.F32(g.DY[dy:]), LDB: g.OutStride.Seq, C: g.DV[v:], LDC: g.VStride.Seq, Residual: g.DV[v:],
		LDR: g.VStride.Seq})
	g.multiply(product.GemmArgs{M: g.keys, N: g.KeyDim, K: n, A: g.scores, LDA: g.keys, TransA: true,
		B: stored.F32(g.Q[q:]), LDB: g.QStride.Seq, C: g.DK[k:], LDC: g.KStride.Seq, Residual: g.DK[k:],
		LDR: g.KStride.Seq})
	g.multiply(product.GemmArgs{M: n, N: g.KeyDim, K: g.keys, A: g.scores, LDA: g.keys, B: stored.F32(g.K[k:]),
		LDB: g.KStride.Seq, C: g.DQ[q:], LDC: g.QStride.Seq})
}

// addPairs adds the contributions of the pairs of a query and a key whose weight is not 0. A product of matrices would
// multiply the zeros, too, and an infinity or NaN would reach gradients that do not depend on it.
func (g *strip) addPairs(n, q, dy, k, v int) {
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
func (g *strip) Do(lo, hi, worker int) {
	s, sc := g.p.Set, g.p.Scratch(worker)
	mark := sc.Mark()
	temporary, dot := sc.Floats(g.SK)[:g.keys], sc.Floats(1)
	for i := lo; i < hi; i++ {
		p, ds := g.weights[i*g.keys:(i+1)*g.keys], g.scores[i*g.keys:(i+1)*g.keys]
		g.odd[i] = !reduce.AllFinite(s, p) || !reduce.AllFinite(s, ds)
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
			scale(s, p, g.Scale)
		}
		first, end := g.mask(s, i, p, ds)
		p, ds = p[first:end], ds[first:end]
		mean := g.weigh(s, i, p, ds, dot)
		g.slope(s, i, p, ds, mean)
		if g.DBias != nil {
			copy(g.bias[i*g.keys:], g.scores[i*g.keys:(i+1)*g.keys])
		}
		if g.Softcap != 0 {
			for j, w := range p {
				if w != 0 { // the derivative may be NaN
					ds[j] *= temporary[first+j]
				}
			}
			continue
		}
		scale(s, ds, g.Scale)
	}
	sc.Release(mark)
}

// slope is ds = w * (ds - mean), or 0 where the weight w is 0.
func (g *strip) slope(s *isa.Set, i int, p, ds []float32, mean float32) {
	if f := reduce.On(s).Softmax; f != nil && !g.odd[i] && len(p) > 0 {
		f.ShiftRow(&ds[0], &ds[0], len(ds), mean, 0)
		elementwise.On(s).Binary[elementwise.Mul](ds, ds, p)
		return
	}
	for j, w := range p {
		ds[j] = w * (ds[j] - mean)
		if w == 0 {
			ds[j] = 0
		}
	}
}

// scale multiplies a row by a number.
func scale(s *isa.Set, x []float32, by float32) {
	if f := reduce.On(s).Softmax; f != nil && len(x) > 0 {
		f.ScaleRow(&x[0], len(x), by)
		return
	}
	for i := range x {
		x[i] *= by
	}
}

// mask adds a bias to the scores of row i. It sets scores that take no part to -Inf, and their ds to 0. It returns the
// range of keys that a causal or sliding mask leaves. Outside the range, scores and ds become 0.
func (g *strip) mask(s *isa.Set, i int, score, ds []float32) (first, end int) {
	never := float32(math.Inf(-1))
	first, end = g.keyRange(g.first+i+g.offset, g.lo+g.keys)
	first, end = max(0, first-g.lo), max(0, end-g.lo)
	for _, x := range [][]float32{score, ds} {
		clear(x[:first])
		clear(x[end:])
	}
	if g.Mask != MaskCustom && g.Mask != MaskBias {
		return first, end
	}
	at := g.b*g.MaskStride[0] + g.head*g.MaskStride[1] + (g.first+i)*g.MaskStride[2] + g.lo*g.MaskStride[3]
	if g.Mask == MaskBias && g.MaskStride[3] == 1 {
		elementwise.On(s).Binary[elementwise.Add](score, score, g.MaskF32[at:][:len(score)])
		for j, x := range score {
			if x == never {
				ds[j] = 0
			}
		}
		return first, end
	}
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
	return first, end
}

// weigh turns the scores of row i into softmax weights and returns the sum of weights times dp. dot has one element.
func (g *strip) weigh(s *isa.Set, i int, score, dp, dot []float32) (mean float32) {
	top, sink := float32(math.Inf(-1)), float32(math.Inf(-1))
	if g.Sinks != nil {
		sink = g.Sinks[g.head]
		top = sink
	}
	if f := reduce.On(s).Folds; f != nil && len(score) > 0 {
		top = elementwise.Larger(top, float32(f.Row[reduce.Max](&score[0], len(score))))
	} else {
		for _, x := range score {
			top = elementwise.Larger(top, x)
		}
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
	softmax := reduce.On(s).Softmax
	for j := 0; j < len(score); j += reduce.Block {
		part := score[j:min(len(score), j+reduce.Block)]
		if softmax != nil {
			sum += float64(softmax.ExpRow(&part[0], &part[0], len(part), top))
			continue
		}
		for k, x := range part {
			part[k] = x - top
		}
		elementwise.Apply(s, elementwise.Exp, part, part)
		sum += float64(reduce.On(s).Sum(part))
	}
	own := math.Exp(float64(sink) - float64(top))
	scale(s, score, float32(1/(sum+own)))
	for j := 0; j < len(score); j += reduce.Block {
		w := score[j:min(len(score), j+reduce.Block)]
		vec.On(s).DotRows(dot, 1, w, len(w), 1, dp[j:][:len(w)])
		products += float64(dot[0])
	}
	g.lost[i] = float32(own / (sum + own) * products)
	return float32(products)
}

// weighOdd is weigh for rows with infinities or NaN: those of a key whose weight is 0 reach nothing else.
func (g *strip) weighOdd(i int, score, dp []float32, top, sink float64) (mean float32) {
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
