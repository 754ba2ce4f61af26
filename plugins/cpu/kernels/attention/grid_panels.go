package attention

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Grid attention in AMX tiles, see attendPanel. Tokens form groups of 16. A group lies in one row of a window; if the
// row has fewer tokens left, the missing keys have position terms of -Inf. So all groups of keys in a row share one
// vector of terms for the row, and the tiles of terms for the columns are the same for every row. A half of a panel is
// one group of queries.

const groupSize = 16

// panelRows is the number of rows of a window whose queries one task computes: the rows of a tile, since a product of
// tiles computes the position terms of one column for all of them.
const panelRows = 16

// panelPlan has the data that all windows of one size share.
type panelPlan struct {
	planKey
	steps        int       // steps of 32 elements of a query, key or value
	across       int       // groups per row
	blocks       int       // blocks of keys
	table        []int32   // attendPanel.table
	tiles        int       // tiles of attendPanel.init in each half
	init         []float32 // attendPanel.init, if there are no positions
	rowsH        int       // rows of a window whose terms for RelH are computed together: one, or all
	itemsH       []int32   // termTiles.items for RelH and these rows; if it is one row, relative to its matrix
	itemsW       []int32   // termTiles.items for RelW
	termH, termW int       // rows of terms in each half, for RelH and RelW
}

// panelKeys holds the packed keys and values of a window and head.
type panelKeys struct{ k, v []float32 }

// panels reports whether attention is computed in AMX tiles.
func (g *GridArgs) panels(s *isa.Set) bool {
	return on(s).attend != nil && g.Precision == product.BFloat16 && g.Dim <= attendMost*product.TileSide &&
		g.Scale > 1e-10 &&
		g.Scale < 1e10
}

// scale returns the factor of q·k in scores, which are exponents of two.
func (g *GridArgs) scale() float32 { return g.Scale * log2e }

func newPlan(g *GridArgs, rel *panelRelative, key planKey) *panelPlan {
	vh, vw := key.vh, key.vw
	p := &panelPlan{planKey: key, steps: (g.Dim + product.TileSide - 1) / product.TileSide,
		across: (vw + groupSize - 1) / groupSize}
	p.blocks = (vh*p.across + 1) / 2
	p.tiles = p.across + 1 // the last one is for a group without keys
	if g.RelH != nil {
		p.tiles = max(p.tiles, rel.w.tiles)
		p.termH, p.termW = rel.h.tiles*groupSize, p.tiles*groupSize
		const tile = 4 * tileFloats
		p.rowsH = 1
		if vh <= panelRows && p.across*rel.h.tiles < 8 { // one row has too few products for a call
			p.rowsH = vh
		}
		for i := range p.rowsH * p.across {
			matrix := 0
			if p.rowsH > 1 {
				matrix = rel.h.at(i / p.across)
			}
			for k := range rel.h.tiles {
				p.itemsH = append(p.itemsH, int32(i*p.steps*tile), int32(4*matrix+64*k), int32((i*rel.h.tiles+k)*tile))
			}
		}
		for x := range vw {
			for k := range rel.w.tiles {
				p.itemsW = append(p.itemsW, int32(x/groupSize*p.steps*tile+x%groupSize*64), int32(4*rel.w.at(x)+64*k),
					int32((x%groupSize*rel.w.tiles+k)*tile))
			}
		}
	} else {
		p.init = make([]float32, p.tiles*tileFloats)
		p.mask(p.init)
	}
	p.table = make([]int32, 4*p.blocks)
	for i := range 2 * p.blocks {
		y, x := i/p.across, i%p.across
		if y >= vh {
			y, x = 0, p.across
		}
		p.table[2*i] = int32(x * tileFloats * 4)
		if g.RelH != nil {
			p.table[2*i+1] = int32(y * groupSize * 4)
		}
	}
	return p
}

// mask sets the terms of missing keys to -Inf, in the tiles of one half.
func (p *panelPlan) mask(init []float32) {
	for i := p.vw * groupSize; i < (p.across+1)*tileFloats; i++ {
		init[i] = float32(math.Inf(-1))
	}
}

// group returns the first token of group i and the number of its tokens, which may be 0.
func (p *panelPlan) group(i int) (first, n int) {
	y, x := i/p.across, i%p.across*groupSize
	if y >= p.vh {
		return 0, 0
	}
	return y*p.vw + x, min(groupSize, p.vw-x)
}

// planKey is everything that a plan depends on.
type planKey struct {
	vh, vw, h, w, dim        int
	relative, rowsBy, colsBy bool // there are positions; RelH and RelW depend on distances only, see panelTable
}

func (x *gridWork) plan(w window) *panelPlan {
	key := planKey{w.vh, w.vw, x.h, x.w, x.Dim, x.RelH != nil, x.RelH != nil && x.terms.h.distance, x.RelH != nil &&
		x.terms.w.distance}
	for _, p := range x.plans {
		if p.planKey == key {
			return p
		}
	}
	p := newPlan(&x.GridArgs, &x.terms, key)
	x.plans = append(x.plans, p)
	return p
}

// runPanels computes grid attention in AMX tiles.
func (x *gridWork) runPanels() {
	x.terms.pack(x.p, &x.GridArgs, x.h, x.w)
	windows := x.windows()
	for i := range windows {
		x.plan(x.place(i)) // made here, since tasks run in parallel
	}
	x.parts = (x.h + panelRows - 1) / panelRows
	if x.parts > 1 {
		x.packAllKeys()
		x.p.Each(windows*x.Heads*x.parts, 1, (*gridParts)(x))
		return
	}
	// A task computes several heads of a window, since the elements of the next head are prefetched during the current
	// one.
	tasks := max(1, 16*x.p.Threads()/windows)
	x.heads = max(1, (x.Heads+tasks-1)/tasks)
	x.parts = (x.Heads + x.heads - 1) / x.heads
	x.p.Each(windows*x.parts, 1, (*gridWindows)(x))
}

// start prepares a worker's task for window i and a head.
func (x *gridWork) start(worker, i, head int) (*gridTask, *pool.Scratch) {
	st := &x.state[worker]
	w := x.place(i)
	st.task = gridTask{g: &x.GridArgs, window: w, head: head, plan: x.plan(w), terms: &x.terms, state: st}
	return &st.task, x.p.Scratch(worker)
}

// gridParts runs the tasks if several tasks share a window. Keys are packed before.
type gridParts gridWork

func (x *gridParts) Do(lo, hi, worker int) {
	for i := lo; i < hi; i++ {
		t, sc := (*gridWork)(x).start(worker, i/x.parts/x.Heads, i/x.parts%x.Heads)
		y0 := i % x.parts * panelRows
		if y0 < t.vh {
			t.runPanels(x.p.Set, sc, x.keys[i/x.parts], y0, min(t.vh, y0+panelRows))
		}
	}
}

// gridWindows runs the tasks if one task computes all of a window.
type gridWindows gridWork

func (x *gridWindows) Do(lo, hi, worker int) {
	for i := lo; i < hi; i++ {
		for head := i % x.parts * x.heads; head < min(x.Heads, (i%x.parts+1)*x.heads); head++ {
			t, sc := (*gridWork)(x).start(worker, i/x.parts, head)
			sc.Reset()
			t.runPanels(x.p.Set, sc, panelKeys{}, 0, t.vh)
		}
	}
}

// packAllKeys packs the keys and values of all windows and heads, for several tasks to read.
func (x *gridWork) packAllKeys() {
	plan := x.plan(x.place(0)) // of a full window
	size := plan.blocks * 2 * plan.steps * tileFloats
	n := x.windows() * x.Heads
	x.keys = slices.Grow(x.keys[:0], n)[:n]
	for i := range x.keys {
		x.keys[i] = panelKeys{x.p.Shared.Floats(size), x.p.Shared.Floats(size)}
	}
	x.p.Each(x.windows()*((plan.blocks+keyGrain-1)/keyGrain), 1, (*gridKeys)(x))
}

const keyGrain = 8 // blocks of keys that a task packs

// gridKeys runs the tasks that pack keys.
type gridKeys gridWork

func (x *gridKeys) Do(lo, hi, worker int) {
	w := (*gridWork)(x)
	pieces := (w.plan(w.place(0)).blocks + keyGrain - 1) / keyGrain
	for i := lo; i < hi; i++ {
		for head := range x.Heads {
			t, sc := w.start(worker, i/pieces, head)
			sc.Reset()
			from := i % pieces * keyGrain
			t.packPanelKeys(x.p.Set, sc, x.keys[i/pieces*x.Heads+head], from, min(from+keyGrain, t.plan.blocks))
		}
	}
}

// packPanelKeys packs the keys and values of blocks [lo, hi).
func (t *gridTask) packPanelKeys(s *isa.Set, sc *pool.Scratch, keys panelKeys, lo, hi int) {
	p := t.plan
	d, e := t.g.Dim, t.g.Heads*t.g.Dim
	wide := p.steps * product.TileSide
	size := p.steps * tileFloats // floats of a group of keys
	rows, pairs := sc.Floats(groupSize*wide), sc.Floats(groupSize*wide)
	for i := 2 * lo; i < 2*hi; i++ {
		k, half := keys.k[i*size:][:size], pairs[i%2*groupSize/2*wide:][:groupSize/2*wide]
		first, n := p.group(i)
		if n < groupSize {
			clear(k)
			clear(half)
		}
		if n > 0 {
			src := t.at(first)
			on(s).tileRows(k, t.wideRows(rows, src[e+t.head*d:], n, wide), t.rowStep(wide), n, p.steps)
			values, step := src[2*e+t.head*d:], 3*e
			if d < wide || n%2 != 0 {
				clear(rows[n*wide:])
				copyRowsTo(rows, wide, values, step, n, d)
				values, step = rows, wide
			}
			on(s).tilePairs(half, values, step, (n+1)/2, 2*p.steps)
		}
		if i%2 == 1 {
			vec.On(s).Transpose(keys.v[(i-1)*size:], groupSize, pairs, wide, groupSize, wide)
		}
	}
}

// wideRows returns n rows of QKV as rows of wide elements, rowStep apart: in place if Dim is wide, else a padded copy
// in buf.
func (t *gridTask) wideRows(buf, src []float32, n, wide int) []float32 {
	if t.g.Dim == wide {
		return src
	}
	copyRowsTo(buf, wide, src, 3*t.g.Heads*t.g.Dim, n, t.g.Dim)
	return buf
}

func (t *gridTask) rowStep(wide int) int {
	if t.g.Dim == wide {
		return 3 * t.g.Heads * t.g.Dim
	}
	return wide
}

// copyRowsTo copies n rows of d elements to rows of wide elements, padded with zeros.
func copyRowsTo(dst []float32, wide int, src []float32, ld, n, d int) {
	for i := range n {
		row := dst[i*wide:][:wide]
		clear(row[copy(row, src[i*ld:][:d]):])
	}
}

// panelWork computes the queries of rows [y0, y1) of a window.
type panelWork struct {
	t         *gridTask
	y0, y1    int
	high, low []float32 // queries by groups, as rows of tiles: rounded to bfloat16, and the remainders
	tiles     []float32 // position terms before they are transposed
	row       []float32 // attendPanel.row, if there are no positions
	a         attendPanel
}

// runPanels computes the queries of rows [y0, y1) of the window.
func (t *gridTask) runPanels(s *isa.Set, sc *pool.Scratch, keys panelKeys, y0, y1 int) {
	g, p := t.g, t.plan
	size := p.steps * tileFloats
	w := &t.state.work
	*w = panelWork{t: t, y0: y0, y1: y1}
	w.a = attendPanel{steps: p.steps, blocks: p.blocks, table: p.table, scale: g.scale(), work: sc.Floats(attendWork),
		fresh: t.vh == t.h && t.vw == t.w}
	t.rows = sc.Floats(groupSize*p.steps*product.TileSide + product.Spill)
	w.packQueries(s, sc)
	// Two rows at a time if a row has an odd number of groups, so that groups fill panels.
	rows := max(p.rowsH, 1+p.across%2)
	t.reserve(s, sc, rows)
	if g.RelH == nil {
		w.row = sc.Floats(groupSize)
		clear(w.row)
	} else {
		w.termsW(s, sc)
		w.a.initHalf, w.a.rowHalf = p.termW*groupSize, p.termH*groupSize
	}
	if keys.k == nil {
		keys = panelKeys{sc.Floats(p.blocks * 2 * size), sc.Floats(p.blocks * 2 * size)}
		t.packPanelKeys(s, sc, keys, 0, p.blocks)
	}
	w.a.k, w.a.v = keys.k, keys.v
	for y := y0; y < y1; y += rows {
		w.run(s, sc, y, min(y1, y+rows))
	}
	if g.OutBlocked != nil {
		vec.On(s).StoreFence()
	}
}

// packQueries packs the queries of all groups.
func (w *panelWork) packQueries(s *isa.Set, sc *pool.Scratch) {
	t, p := w.t, w.t.plan
	d, wide := t.g.Dim, p.steps*product.TileSide
	size := p.steps * tileFloats
	w.high, w.low = sc.Floats(panelRows*p.across*size), sc.Floats(panelRows*p.across*size)
	for i := range (w.y1 - w.y0) * p.across {
		first, n := p.group(w.y0*p.across + i)
		high, low := w.high[i*size:][:size], w.low[i*size:][:size]
		if n < groupSize { // the scores of missing queries also decide when attend raises its maxima
			clear(high)
			clear(low)
		}
		ahead := 0
		if next, m := p.group(w.y0*p.across + i + 1); m > 0 {
			ahead = (t.index(next) - t.index(first)) * 3 * t.g.Heads * d
		}
		on(s).tileRowsSplit(high, low, t.wideRows(t.rows, t.at(first)[t.head*d:], n, wide), t.rowStep(wide), n, p.steps,
			ahead)
	}
}

// reserve allocates memory for the queries of the given number of rows. It sets up attnTile so that its methods, which
// padding and run use, take every half of a panel for a narrow panel of pairs.
func (t *gridTask) reserve(s *isa.Set, sc *pool.Scratch, rows int) {
	p := t.plan
	halves := (rows*p.across + 1) &^ 1
	wide := p.steps * product.TileSide
	spans := pool.Own[[]span](sc)
	*spans = slices.Grow((*spans)[:0], halves)[:halves]
	t.attnTile = attnTile{s: s, way: product.Pairs, dk: t.g.Dim, dv: t.g.Dim, depth: wide / 2, rowsO: wide,
		spans: *spans,
		rows:  t.rows}
	cols := halves * groupSize
	t.q, t.o = sc.Floats(cols*t.depth), sc.Floats(cols*t.rowsO)
	t.m, t.l = sc.Floats(cols), sc.Floats(cols)
	t.alpha, t.junk = sc.Floats(groupSize), sc.Floats(groupSize)
	if t.g.RelH != nil {
		t.termH, t.termW, t.relWScale = p.termH, p.termW, t.g.scale()
		t.relH = sc.Floats(cols * p.termH)
	}
}

// run computes the queries of rows [y0, y1), for which reserve has allocated memory.
func (w *panelWork) run(s *isa.Set, sc *pool.Scratch, y0, y1 int) {
	t, p, a := w.t, w.t.plan, &w.a
	g, d := t.g, t.g.Dim
	size := p.steps * tileFloats
	from := (y0 - w.y0) * p.across // the first group, counted from the start of the task
	groups := (y1 - y0) * p.across
	halves := (groups + 1) &^ 1
	t.spans = t.spans[:halves]
	for i := range t.spans {
		t.spans[i] = span{&product.On(s).Narrow, &norm.On(s).Narrow, i * groupSize, 0}
		if i == groups {
			clear(t.q[i*size:][:size])
			continue
		}
		_, t.spans[i].n = p.group(y0*p.across + i)
		for step := range p.steps {
			vec.On(s).Transpose(t.q[i*size+step*tileFloats:], groupSize, w.high[(from+i)*size+step*tileFloats:],
				groupSize,
				groupSize, groupSize)
		}
	}
	init, row := p.init, w.row
	if g.RelH != nil {
		w.termsH(s, y0, y1)
		row, init = t.relH, t.relW[from*a.initHalf:]
	}
	for i := 0; i < halves; i += 2 {
		a.o, a.m, a.l = t.o[2*i*size:], t.m[i*groupSize:], t.l[i*groupSize:]
		a.clear()
	}
	if t.vh < t.h || t.vw < t.w {
		all := t.relW
		if g.RelH != nil {
			t.relW = init
		}
		t.padding(sc)
		t.relW = all
	}
	if g.RelH != nil && (p.vw%groupSize != 0 || p.vh*p.across%2 != 0) { // some group has missing keys
		for i := range groups {
			p.mask(init[i*a.initHalf:])
		}
	}
	for i := 0; i < halves; i += 2 {
		a.q, a.o, a.m, a.l = t.q[i*size:], t.o[2*i*size:], t.m[i*groupSize:], t.l[i*groupSize:]
		a.init, a.row = init[i*a.initHalf:], row[i*a.rowHalf:]
		on(s).attend(a)
	}
	e := g.Heads * d
	var out product.Blocked
	if g.OutBlocked != nil {
		out = product.NewBlocked(g.OutBlocked, g.B*g.GH*g.GW, e)
	}
	for i, half := range t.spans[:groups] {
		first, n := p.group(y0*p.across + i)
		if g.OutBlocked != nil {
			on(s).tileOut(t.rows, d, t.o[2*i*size:], t.l[i*groupSize:], n, d/groupSize)
			out.Put(s, t.index(first), t.head*d, t.rows, d, n, d)
			continue
		}
		out := g.Out[t.index(first)*e+t.head*d:]
		if d%groupSize == 0 {
			on(s).tileOut(out, e, t.o[2*i*size:], t.l[i*groupSize:], n, d/groupSize)
			continue
		}
		rows := t.finish(half)
		for j := range n {
			copy(out[j*e:][:d], rows[j*d:])
		}
	}
}
