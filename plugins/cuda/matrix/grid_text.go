package matrix

import "strconv"

// gridText has the sizes of grid_attention, which are static. A group is a head of a window.
type gridText struct {
	GH, GW, WH, WW, NH, NW, Heads int
	Rel                           bool // relative position terms, see kernels.GridTerms
	Pitch                         int  // numbers from one term to the next
}

func (g gridText) tokens() int  { return g.WH * g.WW }
func (g gridText) padded() bool { return g.GH%g.WH != 0 || g.GW%g.WW != 0 }

// hoisted reports whether a tile is a row of the window. Then the terms of its columns are the same in all tiles, and
// each thread keeps those that it needs in shared memory.
func (x attentionText) hoisted() bool { return x.Grid.Rel && x.Grid.WW == keysOfTile }

// placeWindow finds the group and the queries of the block, and the operands.
func (g *attending) placeWindow(skip func(i int) int64) {
	t := g.text
	packed := g.binding(0, skip(0))
	g.y = g.binding(1, skip(1))
	g.p = g.words(g.binding(2, 0), attentionFields)
	g.rel = packed // the terms are at the beginning of the scratch memory
	number := g.placeBlock()
	tokens := g.Grid.tokens()
	tiles := ceilDiv(tokens, g.attentionText.queries())
	g.group = t.get("r", "div.u32", "%s, %d", number, tiles)
	g.first = t.get("r", "rem.u32", "%s, %d", number, tiles)
	t.add("mul.lo.u32 %s, %s, %d", g.first, g.first, g.attentionText.queries())
	at := t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["at"], packed)
	of := t.get("d", "mul.wide.u32", "%s, %d", g.group, 2*g.D*tokens)
	t.add("add.u64 %s, %s, %s", at, at, of)
	pitch, count := strconv.Itoa(2*g.D), strconv.Itoa(tokens)
	g.q = rowsAt{at, pitch, count}
	g.k = rowsAt{t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["part"], at), pitch, count}
	g.v = rowsAt{t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["part"], g.k.at), pitch, count}
	g.from, g.to = "0", count
	g.rows()
}

// rows finds the two rows of the thread.
func (g *attending) rows() {
	t, s := g.text, g.Grid
	window, head := t.get("r", "div.u32", "%s, %d", g.group, s.Heads), t.get("r", "rem.u32", "%s, %d", g.group, s.Heads)
	batch := t.get("r", "div.u32", "%s, %d", window, s.NH*s.NW)
	w := t.get("r", "rem.u32", "%s, %d", window, s.NH*s.NW)
	top, left := t.get("r", "div.u32", "%s, %d", w, s.NW), t.get("r", "rem.u32", "%s, %d", w, s.NW)
	t.add("mul.lo.u32 %s, %s, %d", top, top, s.WH)
	t.add("mul.lo.u32 %s, %s, %d", left, left, s.WW)
	width := t.get("r", "sub.u32", "%d, %s", s.GW, left)
	t.add("min.u32 %s, %s, %d", width, width, s.WW) // of the window inside the grid
	row := g.rowOfThread()
	for i := range g.row {
		r := &g.row[i]
		q := t.get("r", "add.u32", "%s, %d", row, 8*i)
		y, x := t.get("r", "div.u32", "%s, %d", q, s.WW), t.get("r", "rem.u32", "%s, %d", q, s.WW)
		gy, gx := t.get("r", "add.u32", "%s, %s", y, top), t.get("r", "add.u32", "%s, %s", x, left)
		r.in = t.get("p", "setp.lt.u32", "%s, %d", q, s.tokens())
		t.add("setp.lt.and.u32 %s, %s, %d, %s", r.in, gy, s.GH, r.in)
		t.add("setp.lt.and.u32 %s, %s, %d, %s", r.in, gx, s.GW, r.in)
		place := t.get("r", "mad.lo.u32", "%s, %d, %s", batch, s.GH, gy)
		t.add("mad.lo.u32 %s, %s, %d, %s", place, place, s.GW, gx)
		t.add("mad.lo.u32 %s, %s, %d, %s", place, place, s.Heads, head)
		r.out = t.get("d", "mul.wide.u32", "%s, %d", place, 4*g.D)
		t.add("add.u64 %s, %s, %s", r.out, r.out, g.y)
		if s.Rel {
			number := t.get("r", "mad.lo.u32", "%s, %s, %s", y, width, x)
			t.add("@!%s mov.u32 %s, 0", r.in, number)
			r.terms = t.get("d", "mul.wide.u32", "%s, %d", g.group, 4*s.Pitch*(s.WH+s.WW))
			t.add("add.u64 %s, %s, %s", r.terms, r.terms, g.rel)
			t.add("mad.wide.u32 %s, %s, 4, %s", r.terms, number, r.terms)
		}
	}
}

// term loads a relative position term of a row.
func (g *attending) term(r attendingRow, number string) string {
	t := g.text
	at := t.get("d", "mad.wide.u32", "%s, %d, %s", number, 4*g.Grid.Pitch, r.terms)
	return t.get("f", "ld.global.f32", "[%s]", at)
}

// keptAt is the offset of the terms of row i for the columns of fragment j.
func (g *attending) keptAt(j, i int) int { return g.operands() + (2*j+i)*8*g.threads() }

// keepTerms keeps the terms of columns in shared memory.
func (g *attending) keepTerms(col string) {
	t, s := g.text, g.Grid
	g.kept = t.get("r", "mad.lo.u32", "%s, 8, %s", g.tid, g.base)
	for j := range keysOfTile / 8 {
		for i, r := range g.row {
			var both [2]string
			for e := range both {
				both[e] = g.term(r, t.get("r", "add.u32", "%s, %d", col, s.WH+8*j+e))
			}
			t.add("st.shared.v2.f32 [%s+%d], {%s, %s}", g.kept, g.keptAt(j, i), both[0], both[1])
		}
	}
}

// weigh scales the scores of a tile, and adds the terms.
func (g *attending) weigh(number, col string) {
	t, s := g.text, g.Grid
	var along [2]string // terms of the tile's row
	if g.hoisted() {
		for i, r := range g.row {
			along[i] = g.term(r, number)
		}
	}
	first := t.get("r", "mad.lo.u32", "%s, %d, %s", number, keysOfTile, col)
	for j := range keysOfTile / 8 {
		var columns [2][2]string // terms of the columns, by row
		if g.hoisted() {
			for i := range columns {
				c := t.regs("f", 2)
				t.add("ld.shared.v2.f32 {%s, %s}, [%s+%d]", c[0], c[1], g.kept, g.keptAt(j, i))
				columns[i] = [2]string(c)
			}
		}
		for e := range 2 {
			key := t.get("r", "add.u32", "%s, %d", first, 8*j+e)
			var terms [2]string
			if s.Rel && !g.hoisted() {
				in := t.get("r", "min.u32", "%s, %d", key, s.tokens()-1)
				y, x := t.get("r", "div.u32", "%s, %d", in, s.WW), t.get("r", "rem.u32", "%s, %d", in, s.WW)
				t.add("add.u32 %s, %s, %d", x, x, s.WH)
				for i, r := range g.row {
					terms[i] = t.get("f", "add.f32", "%s, %s", g.term(r, y), g.term(r, x))
				}
			}
			for i := range 2 {
				score := g.scores[4*j+2*i+e]
				switch {
				case g.hoisted():
					sum := t.get("f", "add.f32", "%s, %s", along[i], columns[i][e])
					t.add("fma.rn.f32 %s, %s, %s, %s", score, score, g.p["scale"], sum)
				case s.Rel:
					t.add("fma.rn.f32 %s, %s, %s, %s", score, score, g.p["scale"], terms[i])
				default:
					t.add("mul.f32 %s, %s, %s", score, score, g.p["scale"])
				}
			}
			if s.tokens()%keysOfTile != 0 {
				past := t.get("p", "setp.ge.u32", "%s, %d", key, s.tokens())
				for i := range 2 {
					t.add("@%s mov.f32 %s, 0fFF800000", past, g.scores[4*j+2*i+e])
				}
			}
		}
	}
}
