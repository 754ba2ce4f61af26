package attention

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// GridArgs describes self-attention of tokens on a grid, within windows, with decomposed relative positions.
//
// Window > 0 divides the grid into windows of Window x Window tokens; 0 means that the whole grid is one window. Tokens
// of a window that lie past the edge of the grid are padding: as keys they have k and v from Pad, as queries they are
// left out.
//
//	score[q,k] = Scale * q·k + q·RelH[qy,ky] + q·RelW[qx,kx]      positions within the window
//	out[q]     = softmax over the keys of the window of score, times v
type GridArgs struct {
	B, GH, GW, Heads, Dim, Window int

	QKV   []float32 // [B, GH, GW, 3*Heads*Dim]: q of all heads, then k, then v
	Pad   []float32 // [3*Heads*Dim], q, k and v of padding tokens; nil means zeros
	RelH  []float32 // [wh, wh, Dim] by row of the query and of the key in the window; nil if RelW is
	RelW  []float32 // [ww, ww, Dim] by column of the query and of the key
	Scale float32

	Precision product.Precision // of q·k and of the product with v

	Out []float32 // [B, GH, GW, Heads*Dim]; must not overlap QKV

	OutBlocked []float32 // replaces Out by a blocked result, if MakesBlocked is true
}

// MakesBlocked reports whether the result can have the blocked layout.
func (g *GridArgs) MakesBlocked(p *pool.Pool) bool {
	return product.TakesBlocked(p, g.Precision) && g.panels(p.Set) && g.Dim%product.TileSide == 0
}

// window is one window: its place, and how much of it lies on the grid.
type window struct {
	b, y0, x0 int
	h, w      int // rows and columns, including padding
	vh, vw    int // rows and columns that lie on the grid
}

// Grid computes attention in tiles of keys. It never holds the scores of more than one tile.
func Grid(p *pool.Pool, g *GridArgs) {
	e := g.Heads * g.Dim
	wh, ww := g.Window, g.Window
	if g.Window == 0 {
		wh, ww = g.GH, g.GW
	}
	if g.B*g.GH*g.GW*e == 0 {
		return
	}
	tokens := g.B * g.GH * g.GW
	padded := g.GH%wh != 0 || g.GW%ww != 0
	if len(g.QKV) < tokens*3*e || g.OutBlocked == nil && len(g.Out) < tokens*e || g.OutBlocked != nil &&
		!g.MakesBlocked(p) || (g.RelH == nil) != (g.RelW == nil) ||
		g.RelH != nil && (len(g.RelH) < wh*wh*g.Dim || len(g.RelW) < ww*ww*g.Dim) || padded && g.Pad != nil &&
		len(g.Pad) < 3*e {
		panic("BUG: GridAttention: a slice is short")
	}
	p.Shared.Reset()
	x := pool.Keep[gridWork](p)
	x.GridArgs, x.p, x.h, x.w = *g, p, wh, ww
	x.down, x.across = (g.GH+wh-1)/wh, (g.GW+ww-1)/ww
	if x.state == nil {
		x.state = make([]gridState, p.Threads())
	}
	if g.panels(p.Set) {
		x.runPanels()
		return
	}
	x.rel.pack(p, g, wh, ww)
	x.perTile = queryPanels * product.On(p.Set).NR
	// of a full window; at the edge of the grid some tasks have nothing to do
	x.parts = (wh*ww + x.perTile - 1) / x.perTile
	p.Each(x.windows()*g.Heads*x.parts, 1, (*gridTiles)(x))
}

// gridWork is the state of a call of Grid.
type gridWork struct {
	GridArgs
	p            *pool.Pool
	h, w         int // rows and columns of a window
	down, across int // windows of a grid along each axis
	rel          relative
	perTile      int // queries per task
	parts        int // tasks per head
	state        []gridState

	// For AMX tiles only; see grid_panels.go.
	terms panelRelative
	plans []*panelPlan
	keys  []panelKeys
	heads int // heads per task
}

// gridState is the state that a worker keeps between tasks.
type gridState struct {
	task  gridTask
	work  panelWork
	terms termTiles
}

func (x *gridWork) windows() int { return x.B * x.down * x.across }

// place returns window i.
func (x *gridWork) place(i int) window {
	w := window{b: i / (x.down * x.across), y0: i / x.across % x.down * x.h, x0: i % x.across * x.w, h: x.h, w: x.w}
	w.vh, w.vw = min(x.h, x.GH-w.y0), min(x.w, x.GW-w.x0)
	return w
}

// gridTiles runs the tasks of a grid attention without AMX tiles.
type gridTiles gridWork

func (x *gridTiles) Do(lo, hi, worker int) {
	for i := lo; i < hi; i++ {
		t := &x.state[worker].task
		*t = gridTask{g: &x.GridArgs, rel: x.rel, window: (*gridWork)(x).place(i / x.parts / x.Heads),
			head: i / x.parts % x.Heads, q0: i % x.parts * x.perTile}
		if t.q1 = min(t.vh*t.vw, t.q0+x.perTile); t.q0 < t.q1 {
			t.run(x.p.Set, x.p.Scratch(worker))
		}
	}
}

// gridTask computes the queries [q0, q1) of a window for one head. Queries are counted over the part of the window that
// lies on the grid.
type gridTask struct {
	g   *GridArgs
	rel relative
	window
	head   int
	q0, q1 int

	plan  *panelPlan // this and the next two are for AMX tiles only
	terms *panelRelative
	state *gridState

	attnTile
	// position terms q·RelH and q·RelW: for each panel of queries, a row for each row or column of the window
	relH, relW   []float32
	termH, termW int     // number of these rows per panel
	relWScale    float32 // the factor by which relW is added to scores, which are exponents of two
}

func (t *gridTask) run(s *isa.Set, sc *pool.Scratch) {
	g, d := t.g, t.g.Dim
	keys := t.vh * t.vw
	t.init(s, sc, g.Precision, t.q1-t.q0, keys, d, d)
	for _, p := range t.spans {
		for i := range p.n {
			copy(t.rows[i*d:i*d+d], t.at(t.q0 + p.at + i)[t.head*d:])
		}
		t.packQueries(p)
	}
	t.positions(s, sc)
	if t.vh < t.h || t.vw < t.w {
		t.padding(sc)
	}
	for k0 := 0; k0 < keys; k0 += t.tile {
		n := min(t.tile, keys-k0)
		t.pack(k0, n)
		for _, p := range t.spans {
			sco := t.scores(p, n)
			t.begin(p)
			if t.relH == nil {
				p.ScoreMax(sco, g.Scale*log2e, t.mNew)
			} else {
				for k := 0; k < n; { // keys in one row of the window share a row of relH
					y, x := (k0+k)/t.vw, (k0+k)%t.vw
					run := min(n-k, t.vw-x)
					h, w := t.relH[p.at*t.termH+y*p.NR:], t.relW[p.at*t.termW+x*p.NR:]
					p.ScoreBiasMax(sco[k*p.NR:(k+run)*p.NR], g.Scale*log2e, h, w, t.mNew)
					k += run
				}
			}
			t.accumulate(p, n)
		}
		t.started = true
	}
	e := g.Heads * d
	for _, p := range t.spans {
		rows := t.finish(p)
		for i := range p.n {
			copy(g.Out[t.index(t.q0+p.at+i)*e+t.head*d:][:d], rows[i*d:])
		}
	}
}

// index returns the number, in the input, of the i-th token of the window that lies on the grid.
func (t *gridTask) index(i int) int { return (t.b*t.g.GH+t.y0+i/t.vw)*t.g.GW + t.x0 + i%t.vw }

// at returns QKV from that token on.
func (t *gridTask) at(i int) []float32 { return t.g.QKV[t.index(i)*3*t.g.Heads*t.g.Dim:] }

// pack packs the tile of n keys and values from k0 on. Tokens that are evenly spaced in memory are packed from where
// they are, others are first gathered in t.rows.
func (t *gridTask) pack(k0, n int) {
	d, e := t.g.Dim, t.g.Heads*t.g.Dim
	even := t.vw == t.g.GW // the rows of the window are contiguous
	for r := 0; r < n; r += t.high {
		h := min(t.high, n-r)
		if even || (k0+r)%t.vw+h <= t.vw {
			t.packKeys(r, r+h, t.at(k0 + r)[e+t.head*d:], 3*e)
			continue
		}
		for i := range h {
			copy(t.rows[i*d:i*d+d], t.at(k0 + r + i)[e+t.head*d:])
		}
		t.packKeys(r, r+h, t.rows, d)
	}
	t.packValues(n, func(at int) ([]float32, int, int) {
		run := n - at
		if !even {
			run = min(run, t.vw-(k0+at)%t.vw)
		}
		src := t.at(k0 + at)[2*e+t.head*d:]
		if len(src) >= (run-1)*3*e+d+product.Spill {
			return src, 3 * e, run
		}
		for i := range run { // at the end of QKV, where a vector would read past it
			copy(t.rows[i*d:i*d+d], t.at(k0 + at + i)[2*e+t.head*d:])
		}
		return t.rows, d, run
	})
}
