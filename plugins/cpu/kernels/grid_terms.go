package kernels

import (
	"slices"
	"sync/atomic"
)

// The position terms of grid attention by tiles. Operands are sums of two bfloat16, so that the terms are nearly those of float32.

// panelRelative is both tables of positions.
type panelRelative struct{ h, w panelTable }

// panelTable is relative positions along one axis: columns of pairs of elements [high, low][steps][16, cols], a matrix for every position
// of a query. Where the positions depend on the distance of query and key alone, as they should, these are windows of one matrix.
type panelTable struct {
	n, tiles int // positions of a key, and tiles that hold them
	cols     int
	distance bool
	matrix   int // floats of a matrix
	packed   []float32
}

// at is the place of the matrix for a position of a query.
func (t *panelTable) at(query int) int {
	if t.distance {
		return t.n - 1 - query
	}
	return query * t.matrix
}

// packTerms packs both tables, into memory that all workers read.
func (g *GridAttentionArgs) packTerms(p *Pool, wh, ww int) (r panelRelative) {
	if g.RelH == nil {
		return r
	}
	r.h.pack(p, g.RelH, wh, g.Dim, log2e)
	r.w.pack(p, g.RelW, ww, g.Dim, 1/g.Scale) // they are added before the scores are scaled
	return r
}

func (t *panelTable) pack(p *Pool, rel []float32, n, d int, factor float32) {
	steps := (d + tileSide - 1) / tileSide
	t.n, t.tiles = n, (n+groupSize-1)/groupSize
	var differ atomic.Bool
	p.split(n-1, 1+elementGrain/(n*d), func(lo, hi, _ int) {
		for q := lo + 1; q < hi+1 && !differ.Load(); q++ {
			if !slices.Equal(rel[q*n*d+d:(q+1)*n*d], rel[(q-1)*n*d:(q*n-1)*d]) {
				differ.Store(true)
			}
		}
	})
	t.distance = !differ.Load()
	count := n // of matrices
	t.cols = t.tiles * groupSize
	if t.distance {
		count = 1
		t.cols = (n - 1 + t.cols + groupSize - 1) / groupSize * groupSize
	}
	t.matrix = 2 * steps * groupSize * t.cols
	t.packed = p.shared.floats(count * t.matrix)
	vector := func(at, col int) []float32 { // of column col
		switch {
		case !t.distance && col < n:
			return rel[(at*n+col)*d:][:d]
		case t.distance && col < n-1:
			return rel[(n-1-col)*n*d:][:d] // the first key
		case t.distance && col < 2*n-1:
			return rel[(col-n+1)*d:][:d] // the first query
		}
		return nil
	}
	p.split(count, 1+elementGrain/t.matrix, func(lo, hi, worker int) {
		sc := p.scratch(worker)
		wide := steps * tileSide
		rows, tiles := sc.floats(groupSize*wide), sc.floats(2*steps*tileFloats)
		for at := lo; at < hi; at++ {
			dst := t.packed[at*t.matrix:][:t.matrix]
			for col := 0; col < t.cols; col += groupSize {
				clear(rows)
				for i := range groupSize {
					for j, x := range vector(at, col+i) {
						rows[i*wide+j] = x * factor
					}
				}
				p.isa.tileRowsSplit(tiles, tiles[steps*tileFloats:], rows, wide, groupSize, steps)
				for i := range 2 * steps {
					p.isa.transpose(dst[i*groupSize*t.cols+col:], t.cols, tiles[i*tileFloats:], groupSize, groupSize, groupSize)
				}
			}
		}
	})
}

// panelTerms computes the terms of the queries of rows [y0, y1), given as rows of tiles: t.relH, which is log2(e)*q·RelH, and t.relW, which is
// q·RelW/Scale. Both have a row for each row or column of the window, of a column for each query of a group.
func (t *gridTask) panelTerms(s *isa, sc *scratch, high, low []float32, y0, y1 int) {
	p := t.plan
	size := p.steps * tileFloats
	halves := len(t.spans)
	t.relH, t.relW = sc.floats(halves*p.termH*groupSize), sc.floats(halves*p.termW*groupSize)
	clear(t.relH[(y1-y0)*p.across*p.termH*groupSize:]) // of the half without queries
	clear(t.relW[(y1-y0)*p.across*p.termW*groupSize:])
	h, w := &t.terms.h, &t.terms.w
	tiles := sc.floats(max(p.rowsH*p.across*h.tiles, groupSize*w.tiles) * tileFloats)
	args := termTiles{aStride: groupSize, c: tiles, steps: p.steps, work: sc.floats(attendWork)}
	multiply := func(tab *panelTable, at, row int, items []int32) {
		args.a, args.aLow = high[row*size:], low[row*size:]
		args.b, args.bLow, args.bStride = tab.packed[at:], tab.packed[at+tab.matrix/2:], tab.cols
		args.items = items
		s.tileTerms(&args)
	}
	perRow := p.across * h.tiles
	for y := 0; y < y1-y0; y += p.rowsH {
		rows := min(p.rowsH, y1-y0-y)
		matrix := h.at(y0 + y)
		if p.rowsH > 1 {
			matrix = 0
		}
		multiply(h, matrix, y*p.across, p.itemsH[:3*rows*perRow])
		for i := range rows * perRow {
			s.transpose(t.relH[(y*perRow+i)*tileFloats:], groupSize, tiles[i*tileFloats:], groupSize, groupSize, groupSize)
		}
	}
	args.aStride = p.across * size
	for x := range p.across {
		n := min(groupSize, t.vw-x*groupSize)
		multiply(w, 0, 0, p.itemsW[3*x*groupSize*w.tiles:][:3*n*w.tiles])
		for y := range y1 - y0 {
			for k := range w.tiles {
				dst := t.relW[(y*p.across+x)*p.termW*groupSize+k*tileFloats:]
				s.transpose(dst, groupSize, tiles[k*tileFloats+y*groupSize:], w.tiles*tileFloats, n, groupSize)
			}
		}
	}
}
