package kernels

import "math"

// Attention in tiles. Scores are held transposed, one panel at a time: s[keys, nr], a row per key and a column per query. Then
//
//	s = K·Qᵀ        is a gemm of packed key panels with a packed query panel,
//	softmax         runs down the columns: vectors of queries, no shuffles,
//	Oᵀ += Vᵀ·P      is a gemm of packed Vᵀ panels with s itself, which already has the layout of a packed operand.
//
// The softmax is online: each query keeps the largest score so far, m, and the sum of exp(s-m), l; when a tile of keys raises m,
// l and O are scaled by exp(m_old - m_new). Memory is O(tile), whatever the number of keys.

// queryPanels bounds the panels of queries that share one packing of the keys.
const queryPanels = 8

// keyTile is the number of keys in a tile for a panel height of mr: near 256, a multiple of mr.
func keyTile(mr int) int { return 256 / mr * mr }

// attnTile is the state of one task: some panels of queries against all keys.
type attnTile struct {
	s      *isa
	dk, dv int // sizes of q and k, and of v
	panels int
	tile   int // most keys in a tile

	q     []float32 // [panels][dk, nr] packed queries
	o     []float32 // [panels][dv, nr] transposed output, not yet divided by l
	m, l  []float32 // [panels][nr]
	k, v  []float32 // one tile of keys and values, packed in panels of mr rows: keys by dk, and dv by keys
	rows  []float32 // gathered rows of q, k or v before packing, [tile, dk or dv] with spill
	score []float32 // [tile, nr]
	mNew  []float32 // [nr]
	alpha []float32 // [nr]
}

func (a *attnTile) init(s *isa, sc *scratch, panels, keys, dk, dv int) {
	t := min(keyTile(s.mr), keys)
	*a = attnTile{s: s, dk: dk, dv: dv, panels: panels, tile: t}
	nr := s.nr
	a.q = sc.floats(panels * dk * nr)
	a.o = sc.floats(panels * dv * nr)
	a.m, a.l = sc.floats(panels*nr), sc.floats(panels*nr)
	a.k = sc.floats(t*dk + spill)
	a.v = sc.floats(t*dv + spill)
	a.rows = sc.floats(max(t, nr)*max(dk, dv) + spill)
	a.score = sc.floats(t * nr)
	a.mNew, a.alpha = sc.floats(nr), sc.floats(nr)
	clear(a.o)
	clear(a.l)
	for i := range a.m {
		a.m[i] = float32(math.Inf(-1))
	}
}

// packQueries packs panel p from rows[queries, dk] in a.rows; the columns past queries are zero.
func (a *attnTile) packQueries(p, queries int) {
	s := a.s
	q := a.q[p*a.dk*s.nr:][:a.dk*s.nr]
	if queries < s.nr {
		clear(a.rows[queries*a.dk : s.nr*a.dk])
	}
	whole := a.dk / s.lanes * s.lanes
	for h := 0; h < s.nr; h += s.lanes {
		rows := a.rows[h*a.dk:]
		s.transpose(q[h:], s.nr, rows, a.dk, s.lanes, whole)
		for d := whole; d < a.dk; d++ {
			for i := range s.lanes {
				q[d*s.nr+h+i] = rows[i*a.dk+d]
			}
		}
	}
}

// packKeys packs n keys from a.rows[n, dk].
func (a *attnTile) packKeys(n int) {
	for r := 0; r < n; r += a.s.mr {
		h := min(a.s.mr, n-r)
		packRows(a.s, a.k[r*a.dk:], a.rows[r*a.dk:], a.dk, h, a.dk)
	}
}

// packValues packs n values from a.rows[n, dv], transposed: rows are the elements of a value, the depth is the keys.
func (a *attnTile) packValues(n int) {
	s := a.s
	for r := 0; r < a.dv; r += s.mr {
		h := min(s.mr, a.dv-r)
		s.copyRows(a.v[r*n:], h, a.rows[r:], a.dv, n) // reads past a row at the end, into the next row or the spill
		if h > s.lanes {
			panic("BUG: panel higher than a vector")
		}
	}
}

// scores computes the raw products of panel p with the n packed keys.
func (a *attnTile) scores(p, n int) []float32 {
	s := a.s
	q := a.q[p*a.dk*s.nr:]
	for r := 0; r < n; r += s.mr {
		s.gemm(min(s.mr, n-r), a.dk, a.k[r*a.dk:], q, a.score[r*s.nr:], s.nr, false, nil, nil, 0)
	}
	return a.score[:n*s.nr]
}

// begin readies a.mNew to take the maximum of the coming scores of panel p.
func (a *attnTile) begin(p int) { copy(a.mNew, a.m[p*a.s.nr:]) }

// accumulate turns the finished scores of panel p into weights and adds their values. a.mNew holds the new maxima.
func (a *attnTile) accumulate(p, n int, first bool) {
	s := a.s
	nr := s.nr
	m, l, o := a.m[p*nr:][:nr], a.l[p*nr:][:nr], a.o[p*a.dv*nr:][:a.dv*nr]
	changed := false
	for i, x := range a.mNew {
		if math.IsInf(float64(x), -1) {
			// No key is allowed so far: exp(-Inf - 0) = 0 where -Inf - -Inf would be NaN.
			a.mNew[i], a.alpha[i] = 0, 0
		} else {
			a.alpha[i] = m[i] - x
			changed = changed || m[i] != x
		}
		m[i] = x
	}
	if changed && !first {
		s.exp(a.alpha, a.alpha)
		s.scaleRows(l, a.alpha)
		s.scaleRows(o, a.alpha)
	}
	s.expSum(a.score[:n*nr], a.mNew, l)
	for r := 0; r < a.dv; r += s.mr {
		s.gemm(min(s.mr, a.dv-r), n, a.v[r*n:], a.score, o[r*nr:], nr, !first, nil, nil, 0)
	}
}

// finish divides panel p by its sums and returns it as rows [nr, dv] in a.rows. A query without any allowed key gives zeros.
func (a *attnTile) finish(p int) []float32 {
	s := a.s
	nr, dv := s.nr, a.dv
	o := a.o[p*dv*nr:][:dv*nr]
	for i, l := range a.l[p*nr:][:nr] {
		a.alpha[i] = 1 / l
		if l == 0 {
			a.alpha[i] = 0
		}
	}
	s.scaleRows(o, a.alpha)
	// The transposing copy takes up to lanes rows of Oᵀ at a time and spills into columns that come later.
	for d := 0; d < dv; d += s.lanes {
		h := min(s.lanes, dv-d)
		if h == s.lanes {
			s.transpose(a.rows[d:], dv, o[d*nr:], nr, h, nr)
			continue
		}
		for i := range nr {
			for e := range h {
				a.rows[i*dv+d+e] = o[(d+e)*nr+i]
			}
		}
	}
	return a.rows
}
