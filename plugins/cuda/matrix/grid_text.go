package matrix

import "strconv"

// gridText has the sizes of grid_attention, which are static. A group is a head of a window. With relative positions,
// rows of keys are widened to 8, 16, 32 or 64 keys, so that a tile has whole rows, and each of its columns has the same
// place in its row in all tiles.
type gridText struct {
	GH, GW, WH, WW, NH, NW, Heads int
	Rel                           bool // relative position terms, see relText
}

func (g gridText) tokens() int  { return g.WH * g.WW }
func (g gridText) padded() bool { return g.GH%g.WH != 0 || g.GW%g.WW != 0 }

// wide is the number of keys to which a row is widened.
func (g gridText) wide() int {
	n := 8
	for n < g.WW {
		n *= 2
	}
	return n
}

// keys is the number of keys, with those that widen rows.
func (g gridText) keys() int {
	if g.Rel {
		return g.WH * g.wide()
	}
	return g.tokens()
}

// lines is the number of rows in a tile of keys.
func (g gridText) lines() int { return keysOfTile / g.wide() }

// rowTerms is the number of terms of rows of keys; pitch is that of all terms of a query.
func (g gridText) rowTerms() int {
	unit := max(4, g.lines())
	return ceilDiv(g.WH, unit) * unit
}

func (g gridText) pitch() int { return g.rowTerms() + g.wide() }

// termPitch is the number of words from the terms of a query to those of the next one in shared memory. Four queries
// are in different banks.
func (g gridText) termPitch() int {
	n := g.pitch()
	for n%32 != 8 {
		n += 4
	}
	return n
}

// inRegisters reports whether threads keep the terms of columns in registers.
func (g gridText) inRegisters() bool { return g.wide() <= 32 }

// placeWindow finds the group and the queries of the block, and the operands, and returns the number of bindings.
func (g *attending) placeWindow(skip func(i int) int64) (bindings int) {
	t := g.text
	packed := g.binding(0, skip(0))
	g.y = g.binding(1, skip(1))
	bindings = 2
	if g.Rounded {
		g.z = g.binding(2, skip(2))
		bindings++
	}
	g.p = g.words(g.binding(bindings, 0), attentionFields)
	bindings++
	number := g.placeBlock()
	tokens := g.Grid.tokens()
	tiles := ceilDiv(tokens, g.attentionText.queries())
	g.group = t.get("r", "div.u32", "%s, %d", number, tiles)
	g.first = t.get("r", "rem.u32", "%s, %d", number, tiles)
	t.add("mul.lo.u32 %s, %s, %d", g.first, g.first, g.attentionText.queries())
	at := t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["at"], packed)
	of := t.get("d", "mul.wide.u32", "%s, %d", g.group, 2*g.attentionText.width()*tokens)
	t.add("add.u64 %s, %s, %s", at, at, of)
	pitch, count := strconv.Itoa(2*g.attentionText.width()), strconv.Itoa(tokens)
	g.q = rowsAt{at, pitch, count, false}
	widened := g.Grid.Rel && g.Grid.wide() != g.Grid.WW
	g.k = rowsAt{t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["part"], at), pitch, count, widened}
	g.v = rowsAt{t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["part"], g.k.at), pitch, count, widened}
	g.from, g.to = "0", strconv.Itoa(g.Grid.keys())
	if g.Grid.Rel { // the terms are at the beginning of the scratch memory
		terms := t.get("d", "mul.wide.u32", "%s, %d", g.group, 4*g.Grid.pitch()*tokens)
		t.add("add.u64 %s, %s, %s", terms, terms, packed)
		g.terms = rowsAt{terms, strconv.Itoa(4 * g.Grid.pitch()), count, false}
	}
	g.rows()
	return bindings
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
			mine := t.get("r", "sub.u32", "%s, %s", q, g.first)
			r.terms = t.get("r", "mad.lo.u32", "%s, %d, %s", mine, 4*s.termPitch(), g.base)
			t.add("add.u32 %s, %s, %d", r.terms, r.terms, g.operands())
		}
	}
}

// columnTerms returns the registers with the terms of row i for fragment j of a tile.
func (g *attending) columnTerms(j, i int) [2]string {
	t, s := g.text, g.Grid
	j %= s.wide() / 8
	if s.inRegisters() && g.columns[i][j][0] != "" {
		return g.columns[i][j]
	}
	c := [2]string(t.regs("f", 2))
	at := t.get("r", "mad.lo.u32", "%s, 8, %s", g.quad, g.row[i].terms)
	t.add("ld.shared.v2.f32 {%s, %s}, [%s+%d]", c[0], c[1], at, 4*(s.rowTerms()+8*j))
	if s.inRegisters() {
		g.columns[i][j] = c
	}
	return c
}

// keepTerms loads the terms of columns, if they are kept in registers.
func (g *attending) keepTerms() {
	if !g.Grid.Rel || !g.Grid.inRegisters() {
		return
	}
	for i := range g.row {
		for j := range g.Grid.wide() / 8 {
			g.columnTerms(j, i)
		}
	}
}

// weigh scales the scores of a tile, and adds the terms.
func (g *attending) weigh(number, col string) {
	t, s := g.text, g.Grid
	if s.Rel {
		for i, r := range g.row {
			at := t.get("r", "mad.lo.u32", "%s, %d, %s", number, 4*s.lines(), r.terms)
			along := t.regs("f", s.lines())
			for y, f := range along {
				t.add("ld.shared.f32 %s, [%s+%d]", f, at, 4*y)
			}
			for j := range keysOfTile / 8 {
				column := g.columnTerms(j, i)
				for e := range 2 {
					sum := t.get("f", "add.f32", "%s, %s", along[8*j/s.wide()], column[e])
					score := g.scores[4*j+2*i+e]
					t.add("fma.rn.f32 %s, %s, %s, %s", score, score, g.p["scale"], sum)
				}
			}
		}
		return
	}
	for _, score := range g.scores {
		t.add("mul.f32 %s, %s, %s", score, score, g.p["scale"])
	}
	if s.tokens()%keysOfTile == 0 {
		return
	}
	first := t.get("r", "mad.lo.u32", "%s, %d, %s", number, keysOfTile, col)
	for j := range keysOfTile / 8 {
		for e := range 2 {
			key := t.get("r", "add.u32", "%s, %d", first, 8*j+e)
			past := t.get("p", "setp.ge.u32", "%s, %d", key, s.tokens())
			for i := range 2 {
				t.add("@%s mov.f32 %s, 0fFF800000", past, g.scores[4*j+2*i+e])
			}
		}
	}
}
