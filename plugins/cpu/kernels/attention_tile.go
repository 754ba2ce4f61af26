package kernels

import "math"

// Attention in tiles. Scores are held transposed, one panel at a time: s[keys, n], a row per key and a column per query. Then
//
//	s = K·Qᵀ        is a gemm of packed key panels with a packed query panel,
//	softmax         runs down the columns: vectors of queries, no shuffles,
//	Oᵀ += Vᵀ·P      is a gemm of packed Vᵀ panels with s itself, which already has the layout of a packed operand.
//
// The softmax is online: each query keeps the largest score so far, m, and the sum of 2^(s-m), l; when a tile of keys raises m,
// l and O are scaled by 2^(m_old - m_new). Scores are held times log2(e), which makes e^s a power of two and costs nothing, as
// they are scaled anyway. Memory is O(tile), whatever the number of keys.

const log2e = math.Log2E

// queryPanels bounds the panels of queries that share one packing of the keys.
const queryPanels = 16

// keyTile is the number of keys in a tile for a panel height of mr: near 128, a multiple of mr. A panel of scores, of queries and
// of keys then share a first-level cache.
func keyTile(mr int) int { return 128 / mr * mr }

// span is a run of columns that one panel holds: [at, at+n) of them, in a panel of width kernels.nr, which starts at column
// offset of the padded columns.
type span struct {
	*panel
	at, n int
}

// spans cuts n columns into wide panels and, where it suffices for the rest, a narrow one. All but the last are full.
func (s *isa) spans(n int) []span {
	var out []span
	for at := 0; at < n; at += s.nr {
		p := &s.panel
		if n-at <= s.narrow.nr {
			p = &s.narrow
		}
		out = append(out, span{p, at, min(p.nr, n-at)})
	}
	return out
}

// padded is the columns of spans, those past the last one included.
func padded(spans []span) int {
	if len(spans) == 0 {
		return 0
	}
	last := spans[len(spans)-1]
	return last.at + last.nr
}

// attnTile is the state of one task: some panels of queries against all keys.
type attnTile struct {
	s      *isa
	dk, dv int // sizes of q and k, and of v
	spans  []span
	tile   int // most keys in a tile

	q       []float32 // [panels][dk, nr] packed queries
	o       []float32 // [panels][dv, nr] transposed output, not yet divided by l
	m, l    []float32 // [panels][nr]
	started bool      // o, m and l hold something

	k, v  []float32 // one tile of keys and values, packed in panels of mr rows: keys by dk, and dv by keys
	rows  []float32 // gathered rows of q, k or v before packing, [tile, dk or dv] with spill
	score []float32 // [tile, nr]
	mNew  []float32 // [nr]
	alpha []float32 // [nr]
	junk  []float32 // [nr], a sum that nothing reads
}

func (a *attnTile) init(s *isa, sc *scratch, queries, keys, dk, dv int) {
	t := min(keyTile(s.mr), keys)
	*a = attnTile{s: s, dk: dk, dv: dv, spans: s.spans(queries), tile: t}
	nr, cols := s.nr, padded(a.spans)
	a.q = sc.floats(cols * dk)
	a.o = sc.floats(cols * dv)
	a.m, a.l = sc.floats(cols), sc.floats(cols)
	a.k = sc.floats(t*dk + spill)
	a.v = sc.floats(t*dv + spill)
	a.rows = sc.floats(max(t, nr)*max(dk, dv) + spill)
	a.score = sc.floats(t * nr)
	a.mNew, a.alpha, a.junk = sc.floats(nr), sc.floats(nr), sc.floats(nr)
	clear(a.o)
	clear(a.l)
	for i := range a.m {
		a.m[i] = float32(math.Inf(-1))
	}
}

// packQueries packs a panel from rows[p.n, dk] in a.rows; the columns past them are zero.
func (a *attnTile) packQueries(p span) {
	s := a.s
	q := a.q[p.at*a.dk:][:a.dk*p.nr]
	clear(a.rows[p.n*a.dk : p.nr*a.dk])
	whole := a.dk / s.lanes * s.lanes
	for h := 0; h < p.nr; h += s.lanes {
		rows := a.rows[h*a.dk:]
		s.transpose(q[h:], p.nr, rows, a.dk, s.lanes, whole)
		for d := whole; d < a.dk; d++ {
			for i := range s.lanes {
				q[d*p.nr+h+i] = rows[i*a.dk+d]
			}
		}
	}
}

// packKeys packs keys [lo, hi) of the tile, lo at the start of a panel, from rows of dk elements with a distance of ld.
func (a *attnTile) packKeys(lo, hi int, rows []float32, ld int) {
	for r := lo; r < hi; r += a.s.mr {
		packRows(a.s, a.k[r*a.dk:], rows[(r-lo)*ld:], ld, min(a.s.mr, hi-r), a.dk)
	}
}

// packValues packs the n values of the tile, transposed: the rows of a panel are elements of a value, the depth is the values.
// What run gives for a value is the place from which on some values stand, to be read a vector past their last element, the
// distance between them, and their number.
func (a *attnTile) packValues(n int, run func(at int) (rows []float32, ld, count int)) {
	s := a.s
	for r := 0; r < a.dv; r += s.mr {
		h := min(s.mr, a.dv-r)
		for at := 0; at < n; {
			rows, ld, count := run(at)
			s.copyRows(a.v[r*n+at*h:], h, rows[r:], ld, count) // spills into what comes later
			at += count
		}
	}
}

// scores computes the raw products of a panel with the n packed keys.
func (a *attnTile) scores(p span, n int) []float32 {
	mr := a.s.mr
	q := a.q[p.at*a.dk:]
	for r := 0; r < n; r += mr {
		p.gemm(min(mr, n-r), a.dk, a.k[r*a.dk:], q, a.score[r*p.nr:], p.nr, false, nil, nil, 0)
	}
	return a.score[:n*p.nr]
}

// begin readies a.mNew to take the maximum of the coming scores of a panel.
func (a *attnTile) begin(p span) { copy(a.mNew[:p.nr], a.m[p.at:]) }

// accumulate turns the finished scores of a panel into weights and adds their values. a.mNew holds the new maxima.
func (a *attnTile) accumulate(p span, n int) {
	nr := p.nr
	m, l, o := a.m[p.at:][:nr], a.l[p.at:][:nr], a.o[p.at*a.dv:][:a.dv*nr]
	changed := false
	for i, x := range a.mNew[:nr] {
		a.alpha[i] = m[i]
		if x < -math.MaxFloat32 {
			a.mNew[i] = 0 // no key is allowed so far: 2^(-Inf - 0) = 0 where -Inf - -Inf would be NaN
		} else if m[i] != x {
			changed = true
		}
		m[i] = x
	}
	if changed && a.started {
		p.expSum(a.alpha[:nr], a.mNew, a.junk)
		p.scaleRows(l, a.alpha)
		p.scaleRows(o, a.alpha)
	}
	p.expSum(a.score[:n*nr], a.mNew, l)
	for r := 0; r < a.dv; r += a.s.mr {
		p.gemm(min(a.s.mr, a.dv-r), n, a.v[r*n:], a.score, o[r*nr:], nr, a.started, nil, nil, 0)
	}
}

// finish divides a panel by its sums and returns it as rows [nr, dv] in a.rows. A query without any allowed key gives zeros.
func (a *attnTile) finish(p span) []float32 {
	s := a.s
	nr, dv := p.nr, a.dv
	o := a.o[p.at*dv:][:dv*nr]
	for i, l := range a.l[p.at:][:nr] {
		a.alpha[i] = 1 / l
		if l == 0 {
			a.alpha[i] = 0
		}
	}
	p.scaleRows(o, a.alpha)
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
