// Package attention computes attention, with masks or with the relative positions of a grid, and rotary embeddings.
package attention

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// MaskKind selects the keys that a query attends to.
type MaskKind uint8

// The kinds of mask. Query i has position i + QOffset among the keys.
const (
	MaskNone    MaskKind = iota
	MaskCausal           // keys up to the query's position
	MaskSliding          // keys in [position - Window, position]: Window+1 of them
	MaskCustom           // keys whose mask value is not below 0.5
	MaskBias             // the mask is added to the scores; -Inf forbids
)

// Strides are the distances, in elements, between batches, positions and heads. The elements of one head are
// contiguous.
type Strides struct{ Batch, Seq, Head int }

// Args describes out = softmax(mask(cap(Scale * q·kᵀ))) · v for each batch and head. Query head h reads key
// and value head h*KVHeads/Heads (rounded down). A query without any allowed key gives zeros.
type Args struct {
	B, Heads, KVHeads int
	SQ, SK            int // queries and keys
	DK, DV            int // elements of q and k, and of v and out

	Q, Out                               []float32
	K, V                                 stored.Values
	QStride, KStride, VStride, OutStride Strides

	Scale   float32
	Softcap float32 // s = Softcap * tanh(s/Softcap) before the mask; 0 means no cap

	Precision product.Precision // of q·kᵀ and of the product with v

	Mask    MaskKind
	Window  int // for MaskSliding
	QOffset int // for MaskCausal and MaskSliding; SK-SQ aligns the last query with the last key

	// Spans, one for each batch element, replaces SK and QOffset. Keys after the last one that a query attends to are
	// not read.
	Spans []KeySpan
	// Elements has the batch element of K and V that each batch element of Q reads. nil means its own.
	Elements []int
	// Pages, if not nil, has the pages of each batch element, PerElement of them: batch elements of K and V with Page keys
	// each. SK is then Page*PerElement, and Elements is nil.
	Pages            []int32
	Page, PerElement int
	// Sinks, one for each head, are scores that count in the sum of the softmax but have no value. Nil means no sinks.
	Sinks []float32

	// The values of MaskCustom or MaskBias, read at b*stride[0] + h*stride[1] + i*stride[2] + j*stride[3]; a stride of
	// 0 broadcasts. For MaskCustom, MaskBool may replace MaskF32: any value but 0 allows.
	MaskF32    []float32
	MaskBool   []uint8
	MaskStride [4]int
}

// KeySpan gives the number of keys of a batch element, at most SK, and the position of query 0 among them.
type KeySpan struct{ Keys, QOffset int }

// element returns the batch element of k and v that batch element b of q reads.
func (g *Args) element(b int) int {
	if g.Elements != nil {
		return g.Elements[b]
	}
	return b
}

// place returns the index in K or V of key j that batch element b of q reads, in head 0.
func (g *Args) place(b, j int, s *Strides) int {
	if g.Pages != nil {
		return int(g.Pages[b*g.PerElement+j/g.Page])*s.Batch + j%g.Page*s.Seq
	}
	return g.element(b)*s.Batch + j*s.Seq
}

// together returns how many of n keys from key j on are equally far apart.
func (g *Args) together(j, n int) int {
	if g.Pages != nil {
		return min(n, g.Page-j%g.Page)
	}
	return n
}

// gather copies n rows of d elements of K or V, those of keys from j on, to a buffer, widened to float32.
func (g *Args) gather(set *isa.Set, to []float32, b, kv int, x stored.Values, s *Strides, j, n, d int) {
	for i := 0; i < n; {
		at := g.place(b, j+i, s) + kv*s.Head
		for end := i + g.together(j+i, n-i); i < end; i++ {
			if row := to[i*d : i*d+d]; x.Floats != nil {
				copy(row, x.Floats[at:])
			} else {
				x.Row(set, at, d, row)
			}
			at += s.Seq
		}
	}
}

// span returns the number of keys of batch element b and the position of its query 0.
func (g *Args) span(b int) (keys, offset int) {
	if g.Spans != nil {
		return g.Spans[b].Keys, g.Spans[b].QOffset
	}
	return g.SK, g.QOffset
}

// visible returns the range [lo, hi) of keys that any of the queries [q0, q1) may attend to.
func (g *Args) visible(keys, offset, q0, q1 int) (lo, hi int) {
	hi = keys
	if g.Mask == MaskCausal || g.Mask == MaskSliding {
		hi = min(hi, q1+offset)
	}
	if g.Mask == MaskSliding {
		lo = max(lo, q0+offset-g.Window)
	}
	return lo, hi
}

// Attend computes attention in tiles of keys. It never holds the scores of more than one tile.
func Attend(p *pool.Pool, g *Args) {
	if g.B*g.Heads*g.SQ*g.DV == 0 {
		return
	}
	g.check()
	if g.few() {
		attentionFew(p, g)
		return
	}
	x := pool.Keep[attending](p)
	x.Args, x.p = *g, p
	x.perTile = g.perTask(p)
	x.tiles = pool.CeilDiv(g.SQ, x.perTile)
	if x.state == nil {
		x.state = make([]attnTile, p.Threads())
	}
	p.Each(g.B*g.Heads*x.tiles, 1, x)
}

// mostPanels returns the largest number of panels of queries in a task. More panels share the cost of packing the keys.
// But under a causal mask, a task computes scores with keys that only its last queries attend to, so there panels are
// fewer.
func (g *Args) mostPanels() int {
	if g.Mask == MaskCausal || g.Mask == MaskSliding {
		return queryPanels / 2
	}
	return 2 * queryPanels
}

// perTask returns the number of queries of a task: few enough that each worker gets four tasks, and about the same in
// all tasks.
func (g *Args) perTask(p *pool.Pool) int {
	panels, most := pool.CeilDiv(g.SQ, product.On(p.Set).NR), g.mostPanels()
	if n := p.Threads(); n > 1 {
		most = min(most, max(1, panels*g.B*g.Heads/(4*n)))
	}
	return pool.CeilDiv(panels, pool.CeilDiv(panels, most)) * product.On(p.Set).NR
}

// attending is the state of a call of Attention.
type attending struct {
	Args
	p              *pool.Pool
	perTile, tiles int // queries per task, tasks per head
	state          []attnTile
}

func (x *attending) Do(lo, hi, worker int) {
	for t := lo; t < hi; t++ {
		q0 := t % x.tiles * x.perTile
		x.task(&x.state[worker], x.p.Set, x.p.Scratch(worker), t/x.tiles/x.Heads, t/x.tiles%x.Heads, q0,
			min(x.SQ, q0+x.perTile))
	}
}

func (g *Args) check() {
	last, keys := g.B-1, g.SK // batch element of k and v, and its keys
	if g.Elements != nil {
		last = slices.Max(g.Elements[:g.B])
	}
	if g.Pages != nil {
		if len(g.Pages) != g.B*g.PerElement || g.SK != g.Page*g.PerElement || g.Elements != nil {
			panic("BUG: Attention: the number of pages is wrong")
		}
		if keys = g.Page; g.SK > 0 {
			last = int(slices.Max(g.Pages))
		}
	}
	short := func(length, last int, s Strides, heads, n, d int) bool {
		return n*d > 0 && length < last*s.Batch+(n-1)*s.Seq+(heads-1)*s.Head+d
	}
	kv := g.KVHeads
	if kv <= 0 || kv > g.Heads || short(len(g.Q), g.B-1, g.QStride, g.Heads, g.SQ, g.DK) ||
		short(g.K.Len(), last, g.KStride, kv, keys, g.DK) ||
		short(g.V.Len(), last, g.VStride, kv, keys, g.DV) ||
		short(len(g.Out), g.B-1, g.OutStride, g.Heads, g.SQ, g.DV) ||
		g.Spans != nil && len(g.Spans) < g.B || g.Sinks != nil && len(g.Sinks) < g.Heads {
		panic("BUG: Attention: a slice is short, or KVHeads is out of range")
	}
	if (g.Mask == MaskCustom || g.Mask == MaskBias) && g.SK > 0 {
		m := g.MaskStride
		if max(len(g.MaskF32), len(g.MaskBool)) <= (g.B-1)*m[0]+(g.Heads-1)*m[1]+(g.SQ-1)*m[2]+(g.SK-1)*m[3] {
			panic("BUG: Attention: the mask is short")
		}
	}
}

// task computes queries [q0, q1) of one batch element and head.
func (g *Args) task(a *attnTile, s *isa.Set, sc *pool.Scratch, b, head, q0, q1 int) {
	// The result must not depend on the number of threads, but the queries of a task do. So the bounds of tiles depend
	// on the positions of keys alone, not on the queries. A query may then get a tile without any key that it attends
	// to; that must add exact zeros.
	high := product.RowsOfPanel(s, product.PackingOf(s, g.Precision))
	keys, offset := g.span(b)
	lo, hi := g.visible(keys, offset, q0, q1)
	lo = lo / high * high
	a.init(s, sc, g.Precision, q1-q0, max(1, hi-lo), g.DK, g.DV)
	for _, p := range a.spans {
		at := b*g.QStride.Batch + head*g.QStride.Head + (q0+p.at)*g.QStride.Seq
		for i := range p.n {
			copy(a.rows[i*g.DK:(i+1)*g.DK], g.Q[at+i*g.QStride.Seq:])
		}
		a.packQueries(p)
	}
	kv := head * g.KVHeads / g.Heads
	for k0, n := lo, 0; k0 < hi; k0 += n {
		n = min(a.tile-k0%a.tile, hi-k0)
		if g.K.Floats != nil && g.together(k0, n) == n {
			a.packKeys(0, n, g.K.Floats[g.place(b, k0, &g.KStride)+kv*g.KStride.Head:], g.KStride.Seq)
		} else {
			g.gather(s, a.rows, b, kv, g.K, &g.KStride, k0, n, g.DK)
			a.packKeys(0, n, a.rows, g.DK)
		}
		g.gather(s, a.rows, b, kv, g.V, &g.VStride, k0, n, g.DV)
		if g.Mask != MaskNone {
			a.setAside(n)
		}
		a.packValues(n, func(int) ([]float32, int, int) { return a.rows, g.DV, n })
		for _, p := range a.spans {
			sco := a.scores(p, n)
			a.begin(p)
			g.mask(a, p, sco, b, head, q0+p.at, k0, n, offset)
			a.accumulate(p, n)
			a.addOutliers(p)
		}
		a.started = true
	}
	for _, p := range a.spans {
		if g.Sinks != nil {
			a.sink(p, g.Sinks[head])
		}
		rows := a.finish(p)
		// Adding zeros makes -0 into 0, as adding a tile of zeros does.
		add := elementwise.On(s).Binary[elementwise.Add]
		if g.DV <= shortRow { // one call for all rows
			add(rows[:p.n*g.DV], rows[:p.n*g.DV], a.zeros)
		}
		for i := range p.n {
			at := b*g.OutStride.Batch + head*g.OutStride.Head + (q0+p.at+i)*g.OutStride.Seq
			if to, row := g.Out[at:at+g.DV], rows[i*g.DV:][:g.DV]; g.DV <= shortRow {
				copy(to, row)
			} else {
				add(to, row, a.zeros)
			}
		}
	}
}

// shortRow is the number of elements up to which rows of values are short: a call for each takes longer than its work.
const shortRow = 32

// mask scales, caps and masks the scores of keys [k0, k0+n) with the queries of a panel, which start at q0. It raises
// a.mNew to the largest scores.
func (g *Args) mask(a *attnTile, p span, sco []float32, b, head, q0, k0, n, offset int) {
	queries := p.n
	partial := g.Mask == MaskCustom || g.Mask == MaskBias ||
		g.Mask != MaskNone && k0+n-1 > q0+offset || g.Mask == MaskSliding && k0 < q0+queries-1+offset-g.Window
	if g.Softcap == 0 && !partial {
		p.ScoreMax(sco, g.Scale*log2e, a.mNew)
		return
	}
	if g.Softcap == 0 {
		p.ScoreMax(sco, g.Scale*log2e, a.junk) // to scale; the maximum is taken after masking
	} else {
		p.ScoreMax(sco, g.Scale/g.Softcap, a.junk)
		elementwise.Apply(a.s, elementwise.Tanh, sco, sco)
		p.ScoreMax(sco, g.Softcap*log2e, a.junk)
	}
	if partial {
		minusInf := float32(math.Inf(-1))
		for j := range n {
			row := sco[j*p.NR:][:queries]
			k := k0 + j
			switch g.Mask {
			case MaskCausal, MaskSliding:
				for i := range row {
					if q := q0 + i + offset; k > q || g.Mask == MaskSliding && k < q-g.Window {
						row[i] = minusInf
					}
				}
			case MaskBias:
				at, step := b*g.MaskStride[0]+head*g.MaskStride[1]+q0*g.MaskStride[2]+k*g.MaskStride[3], g.MaskStride[2]
				for i := range row {
					row[i] += inBase2(g.MaskF32[at])
					at += step
				}
			default:
				at := b*g.MaskStride[0] + head*g.MaskStride[1] + q0*g.MaskStride[2] + k*g.MaskStride[3]
				for i := range row {
					m := at + i*g.MaskStride[2]
					if g.MaskBool != nil && g.MaskBool[m] == 0 || g.MaskBool == nil && g.MaskF32[m] < 0.5 {
						row[i] = minusInf
					}
				}
			}
		}
	}
	p.ScoreMax(sco, 1, a.mNew)
}
