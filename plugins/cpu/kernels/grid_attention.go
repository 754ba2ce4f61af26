package kernels

// GridAttentionArgs describes self-attention of tokens on a grid, in windows, with decomposed relative positions.
//
// A window of size w > 0 cuts the grid into ceil(GH/w) x ceil(GW/w) windows of w x w tokens; 0 is one window, the grid. Tokens of a
// window that lie past the edge of the grid are padding: as keys they take part with k and v from Pad, as queries they are dropped.
//
//	score[q,k] = Scale * q·k + q·RelH[qy,ky] + q·RelW[qx,kx]      positions within the window
//	out[q]     = softmax over the keys of the window of score, times v
type GridAttentionArgs struct {
	B, GH, GW, Heads, Dim, Window int

	QKV   []float32 // [B, GH, GW, 3*Heads*Dim]: q of all heads, then k, then v
	Pad   []float32 // [3*Heads*Dim], what padding tokens hold; nil is zeros
	RelH  []float32 // [wh, wh, Dim] by query and key row of the window; nil with RelW
	RelW  []float32 // [ww, ww, Dim] by query and key column
	Scale float32
	Out   []float32 // [B, GH, GW, Heads*Dim]; must not overlap QKV
}

// window is one window of a grid attention: its place and how much of it lies on the grid.
type window struct {
	b, y0, x0 int
	h, w      int // size, padding included
	vh, vw    int // rows and columns on the grid
}

// GridAttention computes attention in tiles; scores are never held for more than one tile.
func GridAttention(p *Pool, g *GridAttentionArgs) {
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
	if len(g.QKV) < tokens*3*e || len(g.Out) < tokens*e || (g.RelH == nil) != (g.RelW == nil) ||
		g.RelH != nil && (len(g.RelH) < wh*wh*g.Dim || len(g.RelW) < ww*ww*g.Dim) || padded && g.Pad != nil && len(g.Pad) < 3*e {
		panic("BUG: GridAttention: a slice is short")
	}
	down, across := (g.GH+wh-1)/wh, (g.GW+ww-1)/ww
	perTile := queryPanels * p.isa.nr
	tiles := (wh*ww + perTile - 1) / perTile // of a full window; those beyond a cut-off window return at once
	p.Run(g.B*down*across*g.Heads*tiles, func(t, worker int) {
		tile, t := t%tiles, t/tiles
		head, t := t%g.Heads, t/g.Heads
		win := window{b: t / (down * across), y0: t / across % down * wh, x0: t % across * ww, h: wh, w: ww}
		win.vh, win.vw = min(wh, g.GH-win.y0), min(ww, g.GW-win.x0)
		if tile*perTile < win.vh*win.vw {
			g.task(p.isa, p.scratch(worker), win, head, tile*perTile, min(win.vh*win.vw, (tile+1)*perTile))
		}
	})
}

// task computes the queries [q0, q1), counted over the part of the window that lies on the grid, for one head.
func (g *GridAttentionArgs) task(s *isa, sc *scratch, win window, head, q0, q1 int) {
	var a attnTile
	nr, d := s.nr, g.Dim
	keys := win.h * win.w
	panels := (q1 - q0 + nr - 1) / nr
	a.init(s, sc, panels, keys, d, d)
	var relH, relW []float32 // [panels][wh or ww, nr]: the position terms of each query, one row per key row or column
	if g.RelH != nil {
		relH, relW = sc.floats(panels*win.h*nr), sc.floats(panels*win.w*nr)
		clear(relH)
		clear(relW)
	}
	for p := range panels {
		n := min(nr, q1-q0-p*nr)
		for i := range n {
			q := q0 + p*nr + i
			y, x := q/win.vw, q%win.vw
			row := g.token(win, y, x)[head*d:][:d]
			copy(a.rows[i*d:], row)
			if relH != nil {
				s.dotRows(relH[p*win.h*nr+i:], nr, g.RelH[y*win.h*d:], d, win.h, row)
				s.dotRows(relW[p*win.w*nr+i:], nr, g.RelW[x*win.w*d:], d, win.w, row)
			}
		}
		a.packQueries(p, n)
	}
	e := g.Heads * d
	for k0 := 0; k0 < keys; k0 += a.tile {
		n := min(a.tile, keys-k0)
		g.gather(&a, win, k0, n, e+head*d)
		a.packKeys(n)
		g.gather(&a, win, k0, n, 2*e+head*d)
		a.packValues(n)
		for p := range panels {
			sco := a.scores(p, n)
			a.begin(p)
			if relH == nil {
				s.scoreMax(sco, g.Scale, a.mNew)
			} else {
				for k := 0; k < n; { // runs of keys in one row of the window
					y, x := (k0+k)/win.w, (k0+k)%win.w
					run := min(n-k, win.w-x)
					s.scoreBiasMax(sco[k*nr:(k+run)*nr], g.Scale, relH[(p*win.h+y)*nr:], relW[(p*win.w+x)*nr:], a.mNew)
					k += run
				}
			}
			a.accumulate(p, n, k0 == 0)
		}
	}
	for p := range panels {
		rows := a.finish(p)
		for i := range min(nr, q1-q0-p*nr) {
			q := q0 + p*nr + i
			at := ((win.b*g.GH+win.y0+q/win.vw)*g.GW + win.x0 + q%win.vw) * e
			copy(g.Out[at+head*d:][:d], rows[i*d:])
		}
	}
}

// token is the packed row of the token at (y, x) of a window, nil for padding that is zero.
func (g *GridAttentionArgs) token(win window, y, x int) []float32 {
	if y >= win.vh || x >= win.vw {
		return g.Pad
	}
	e3 := 3 * g.Heads * g.Dim
	return g.QKV[((win.b*g.GH+win.y0+y)*g.GW+win.x0+x)*e3:][:e3]
}

// gather copies Dim elements at offset off of n tokens from k0 on into a.rows.
func (g *GridAttentionArgs) gather(a *attnTile, win window, k0, n, off int) {
	d := g.Dim
	y, x := k0/win.w, k0%win.w
	for i := range n {
		dst := a.rows[i*d : i*d+d]
		if t := g.token(win, y, x); t != nil {
			copy(dst, t[off:off+d])
		} else {
			clear(dst)
		}
		if x++; x == win.w {
			y, x = y+1, 0
		}
	}
}
