package kernels

import (
	"math"
	"slices"
)

// Grid attention by panels of tiles, see attendPanel. Tokens go in groups of 16 that do not straddle the rows of a window: a half of
// a panel is a group of queries, and keys that are missing from a group have position terms of -Inf. So the terms for the columns are
// the same tiles for every row of keys, and those for the row are one vector.

const groupSize = 16

// panelRows is the rows of a window whose queries one task takes: as many as a tile has, which is how position terms are computed.
const panelRows = 16

// panelPlan is what windows of one size have in common.
type panelPlan struct {
	vh, vw       int // rows and columns on the grid
	steps        int // of 32 elements of a query, key or value
	across       int // groups of a row
	blocks       int // of keys
	table        []int32
	tiles        int       // of attendPanel.init in each half
	init         []float32 // without positions
	rowsH        int       // rows of a window whose terms are computed together: one, or all
	itemsH       []int32   // of tileTerms for the groups of these rows, relative to the row's matrix if it is one
	itemsW       []int32   // for the columns of a window
	termH, termW int       // rows of terms in each half
}

// panelKeys is the keys and values of a window and head, packed.
type panelKeys struct{ k, v []float32 }

// panels reports whether attention is computed in panels of tiles.
func (g *GridAttentionArgs) panels(s *isa) bool {
	return s.attend != nil && g.Precision == BFloat16 && g.Dim <= attendMost*tileSide && g.Scale > 1e-10 && g.Scale < 1e10
}

// scale is what multiplies the products of queries and keys.
func (g *GridAttentionArgs) scale() float32 { return g.Scale * log2e }

func (g *GridAttentionArgs) plan(rel *panelRelative, vh, vw int) *panelPlan {
	p := &panelPlan{vh: vh, vw: vw, steps: (g.Dim + tileSide - 1) / tileSide, across: (vw + groupSize - 1) / groupSize}
	p.blocks = (vh*p.across + 1) / 2
	p.tiles = p.across + 1 // the last for a group without keys
	if g.RelH != nil {
		p.tiles = max(p.tiles, rel.w.tiles)
		p.termH, p.termW = rel.h.tiles*groupSize, p.tiles*groupSize
		const tile = 4 * tileFloats
		p.rowsH = 1
		if vh <= panelRows && p.across*rel.h.tiles < 8 { // few products in a row
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
				p.itemsW = append(p.itemsW, int32(x/groupSize*p.steps*tile+x%groupSize*64), int32(4*rel.w.at(x)+64*k), int32((x%groupSize*rel.w.tiles+k)*tile))
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

// mask forbids the keys that are missing, in the tiles of one half.
func (p *panelPlan) mask(init []float32) {
	for i := p.vw * groupSize; i < (p.across+1)*tileFloats; i++ {
		init[i] = float32(math.Inf(-1))
	}
}

// group is the first token of a group, and their number.
func (p *panelPlan) group(i int) (first, n int) {
	y, x := i/p.across, i%p.across*groupSize
	if y >= p.vh {
		return 0, 0
	}
	return y*p.vw + x, min(groupSize, p.vw-x)
}

// runPanels computes grid attention in panels.
func (g *GridAttentionArgs) runPanels(p *Pool, windows int, place func(int) window) {
	full := place(0)
	terms := g.packTerms(p, full.h, full.w)
	plans := map[[2]int]*panelPlan{}
	for i := range windows {
		w := place(i)
		if size := [2]int{w.vh, w.vw}; plans[size] == nil {
			plans[size] = g.plan(&terms, w.vh, w.vw)
		}
	}
	task := func(i, head int) gridTask {
		w := place(i)
		return gridTask{g: g, window: w, head: head, plan: plans[[2]int{w.vh, w.vw}], terms: &terms}
	}
	parts := (full.h + panelRows - 1) / panelRows
	if parts > 1 {
		keys := g.packAllKeys(p, windows, task)
		p.Run(windows*g.Heads*parts, func(i, worker int) {
			t := task(i/parts/g.Heads, i/parts%g.Heads)
			y0 := i % parts * panelRows
			if y0 < t.vh {
				t.runPanels(p.isa, p.scratch(worker), keys[i/parts], y0, min(t.vh, y0+panelRows))
			}
		})
		return
	}
	// A task is some heads of a window, as one head's elements are fetched while the one before is computed.
	tasks := max(1, 16*len(p.workers)/windows)
	heads := max(1, (g.Heads+tasks-1)/tasks)
	tasks = (g.Heads + heads - 1) / heads
	p.Run(windows*tasks, func(i, worker int) {
		sc := p.scratch(worker)
		for head := i % tasks * heads; head < min(g.Heads, (i%tasks+1)*heads); head++ {
			sc.reset()
			t := task(i/tasks, head)
			t.runPanels(p.isa, sc, panelKeys{}, 0, t.vh)
		}
	})
}

// packAllKeys packs the keys and values of all windows and heads, where several tasks read the same.
func (g *GridAttentionArgs) packAllKeys(p *Pool, windows int, task func(window, head int) gridTask) []panelKeys {
	const grain = 8 // blocks
	first := task(0, 0)
	size := first.plan.blocks * 2 * first.plan.steps * tileFloats
	keys := make([]panelKeys, windows*g.Heads)
	for i := range keys {
		keys[i] = panelKeys{p.shared.floats(size), p.shared.floats(size)}
	}
	pieces := (first.plan.blocks + grain - 1) / grain
	p.Run(windows*pieces, func(i, worker int) {
		sc := p.scratch(worker)
		for head := range g.Heads {
			sc.reset()
			t := task(i/pieces, head)
			lo := i % pieces * grain
			t.packPanelKeys(p.isa, sc, keys[i/pieces*g.Heads+head], lo, min(lo+grain, t.plan.blocks))
		}
	})
	return keys
}

// packPanelKeys packs the keys and values of blocks [lo, hi).
func (t *gridTask) packPanelKeys(s *isa, sc *scratch, keys panelKeys, lo, hi int) {
	p := t.plan
	d, e := t.g.Dim, t.g.Heads*t.g.Dim
	wide := p.steps * tileSide
	size := p.steps * tileFloats // of the keys of a group
	rows, pairs := sc.floats(groupSize*wide), sc.floats(groupSize*wide)
	for i := 2 * lo; i < 2*hi; i++ {
		k, half := keys.k[i*size:][:size], pairs[i%2*groupSize/2*wide:][:groupSize/2*wide]
		first, n := p.group(i)
		if n < groupSize {
			clear(k)
			clear(half)
		}
		if n > 0 {
			src := t.at(first)
			s.tileRows(k, t.wideRows(rows, src[e+t.head*d:], n, wide), t.rowStep(wide), n, p.steps)
			values, step := src[2*e+t.head*d:], 3*e
			if d < wide || n%2 != 0 {
				clear(rows[n*wide:])
				copyRowsTo(rows, wide, values, step, n, d)
				values, step = rows, wide
			}
			s.tilePairs(half, values, step, (n+1)/2, 2*p.steps)
		}
		if i%2 == 1 {
			s.transpose(keys.v[(i-1)*size:], groupSize, pairs, wide, groupSize, wide)
		}
	}
}

// wideRows is n rows of the packed matrix as rows of wide elements, rowStep apart: in place, or as a copy in buf.
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

// copyRowsTo copies n rows of d elements to rows of wide elements, filled up with zeros.
func copyRowsTo(dst []float32, wide int, src []float32, ld, n, d int) {
	for i := range n {
		row := dst[i*wide:][:wide]
		clear(row[copy(row, src[i*ld:][:d]):])
	}
}

// runPanels computes the queries of rows [y0, y1) of the window.
func (t *gridTask) runPanels(s *isa, sc *scratch, keys panelKeys, y0, y1 int) {
	g, p, d := t.g, t.plan, t.g.Dim
	wide := p.steps * tileSide
	groups := (y1 - y0) * p.across
	halves := (groups + 1) &^ 1
	// The state of attnTile, for what is shared with the other ways: every half of a panel is a narrow panel of pairs.
	sc.spans = slices.Grow(sc.spans[:0], halves)[:halves]
	t.attnTile = attnTile{s: s, way: pairs, dk: d, dv: d, depth: wide / 2, rowsO: wide, spans: sc.spans}
	cols := halves * groupSize
	t.q, t.o = sc.floats(cols*t.depth), sc.floats(cols*t.rowsO)
	t.m, t.l = sc.floats(cols), sc.floats(cols)
	t.rows = sc.floats(groupSize*wide + spill)
	t.alpha, t.junk = sc.floats(groupSize), sc.floats(groupSize)
	clear(t.o)
	clear(t.l)
	for i := range t.m {
		t.m[i] = float32(math.Inf(-1))
	}
	size := p.steps * tileFloats
	high := sc.floats(panelRows * p.across * size)
	low := sc.floats(panelRows * p.across * size)
	for i := range t.spans {
		n, first := 0, 0
		if i < groups {
			first, n = p.group(y0*p.across + i)
		}
		t.spans[i] = span{&s.narrow, i * groupSize, n}
		if n == 0 {
			clear(t.q[i*size:][:size])
			continue
		}
		tile := high[i*size:][:size]
		if n < groupSize { // what stands for missing queries has a say in when maxima are raised
			clear(tile)
			clear(low[i*size:][:size])
		}
		s.tileRowsSplit(tile, low[i*size:], t.wideRows(t.rows, t.at(first)[t.head*d:], n, wide), t.rowStep(wide), n, p.steps)
		for step := range p.steps {
			s.transpose(t.q[i*size+step*tileFloats:], groupSize, tile[step*tileFloats:], groupSize, groupSize, groupSize)
		}
	}
	a := attendPanel{steps: p.steps, blocks: p.blocks, table: p.table, init: p.init, scale: g.scale(), work: sc.floats(attendWork),
		fresh: t.vh == t.h && t.vw == t.w}
	if g.RelH == nil {
		a.row = sc.floats(groupSize)
		clear(a.row)
	} else {
		t.termH, t.termW, t.relWScale = p.termH, p.termW, a.scale
		t.panelTerms(s, sc, high, low, y0, y1)
		a.init, a.initHalf = t.relW, p.termW*groupSize
		a.row, a.rowHalf = t.relH, p.termH*groupSize
	}
	if t.vh < t.h || t.vw < t.w {
		t.padding(sc)
	}
	if g.RelH != nil && (p.vw%groupSize != 0 || p.vh*p.across%2 != 0) { // some group lacks keys
		for i := range groups {
			p.mask(a.init[i*a.initHalf:])
		}
	}
	if keys.k == nil {
		keys = panelKeys{sc.floats(p.blocks * 2 * size), sc.floats(p.blocks * 2 * size)}
		t.packPanelKeys(s, sc, keys, 0, p.blocks)
	}
	a.k, a.v = keys.k, keys.v
	init, row := a.init, a.row
	for i := 0; i < halves; i += 2 {
		a.q, a.o, a.m, a.l = t.q[i*size:], t.o[2*i*size:], t.m[i*groupSize:], t.l[i*groupSize:]
		a.init, a.row = init[i*a.initHalf:], row[i*a.rowHalf:]
		s.attend(&a)
	}
	e := g.Heads * d
	var squared squares
	if g.OutSquares != nil {
		squared = newSquares(g.OutSquares, g.B*g.GH*g.GW, e)
	}
	for i, half := range t.spans[:groups] {
		first, n := p.group(y0*p.across + i)
		if g.OutSquares != nil {
			s.tileOut(t.rows, d, t.o[2*i*size:], t.l[i*groupSize:], n, d/groupSize)
			squared.put(s, t.index(first), t.head*d, t.rows, d, n, d)
			continue
		}
		out := g.Out[t.index(first)*e+t.head*d:]
		if d%groupSize == 0 {
			s.tileOut(out, e, t.o[2*i*size:], t.l[i*groupSize:], n, d/groupSize)
			continue
		}
		rows := t.finish(half)
		for j := range n {
			copy(out[j*e:][:d], rows[j*d:])
		}
	}
	if g.OutSquares != nil {
		s.storeFence()
	}
}
