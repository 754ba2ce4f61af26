package attention

import (
	"math"
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Attention with few queries and many keys, as in text generation. The time goes into reading keys and values, so each
// is read once for all query heads that share it, and threads share the keys: each takes blocks of keys. A block
// results in a partial result for each query: its largest score, the sum of its weights and the sum of its weighted
// values. If there is more than one block, a second step adds up the partial results.

const (
	fewQueries = 4   // maximum number of queries per head
	fewBlock   = 512 // keys of a block, independent of the number of threads
	fewTile    = 64  // keys that are computed together, so that they stay in the L1 cache
)

// few reports whether attentionFew computes a call.
func (g *Args) few() bool { return g.SQ <= fewQueries && g.Precision == product.Float32 }

type attendingFew struct {
	Args
	p      *pool.Pool
	rows   int // queries of all heads that share keys: row r is query r%SQ of head r/SQ among them
	blocks int // blocks of a head's keys
	// floats of a partial result: values padded to whole panels, then the largest score and the sum of the weights
	width   int
	parts   []float32 // partial results [B, KVHeads, blocks, rows, width]
	combine bool      // the second step is running
	state   []fewRows // of each worker
}

func (x *attendingFew) init(p *pool.Pool, shared *pool.Scratch, keys int) {
	x.p = p
	x.rows = x.Heads / x.KVHeads * x.SQ
	x.blocks = max(1, pool.CeilDiv(keys, fewBlock))
	x.width = (x.DV+product.On(p.Set).NR-1)/product.On(p.Set).NR*product.On(p.Set).NR + 2
	x.parts = shared.Floats(x.B * x.KVHeads * x.blocks * x.rows * x.width)
}

func attentionFew(p *pool.Pool, g *Args) {
	x := pool.Keep[attendingFew](p)
	x.Args = *g
	p.Shared.Reset()
	most := 0
	for b := range g.B {
		keys, offset := g.span(b)
		_, hi := g.visible(keys, offset, 0, g.SQ)
		most = max(most, hi)
	}
	x.init(p, &p.Shared, most)
	if x.state == nil {
		x.state = make([]fewRows, p.Threads())
	}
	x.combine = false
	p.Each(g.B*g.KVHeads*x.blocks, 1+pool.Grain/max(1, min(most, fewBlock)*x.rows*(g.DK+g.DV)), x)
	if x.blocks > 1 {
		x.combine = true
		p.Share(g.B*g.Heads*g.SQ, 8, x)
	}
}

func (x *attendingFew) Do(lo, hi, worker int) {
	w := &x.state[worker]
	w.init(x, x.p.Scratch(worker))
	if !x.combine {
		x.prefetch(x.first(lo), x.V, x.VStride, x.DV, 0, 1) // while the first keys are read
	}
	for t := lo; t < hi; t++ {
		if x.combine {
			x.finish(w, t/x.SQ/x.Heads, t/x.SQ%x.Heads, t%x.SQ)
		} else {
			x.block(w, t)
		}
	}
}

// fewPlace is a tile: keys [lo, hi) of a head. end is the end of the task's keys.
type fewPlace struct{ task, b, kv, block, lo, hi, end int }

// first returns the first tile of a task. If that has no keys, hi <= lo.
func (x *attendingFew) first(task int) fewPlace {
	b, kv, block := task/x.blocks/x.KVHeads, task/x.blocks%x.KVHeads, task%x.blocks
	keys, offset := x.span(b)
	lo, hi := x.visible(keys, offset, 0, x.SQ)
	lo, hi = max(lo, block*fewBlock), min(hi, (block+1)*fewBlock)
	return fewPlace{task, b, kv, block, lo, min(lo+fewTile, hi), hi}
}

// after returns the tile after t. It may be the first one of the next task, which most likely the same worker runs.
func (x *attendingFew) after(t fewPlace) fewPlace {
	switch {
	case t.hi < t.end:
		t.lo, t.hi = t.hi, min(t.hi+fewTile, t.end)
		return t
	case t.task+1 < x.B*x.KVHeads*x.blocks:
		return x.first(t.task + 1)
	}
	return fewPlace{task: t.task + 1}
}

// prefetch brings part of the rows of a tile into the cache, one of a number of parts. m holds K or V, with rows of d
// elements.
func (x *attendingFew) prefetch(t fewPlace, m stored.Values, s Strides, d, part, parts int) {
	if vec.On(x.p.Set).PrefetchRows == nil || t.hi <= t.lo {
		return
	}
	base, size := uintptr(unsafe.Pointer(unsafe.SliceData(m.Floats))), 4
	if m.Floats == nil {
		base, size = uintptr(unsafe.Pointer(unsafe.SliceData(m.Halves))), 2
	}
	lines := pool.CeilDiv(d*size, 64)
	for k := t.lo; k < t.hi; {
		n := x.together(k, t.hi-k)
		for l := part * lines / parts; l < (part+1)*lines/parts; l++ {
			at := (x.place(t.b, k, &s)+t.kv*s.Head)*size + 64*l
			vec.On(x.p.Set).PrefetchRows(base+uintptr(at), uintptr(s.Seq*size), n)
		}
		k += n
	}
}

// fewRows holds a worker's buffers. Scores are in panels, as in attnTile: a panel has a lane for each of up to
// isa.Set.Lanes rows.
type fewRows struct {
	score []float32 // scores of a tile, then weights: [panels][fewTile][lanes]
	power []float32 // the weights, packed for products of up to mr rows: [fewTile][rows]

	most, total []float32 // of each row: the largest score so far, and the sum of weights 2^(score-most)
	shift, was  []float32 // [lanes] for one panel: most, or 0 if no key is allowed so far; most before the tile
	by, junk    []float32 // [lanes] a factor; results that nothing reads

	k, v, panel []float32 // a tile of keys and of values, if they are not f32; a panel of values
}

func (w *fewRows) init(x *attendingFew, sc *pool.Scratch) {
	s := x.p.Set
	padded := pool.CeilDiv(x.rows, s.Lanes) * s.Lanes
	w.score, w.power = sc.Floats(padded*fewTile+product.Spill), sc.Floats(padded*fewTile+product.Spill)
	clear(w.score) // lanes without a row are computed, too
	w.most, w.total = sc.Floats(padded), sc.Floats(padded)
	w.shift, w.was, w.by, w.junk = sc.Floats(s.Lanes), sc.Floats(s.Lanes), sc.Floats(s.Lanes), sc.Floats(s.Lanes)
	w.k, w.v = sc.Floats(fewTile*x.DK), sc.Floats(fewTile*x.DV)
	w.panel = sc.Floats(fewTile * product.On(s).NR)
}

// part returns the partial result of a block for a row.
func (x *attendingFew) part(b, kv, block, row int) []float32 {
	at := x.at(b, kv, block, row)
	return x.parts[at : at+x.width]
}

// at returns the index of part(b, kv, block, row) in parts.
func (x *attendingFew) at(b, kv, block, row int) int {
	return (((b*x.KVHeads+kv)*x.blocks+block)*x.rows + row) * x.width
}

// tileOf returns the rows of K or V of a tile, of d elements, as float32 and ld elements apart: in place if they are
// f32 and in one page, else copied into buf.
func (x *attendingFew) tileOf(t fewPlace, m stored.Values, s *Strides, d int, buf []float32) (rows []float32, ld int) {
	if n := t.hi - t.lo; (m.Kind != 0 && m.Floats == nil) || x.together(t.lo, n) < n {
		x.gather(x.p.Set, buf, t.b, t.kv, m, s, t.lo, n, d)
		return buf, d
	}
	at := x.place(t.b, t.lo, s) + t.kv*s.Head
	return m.Floats[at : at+(t.hi-t.lo-1)*s.Seq+d], s.Seq
}

// block computes the partial result of a task. While it computes a tile, it prefetches the next one: the rows of a head
// lie too far apart for the processor to foresee them.
func (x *attendingFew) block(w *fewRows, task int) {
	s, nr, lanes := x.p.Set, product.On(x.p.Set).NR, x.p.Set.Lanes
	t := x.first(task)
	b, kv, block := t.b, t.kv, t.block
	for r := range x.rows {
		clear(x.part(b, kv, block, r))
	}
	for i := range w.most {
		w.most[i], w.total[i] = float32(math.Inf(-1)), 0
	}
	_, offset := x.span(b)
	group := x.rows / x.SQ
	var next fewPlace
	for ; t.task == task && t.lo < t.hi; t = next {
		next = x.after(t)
		k0, n := t.lo, t.hi-t.lo
		mat, ld := x.tileOf(t, x.K, &x.KStride, x.DK, w.k)
		for r := range x.rows {
			x.prefetch(next, x.K, x.KStride, x.DK, r, x.rows)
			q := x.Q[b*x.QStride.Batch+(kv*group+r/x.SQ)*x.QStride.Head+r%x.SQ*x.QStride.Seq:][:x.DK]
			vec.On(s).DotRows(w.score[r/lanes*fewTile*lanes+r%lanes:], lanes, mat, ld, n, q)
		}
		masked := false
		for r := 0; r < x.rows; r += lanes {
			masked = x.weigh(w, b, kv, block, r, k0, n, offset) || masked
		}
		values, vld := x.tileOf(t, x.V, &x.VStride, x.DV, w.v)
		if masked && !rowsFinite(s, values, vld, n, x.DV) { // 0 times NaN is NaN
			x.addOneByOne(w, b, kv, block, n, values, vld)
			continue
		}
		x.eachProduct(
			func(r, h int) {
				vec.On(s).CopyRows(w.power[r*fewTile:], h, w.score[r/lanes*fewTile*lanes+r%lanes:], lanes, n)
			})
		for d := 0; d < x.DV; d += nr {
			x.prefetch(next, x.V, x.VStride, x.DV, d/nr, pool.CeilDiv(x.DV, nr))
			if x.DV-d >= nr {
				for e := 0; e < nr; e += lanes {
					vec.On(s).CopyRows(w.panel[e:], nr, values[d+e:], vld, n)
				}
			} else {
				clear(w.panel)
				for j := range n {
					copy(w.panel[j*nr:], values[j*vld+d:j*vld+x.DV])
				}
			}
			x.eachProduct(func(r, h int) {
				product.On(s).Gemm(h, n, w.power[r*fewTile:], w.panel, x.parts[x.at(b, kv, block, r)+d:], x.width, true,
					nil, nil,
					0)
			})
		}
	}
	for r := range x.rows {
		p := x.part(b, kv, block, r)
		p[x.width-2], p[x.width-1] = w.most[r], w.total[r]
		if x.blocks == 1 {
			x.finish(w, b, kv*group+r/x.SQ, r%x.SQ)
		}
	}
}

// eachProduct calls f for rows [r, r+h) that are multiplied by values together. They lie in one panel of scores.
func (x *attendingFew) eachProduct(f func(r, h int)) {
	lanes := x.p.Set.Lanes
	for r := 0; r < x.rows; {
		h := min(product.On(x.p.Set).MR, lanes-r%lanes, x.rows-r)
		f(r, h)
		r += h
	}
}

// weigh turns the products q·k of n keys with the panel that begins at row r into weights. If that raises the largest
// score of a row, it scales the row's sums. It reports whether any key may be masked.
func (x *attendingFew) weigh(w *fewRows, b, kv, block, r, k0, n, offset int) (masked bool) {
	s, lanes := &norm.On(x.p.Set).Narrow, x.p.Set.Lanes
	sco, most, total := w.score[r*fewTile:][:n*lanes], w.most[r:][:lanes], w.total[r:][:lanes]
	copy(w.was, most)
	masked = x.Mask == MaskCustom || x.Mask == MaskBias ||
		x.Mask != MaskNone && k0+n-1 > offset || x.Mask == MaskSliding && k0 < x.SQ-1+offset-x.Window
	switch {
	case x.Softcap != 0:
		s.ScoreMax(sco, x.Scale/x.Softcap, w.junk)
		elementwise.Apply(x.p.Set, elementwise.Tanh, sco, sco)
		s.ScoreMax(sco, x.Softcap*log2e, w.junk)
	case masked:
		s.ScoreMax(sco, x.Scale*log2e, w.junk) // to scale
	default:
		s.ScoreMax(sco, x.Scale*log2e, most)
	}
	if masked {
		for i := range min(lanes, x.rows-r) {
			x.maskRow(sco[i:], lanes, b, kv*(x.rows/x.SQ)+(r+i)/x.SQ, (r+i)%x.SQ, k0, n, offset)
		}
	}
	if masked || x.Softcap != 0 {
		s.ScoreMax(sco, 1, most)
	}
	for i, m := range most {
		w.shift[i] = m
		if m == float32(math.Inf(-1)) {
			w.shift[i] = 0 // 2^(-Inf - 0) is 0, but -Inf - -Inf would be NaN
		}
		if was := w.was[i]; was != m && was != float32(math.Inf(-1)) && r+i < x.rows {
			part, by := x.part(b, kv, block, r+i), exp2(was-m)
			x.scale(w, part[:x.width-2], by)
			total[i] *= by
		}
	}
	s.ExpSum(sco, w.shift, total)
	return masked
}

// scale multiplies whole vectors by a number.
func (x *attendingFew) scale(w *fewRows, v []float32, by float32) {
	for i := range w.by {
		w.by[i] = by
	}
	norm.On(x.p.Set).Narrow.ScaleRows(v, w.by)
}

func exp2(x float32) float32 {
	if x == 0 { // the usual case: one block, or the block with the largest score
		return 1
	}
	return float32(math.Exp2(float64(x)))
}

func rowsFinite(s *isa.Set, x []float32, ld, n, d int) bool {
	for i := range n {
		if !reduce.AllFinite(s, x[i*ld:][:d]) {
			return false
		}
	}
	return true
}

func (x *attendingFew) addOneByOne(w *fewRows, b, kv, block, n int, values []float32, ld int) {
	lanes := x.p.Set.Lanes
	for r := range x.rows {
		part, weights := x.part(b, kv, block, r), w.score[r/lanes*fewTile*lanes+r%lanes:]
		for j := range n {
			if p := weights[j*lanes]; p != 0 {
				for e, v := range values[j*ld:][:x.DV] {
					part[e] += p * v
				}
			}
		}
	}
}

// maskRow masks the scores of query i of a head with n keys from k0 on. The scores are in base 2, and ld elements
// apart.
func (g *Args) maskRow(scores []float32, ld, b, head, i, k0, n, offset int) {
	minusInf := float32(math.Inf(-1))
	at := b*g.MaskStride[0] + head*g.MaskStride[1] + i*g.MaskStride[2] + k0*g.MaskStride[3]
	for j := range n {
		score := &scores[j*ld]
		switch q, k, m := i+offset, k0+j, at+j*g.MaskStride[3]; g.Mask {
		case MaskCausal, MaskSliding:
			if k > q || g.Mask == MaskSliding && k < q-g.Window {
				*score = minusInf
			}
		case MaskBias:
			*score += inBase2(g.MaskF32[m])
		case MaskCustom:
			if g.MaskBool != nil && g.MaskBool[m] == 0 || g.MaskBool == nil && g.MaskF32[m] < 0.5 {
				*score = minusInf
			}
		}
	}
}

// finish adds up the partial results of query i of a head, and stores its result.
func (x *attendingFew) finish(w *fewRows, b, head, i int) {
	group := x.rows / x.SQ
	kv, row := head/group, head%group*x.SQ+i
	most, total := float32(math.Inf(-1)), float32(0)
	for k := range x.blocks {
		norm.Raise(&most, x.part(b, kv, k, row)[x.width-2])
	}
	shift := most
	if most == float32(math.Inf(-1)) { // no key is allowed, or scores are NaN
		shift = 0
	}
	out := x.Out[b*x.OutStride.Batch+head*x.OutStride.Head+i*x.OutStride.Seq:][:x.DV]
	for k := range x.blocks {
		part := x.part(b, kv, k, row)
		total += exp2(part[x.width-2]-shift) * part[x.width-1]
	}
	clear(out)
	if total == 0 {
		return
	}
	if x.Sinks != nil {
		total += exp2(x.Sinks[head]*log2e - shift) // infinite if the sink outweighs all keys: then the result is 0
	}
	for k := range x.blocks {
		part := x.part(b, kv, k, row)
		if part[x.width-1] != 0 {
			x.scale(w, part[:x.width-2], exp2(part[x.width-2]-shift)/total)
			elementwise.On(x.p.Set).Binary[elementwise.Add](out, out, part[:x.DV])
		}
	}
}
