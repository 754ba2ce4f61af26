package attention

import (
	"slices"
	"sync/atomic"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Position terms of grid attention in AMX tiles. Operands are sums of two bfloat16, so that the terms are nearly as
// precise as in float32.

// panelRelative holds the tables for rows and columns.
type panelRelative struct{ h, w panelTable }

// panelTable holds the relative positions along one axis: for each position of a query a matrix [high, low][steps][16,
// cols] of pairs, with a column for each position of a key. If positions depend only on the distance of query and key,
// as they usually do, there is one matrix with a column for each distance, and a query reads part of its columns.
type panelTable struct {
	n, tiles int // positions of a key, and the tiles that they fill
	cols     int
	distance bool
	matrix   int // floats of a matrix
	packed   []float32

	// Used by pack only.
	p      *pool.Pool
	rel    []float32
	d      int
	factor float32
	differ atomic.Bool
}

// at returns the offset in packed of the matrix for a position of a query.
func (t *panelTable) at(query int) int {
	if t.distance {
		return t.n - 1 - query
	}
	return query * t.matrix
}

// pack packs both tables in memory that the workers share.
func (r *panelRelative) pack(p *pool.Pool, g *GridArgs, wh, ww int) {
	if g.RelH == nil {
		return
	}
	r.h.pack(p, g.RelH, wh, g.Dim, log2e)
	r.w.pack(p, g.RelW, ww, g.Dim, 1/g.Scale) // attendPanel.init is added before the scores are scaled
}

func (t *panelTable) pack(p *pool.Pool, rel []float32, n, d int, factor float32) {
	t.n, t.tiles, t.p, t.rel, t.d, t.factor = n, (n+groupSize-1)/groupSize, p, rel, d, factor
	t.differ.Store(false)
	p.Share(n-1, 1+pool.Grain/(n*d), (*distances)(t))
	t.distance = !t.differ.Load()
	count := n // number of matrices
	t.cols = t.tiles * groupSize
	if t.distance {
		count = 1
		t.cols = (n - 1 + t.cols + groupSize - 1) / groupSize * groupSize
	}
	t.matrix = 2 * t.steps() * groupSize * t.cols
	t.packed = p.Shared.Floats(count * t.matrix)
	p.Share(count, 1+pool.Grain/t.matrix, t)
}

func (t *panelTable) steps() int { return (t.d + product.TileSide - 1) / product.TileSide }

// distances checks whether the positions depend only on distances.
type distances panelTable

func (t *distances) Do(lo, hi, _ int) {
	row := t.n * t.d
	for q := lo + 1; q < hi+1 && !t.differ.Load(); q++ {
		if !slices.Equal(t.rel[q*row+t.d:(q+1)*row], t.rel[(q-1)*row:q*row-t.d]) {
			t.differ.Store(true)
		}
	}
}

// vector returns column col of a matrix, nil past the last one.
func (t *panelTable) vector(matrix, col int) []float32 {
	key := matrix*t.n + col
	switch {
	case t.distance && col < t.n-1:
		key = (t.n - 1 - col) * t.n // of a later query and the first key
	case t.distance:
		key = col - t.n + 1 // of the first query and a later key
	}
	if col >= t.n && !t.distance || col >= 2*t.n-1 {
		return nil
	}
	return t.rel[key*t.d:][:t.d]
}

// Do packs matrices.
func (t *panelTable) Do(lo, hi, worker int) {
	s, sc, steps := t.p.Set, t.p.Scratch(worker), t.steps()
	wide := steps * product.TileSide
	rows, tiles := sc.Floats(groupSize*wide), sc.Floats(2*steps*tileFloats)
	for at := lo; at < hi; at++ {
		dst := t.packed[at*t.matrix:][:t.matrix]
		for col := 0; col < t.cols; col += groupSize {
			clear(rows)
			for i := range groupSize {
				for j, x := range t.vector(at, col+i) {
					rows[i*wide+j] = x * t.factor
				}
			}
			on(s).tileRowsSplit(tiles, tiles[steps*tileFloats:], rows, wide, groupSize, steps, 0)
			for i := range 2 * steps {
				vec.On(s).Transpose(dst[i*groupSize*t.cols+col:], t.cols, tiles[i*tileFloats:], groupSize, groupSize,
					groupSize)
			}
		}
	}
}

// multiplyTerms multiplies queries of the task, from a group on, by the matrix at offset matrix of a table. It stores
// tiles in w.tiles.
func (w *panelWork) multiplyTerms(s *isa.Set, tab *panelTable, matrix, group, aStride int, items []int32) {
	size := w.a.steps * tileFloats
	t := &w.t.state.terms
	*t = termTiles{steps: w.a.steps, items: items, a: w.high[group*size:], aLow: w.low[group*size:], aStride: aStride,
		b: tab.packed[matrix:], bLow: tab.packed[matrix+tab.matrix/2:], bStride: tab.cols, c: w.tiles}
	on(s).tileTerms(t)
}

// termsH computes t.relH = log2(e)*q·RelH for the queries of rows [y0, y1): for each group of queries a matrix with a
// row for each row of the window, and a column for each query.
func (w *panelWork) termsH(s *isa.Set, y0, y1 int) {
	t, p, h := w.t, w.t.plan, &w.t.terms.h
	perRow := p.across * h.tiles
	clear(t.relH[(y1-y0)*perRow*tileFloats:]) // for a half without queries
	for y := y0; y < y1; y += p.rowsH {
		matrix := h.at(y)
		if p.rowsH > 1 {
			matrix = 0
		}
		n := min(p.rowsH, y1-y) * perRow
		w.multiplyTerms(s, h, matrix, (y-w.y0)*p.across, groupSize, p.itemsH[:3*n])
		for i := range n {
			vec.On(s).Transpose(t.relH[((y-y0)*perRow+i)*tileFloats:], groupSize, w.tiles[i*tileFloats:], groupSize,
				groupSize,
				groupSize)
		}
	}
}

// termsW computes t.relW = q·RelW/Scale for all queries of the task: for each group of queries a matrix with a row for
// each column of the window, and a column for each query.
func (w *panelWork) termsW(s *isa.Set, sc *pool.Scratch) {
	t, p, tab := w.t, w.t.plan, &w.t.terms.w
	groups := (w.y1 - w.y0) * p.across
	w.tiles = sc.Floats(max(p.rowsH*p.across*t.terms.h.tiles, groupSize*tab.tiles) * tileFloats)
	t.relW = sc.Floats((groups + 1) * p.termW * groupSize)
	clear(t.relW[groups*p.termW*groupSize:]) // for a half without queries
	for x := range p.across {
		n := min(groupSize, t.vw-x*groupSize)
		w.multiplyTerms(s, tab, 0, 0, p.across*p.steps*tileFloats, p.itemsW[3*x*groupSize*tab.tiles:][:3*n*tab.tiles])
		for y := range w.y1 - w.y0 {
			for k := range tab.tiles {
				dst := t.relW[(y*p.across+x)*p.termW*groupSize+k*tileFloats:]
				vec.On(s).Transpose(dst, groupSize, w.tiles[k*tileFloats+y*groupSize:], tab.tiles*tileFloats, n,
					groupSize)
			}
		}
	}
}
