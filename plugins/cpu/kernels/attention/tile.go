package attention

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Attention in tiles of keys. Scores are held transposed, one panel of queries at a time: s[keys, n], a row per key and
// a column per query. Then
//
//	s = K·Qᵀ        is a gemm of packed key panels with a packed query panel,
//	softmax         runs down the columns: vectors of queries, no shuffles,
//	Oᵀ += Vᵀ·P      is a gemm of packed Vᵀ panels with s itself, which already has the layout of a packed operand.
//
// The softmax is online: each query keeps m, its largest score so far, and l, the sum of 2^(s-m). When a tile of keys
// raises m, l and O are multiplied by 2^(m_old - m_new). Scores are multiplied by log2(e), together with the scale, so
// that weights are powers of two. Memory is O(tile), for any number of keys.

const log2e = math.Log2E

// inBase2 returns a bias of scores that are multiplied by log2(e). Exporters hide keys by the least float32, which
// would become infinite; but if all keys of a query have that bias, the query sees all of them alike.
func inBase2(bias float32) float32 {
	const least = -2e38
	if bias < least && bias >= -math.MaxFloat32 {
		bias = least
	}
	return bias * log2e
}

// queryPanels is about the number of panels of queries in a task, which share one packing of the keys; see mostPanels.
const queryPanels = 16

// keyTile returns the number of keys in a tile: the largest multiple of a panel's rows up to 128. A panel of scores,
// one of queries and one of keys then fit in the L1 cache.
func keyTile(high int) int { return 128 / high * high }

// span is the columns [at, at+n) of a matrix that lie in one panel, of panel.nr columns.
type span struct {
	*product.Panel
	*norm.Passes
	at, n int
}

// appendSpans divides n columns into wide panels, the last one narrow if that holds the rest. All but the last are
// full. Products of tiles have wide panels only.
func appendSpans(s *isa.Set, out []span, way product.Packing, n int) []span {
	for at := 0; at < n; at += product.On(s).NR {
		p, f := &product.On(s).Panel, &norm.On(s).Passes
		if n-at <= product.On(s).Narrow.NR && way != product.Tiled {
			p, f = &product.On(s).Narrow, &norm.On(s).Narrow
		}
		out = append(out, span{p, f, at, min(p.NR, n-at)})
	}
	return out
}

// padded returns the number of columns of the spans' panels, including those past the last column.
func padded(spans []span) int {
	if len(spans) == 0 {
		return 0
	}
	last := spans[len(spans)-1]
	return last.at + last.NR
}

// attnTile is the state of one task: some panels of queries against all keys.
type attnTile struct {
	s      *isa.Set
	way    product.Packing
	dk, dv int // elements of a query or key, and of a value
	depth  int // way.depth(dk)
	rowsO  int // way.rows(dv)
	high   int // rows of a panel of keys
	spans  []span
	tile   int // keys from the start of a tile to the start of the next

	q       []float32 // [panels][depth, nr] packed queries
	o       []float32 // [panels][rowsO, nr] transposed output, not yet divided by l
	m, l    []float32 // [panels][nr]
	started bool      // keys have been added to o, m and l

	k, v   []float32 // one tile of keys and values, packed in panels: keys by dk, and dv by keys
	turned []float32 // [lanes, nr] the last elements of queries, transposed
	rows   []float32 // gathered rows of q, k or v before packing, [tile, dk or dv] with spill
	plain  []float32 // a panel, or the values, as float32 before convert
	score  []float32 // [tile, nr] scores of a panel, then weights
	power  []float32 // the weights packed as an operand; score itself if products are float32
	mNew   []float32 // [nr] m with the current tile
	alpha  []float32 // [nr] 2^(m - mNew)
	junk   []float32 // [nr] results that nothing reads
	zeros  []float32 // [dv], or [nr, dv] of short rows

	outliers []outlier // see setAside
}

func (a *attnTile) init(s *isa.Set, sc *pool.Scratch, precision product.Precision, queries, keys, dk, dv int) {
	way := product.PackingOf(s, precision)
	high := product.RowsOfPanel(s, way)
	tile := keyTile(high)
	t := min(tile, keys) // maximum number of keys in a tile
	spans := pool.Own[[]span](sc)
	*spans = appendSpans(s, (*spans)[:0], way, queries)
	*a = attnTile{s: s, way: way, dk: dk, dv: dv, depth: way.Depth(dk), rowsO: way.Rows(dv), high: high,
		spans: *spans, tile: tile,
		outliers: a.outliers[:0]}
	nr, cols := product.On(s).NR, padded(a.spans)
	a.q = sc.Floats(cols*a.depth + product.Spill)
	a.o = sc.Floats(cols * a.rowsO)
	a.m, a.l = sc.Floats(cols), sc.Floats(cols)
	a.k = sc.Floats(way.Rows(t)*a.depth + product.Spill)
	a.v = sc.Floats(a.rowsO*way.Depth(t) + product.Spill)
	a.rows = sc.Floats(max(t, nr)*max(dk, dv) + product.Spill)
	a.turned = sc.Floats(s.Lanes * nr)
	a.score = sc.Floats(max(way.Rows(t), 2*way.Depth(t))*nr + product.Spill)
	a.power = a.score
	switch way {
	case product.Tiled:
		a.plain = sc.Floats(max(way.Buffer(nr, dk), a.dv*(t+product.Spill)))
	case product.Pairs:
		a.plain = sc.Floats(max(way.Buffer(nr, dk), way.Buffer(product.On(s).MR, t)))
	}
	if way == product.Pairs || way == product.Tiled {
		a.power = sc.Floats(way.Depth(t)*nr + product.Spill)
	}
	a.mNew, a.alpha, a.junk = sc.Floats(nr), sc.Floats(nr), sc.Floats(nr)
	zeros := dv
	if dv <= shortRow {
		zeros = nr * dv
	}
	a.zeros = sc.Floats(zeros)
	clear(a.zeros)
	clear(a.o)
	clear(a.l)
	for i := range a.m {
		a.m[i] = float32(math.Inf(-1))
	}
}

// before returns the memory in which a panel is packed as floats, before convert stores it in dst.
func (a *attnTile) before(dst []float32) []float32 {
	if a.way == product.Pairs || a.way == product.Tiled {
		return a.plain
	}
	return dst
}

// packQueries packs a panel of queries from a.rows [p.n, dk]. Columns past them are zero.
func (a *attnTile) packQueries(p span) {
	s := a.s
	dst := a.q[p.at*a.depth:]
	q := a.before(dst)
	clear(a.rows[p.n*a.dk : p.NR*a.dk])
	whole := a.dk / s.Lanes * s.Lanes
	for h := 0; h < p.NR; h += s.Lanes {
		rows := a.rows[h*a.dk:]
		vec.On(s).Transpose(q[h:], p.NR, rows, a.dk, s.Lanes, whole)
		if whole < a.dk { // whole vectors, of which only the first elements belong to these queries
			vec.On(s).Transpose(a.turned[h:], p.NR, rows[whole:], a.dk, s.Lanes, s.Lanes)
		}
	}
	copy(q[whole*p.NR:a.dk*p.NR], a.turned)
	product.Convert(s, a.way, dst, q, p.NR, a.dk)
}

// packKeys packs keys [lo, hi) of the tile, where lo starts a panel, from rows of dk elements, ld apart.
func (a *attnTile) packKeys(lo, hi int, rows []float32, ld int) {
	if a.way == product.Tiled {
		product.PackTileRows(a.s, a.k[lo*a.depth:], rows, ld, hi-lo, a.dk)
		return
	}
	for r := lo; r < hi; r += a.high {
		h := min(a.high, hi-r)
		dst := a.k[r*a.depth:]
		panel := a.before(dst)
		product.PackRows(a.s, panel, rows[(r-lo)*ld:], ld, h, a.dk)
		product.Convert(a.s, a.way, dst, panel, h, a.dk)
	}
}

// packValues packs the n values of the tile, transposed: a panel has a row for each element of a value, and k counts
// the values. run returns rows of some values, from number at on, their distance and their count. Up to a vector is
// read past the last element.
func (a *attnTile) packValues(n int, run func(at int) (rows []float32, ld, count int)) {
	s := a.s
	mr := product.On(s).MR
	if a.way == product.Tiled {
		ld := n + product.Spill
		for at := 0; at < n; {
			rows, from, count := run(at)
			for i := 0; i < count; i += s.Lanes {
				a.transposeValues(a.plain[at+i:], ld, rows[i*from:], from, min(s.Lanes, count-i))
			}
			at += count
		}
		product.PackTileRows(s, a.v, a.plain, ld, a.dv, n)
		return
	}
	depth := a.way.Depth(n)
	for r := 0; r < a.dv; r += mr {
		h := min(mr, a.dv-r)
		dst := a.v[r*depth:]
		panel := a.before(dst)
		for at := 0; at < n; {
			rows, ld, count := run(at)
			vec.On(s).CopyRows(panel[at*h:], h, rows[r:], ld, count) // spills into rows that a later iteration writes
			at += count
		}
		product.Convert(s, a.way, dst, panel, h, n)
	}
}

// transposeValues is dst[e*ld+i] = rows[i*from+e] for n values, n <= lanes. It may overwrite floats past the end of a
// row of dst.
func (a *attnTile) transposeValues(dst []float32, ld int, rows []float32, from, n int) {
	whole := a.dv / a.s.Lanes * a.s.Lanes
	vec.On(a.s).Transpose(dst, ld, rows, from, n, whole)
	for e := whole; e < a.dv; e++ {
		for i := range n {
			dst[e*ld+i] = rows[i*from+e]
		}
	}
}

// multiply multiplies a panel of h rows by a panel of columns.
func (a *attnTile) multiply(p span, h, depth int, left, right, c []float32, accumulate bool) {
	if a.way == product.Pairs {
		p.Pairs(h, depth, left, right, c, p.NR, accumulate, nil, nil, 0)
	} else {
		p.Gemm(h, depth, left, right, c, p.NR, accumulate, nil, nil, 0)
	}
}

// scores computes the raw products of a panel with the n packed keys.
func (a *attnTile) scores(p span, n int) []float32 {
	q := a.q[p.at*a.depth:]
	if a.way == product.Tiled {
		product.On(a.s).Tiles(a.way.Rows(n)/product.TileSide, a.depth/(product.TileSide/2), a.k, q, a.score, p.NR, nil,
			0)
		return a.score[:n*p.NR]
	}
	for r := 0; r < n; r += a.high {
		a.multiply(p, min(a.high, n-r), a.depth, a.k[r*a.depth:], q, a.score[r*p.NR:], false)
	}
	return a.score[:n*p.NR]
}

// begin sets a.mNew to the largest scores so far, before mask raises it for the next tile.
func (a *attnTile) begin(p span) { copy(a.mNew[:p.NR], a.m[p.at:]) }

// accumulate turns the finished scores of a panel into weights and adds the weighted values. a.mNew holds the new
// maxima.
func (a *attnTile) accumulate(p span, n int) {
	nr := p.NR
	m, l, o := a.m[p.at:][:nr], a.l[p.at:][:nr], a.o[p.at*a.rowsO:][:a.rowsO*nr]
	changed := false
	for i, x := range a.mNew[:nr] {
		a.alpha[i] = m[i]
		if x < -math.MaxFloat32 {
			a.mNew[i] = 0 // no key is allowed so far: 2^(-Inf - 0) is 0, but -Inf - -Inf would be NaN
		} else if m[i] != x {
			changed = true
		}
		m[i] = x
	}
	if changed && a.started {
		p.ExpSum(a.alpha[:nr], a.mNew, a.junk)
		p.ScaleRows(l, a.alpha)
		p.ScaleRows(o, a.alpha)
	}
	p.ExpSum(a.score[:n*nr], a.mNew, l)
	product.Convert(a.s, a.way, a.power, a.score, nr, n)
	depth := a.way.Depth(n)
	if a.way == product.Tiled {
		init := o
		if !a.started {
			init = nil
		}
		product.On(a.s).Tiles(a.rowsO/product.TileSide, depth/(product.TileSide/2), a.v, a.power, o, nr, init, nr)
		return
	}
	for r := 0; r < a.dv; r += product.On(a.s).MR {
		a.multiply(p, min(product.On(a.s).MR, a.dv-r), depth, a.v[r*depth:], a.power, o[r*nr:], a.started)
	}
}

// sink adds a logit that has no value to the sums of a panel. Queries without keys keep the sum 0.
func (a *attnTile) sink(p span, logit float32) {
	for i, m := range a.m[p.at:][:p.NR] {
		if l := &a.l[p.at+i]; *l != 0 {
			// The logit may exceed m. It does not have to become the new m: that would scale o and l alike and not
			// change o / l.
			*l += float32(math.Exp2(float64(logit)*log2e - float64(m)))
		}
	}
}

// finish divides a panel by its sums and returns it as rows [nr, dv] in a.rows. A query without any key gives zeros.
func (a *attnTile) finish(p span) []float32 {
	s := a.s
	nr, dv := p.NR, a.dv
	o := a.o[p.at*a.rowsO:][:dv*nr]
	for i, l := range a.l[p.at:][:nr] {
		a.alpha[i] = 1 / l
		if l == 0 {
			a.alpha[i] = 0
		}
	}
	p.ScaleRows(o, a.alpha)
	// Each transpose takes up to lanes rows of Oᵀ. Those of fewer rows come first: they spill into the columns after
	// theirs, which are those of the next row.
	for d := (dv - 1) / s.Lanes * s.Lanes; d >= 0; d -= s.Lanes {
		vec.On(s).Transpose(a.rows[d:], dv, o[d*nr:], nr, min(s.Lanes, dv-d), nr)
	}
	return a.rows
}
