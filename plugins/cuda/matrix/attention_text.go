package matrix

import (
	"strings"
)

// keysOfTile is the number of keys in shared memory at a time; there are two such tiles.
const keysOfTile = 64

// attentionText generates attention over packed operands: q, k and v in bf16 as [groups][tokens][D], one after another.
// A warp has 16 queries. Scores and weights stay in registers (Dao, FlashAttention-2, 2023).
type attentionText struct {
	Warps int
	D     int // a multiple of 16, at most 128
	Grid  gridText
	Skips []int64
}

// gridText has the sizes of grid_attention, which are static. A group is a head of a window.
type gridText struct {
	GH, GW, WH, WW, NH, NW, Heads int
	Rel                           bool // relative position terms, see kernels.GridTerms
	Pitch                         int  // numbers from one term to the next
}

func (g gridText) tokens() int  { return g.WH * g.WW }
func (g gridText) padded() bool { return g.GH%g.WH != 0 || g.GW%g.WW != 0 }

// attentionFields are the words of its parameters. at is where the operands begin in scratch memory, in units of 16
// bytes; part is the size of each of them. scale has a factor of log2(e).
var attentionFields = []string{"groups", "at", "part", "scale"}

func (x attentionText) queries() int { return 16 * x.Warps }
func (x attentionText) threads() int { return 32 * x.Warps }

// pitch is the size of a row in shared memory. With 16 bytes of padding, eight rows begin in different banks.
func (x attentionText) pitch() int { return 2*x.D + 16 }
func (x attentionText) tile() int  { return keysOfTile * x.pitch() }
func (x attentionText) shared() int {
	n := x.operands()
	if x.hoisted() {
		n += x.threads() * keysOfTile / 4 * 8
	}
	return n
}

// operands is the part of shared memory for q, then k and v.
func (x attentionText) operands() int { return max(4*x.tile(), x.queries()*x.pitch()) }

// hoisted reports whether a tile is a row of the window. Then the terms of its columns are the same in all tiles, and
// each thread keeps those that it needs in shared memory.
func (x attentionText) hoisted() bool { return x.Grid.Rel && x.Grid.WW == keysOfTile }

// perProcessor is the number of blocks that should fit on a processor. Wide heads need more registers.
func (x attentionText) perProcessor() int {
	if x.D > 96 {
		return 8 / x.Warps
	}
	return 16 / x.Warps
}

// blocks returns the number of blocks for a number of groups.
func (x attentionText) blocks(groups int) int { return groups * ceilDiv(x.Grid.tokens(), x.queries()) }

// attending is the state while an attention is generated.
type attending struct {
	attentionText
	*text
	p                     map[string]string
	rel, y                string
	tid, lane, quad       string
	group, first          string // group, and the first query of the block
	q, k, v               string // addresses of the group's operands
	base                  string // of shared memory
	queries, scores, sums []string
	most, total           [2]string // of a row: the largest score so far, and the sum of weights
	row                   [2]attendingRow
	kept                  string // where the thread keeps terms of columns in shared memory; see hoisted
	keyRow, valueRow      string // offsets of the fragments of keys and values in a tile
}

// attendingRow is one of the two rows of a thread.
type attendingRow struct {
	in    string // the query exists
	out   string // where its result begins
	terms string // where its relative position terms begin
}

func (x attentionText) text() string {
	g := &attending{attentionText: x, text: newText()}
	t := g.text
	skip := func(i int) int64 {
		if i < len(x.Skips) {
			return x.Skips[i]
		}
		return 0
	}
	packed := g.binding(0, skip(0))
	g.y = g.binding(1, skip(1))
	g.p = g.words(g.binding(2, 0), attentionFields)
	g.rel = packed // the terms are at the beginning of the scratch memory
	g.placeBlock(packed)
	g.rows()
	g.loadQueries()
	g.sums = t.regs("f", x.D/2)
	for _, r := range g.sums {
		t.add("mov.f32 %s, 0f00000000", r)
	}
	for i := range 2 {
		g.most[i], g.total[i] = t.get("f", "mov.f32", "0fFF800000"), t.get("f", "mov.f32", "0f00000000")
	}
	g.loop()
	g.finishRows()
	t.add("ret")
	return t.finish(entry{"sm_80", x.threads(), x.shared(), 3, x.perProcessor()})
}

// placeBlock finds the group and the queries of the block.
func (g *attending) placeBlock(packed string) {
	t := g.text
	g.tid = t.get("r", "mov.u32", "%%tid.x")
	g.lane = t.get("r", "and.b32", "%s, 31", g.tid)
	g.quad = t.get("r", "and.b32", "%s, 3", g.lane)
	x, y := t.get("r", "mov.u32", "%%ctaid.x"), t.get("r", "mov.u32", "%%ctaid.y")
	w := t.get("r", "mov.u32", "%%nctaid.x")
	id := t.get("r", "mad.lo.u32", "%s, %s, %s", y, w, x)
	past := t.get("p", "setp.ge.u32", "%s, %s", id, g.p["groups"])
	t.add("@%s ret", past)
	tiles := ceilDiv(g.Grid.tokens(), g.attentionText.queries())
	g.group = t.get("r", "div.u32", "%s, %d", id, tiles)
	g.first = t.get("r", "rem.u32", "%s, %d", id, tiles)
	t.add("mul.lo.u32 %s, %s, %d", g.first, g.first, g.attentionText.queries())
	g.q = t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["at"], packed)
	of := t.get("d", "mul.wide.u32", "%s, %d", g.group, 2*g.D*g.Grid.tokens())
	t.add("add.u64 %s, %s, %s", g.q, g.q, of)
	g.k = t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["part"], g.q)
	g.v = t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["part"], g.k)
	g.base = t.get("r", "mov.u32", "memory")
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
	warp := t.get("r", "shr.u32", "%s, 5", g.tid)
	row := t.get("r", "shr.u32", "%s, 2", g.lane)
	t.add("mad.lo.u32 %s, %s, 16, %s", row, warp, row)
	t.add("add.u32 %s, %s, %s", row, row, g.first)
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

// copyRows starts to copy rows of an operand to shared memory. Rows past the end become zeros.
func (g *attending) copyRows(from, first string, rows int, to string) {
	t := g.text
	units := g.D / 8
	for i := 0; i < rows*units; i += g.threads() {
		u := t.get("r", "add.u32", "%s, %d", g.tid, i)
		row, unit := t.get("r", "div.u32", "%s, %d", u, units), t.get("r", "rem.u32", "%s, %d", u, units)
		at := t.get("r", "add.u32", "%s, %s", row, first)
		bytes := t.get("r", "mov.u32", "16")
		past := t.get("p", "setp.ge.u32", "%s, %d", at, g.Grid.tokens())
		t.add("@%s mov.u32 %s, 0", past, bytes)
		t.add("@%s mov.u32 %s, 0", past, at)
		a := t.get("d", "mul.wide.u32", "%s, %d", at, 2*g.D)
		t.add("add.u64 %s, %s, %s", a, a, from)
		t.add("mad.wide.u32 %s, %s, 16, %s", a, unit, a)
		s := t.get("r", "mad.lo.u32", "%s, %d, %s", row, g.pitch(), to)
		t.add("mad.lo.u32 %s, %s, 16, %s", s, unit, s)
		guard := ""
		if i+g.threads() > rows*units {
			guard = "@" + t.get("p", "setp.lt.u32", "%s, %d", u, rows*units) + " "
		}
		t.add("%scp.async.cg.shared.global [%s], [%s], 16, %s", guard, s, a, bytes)
	}
}

// loadQueries loads the fragments of the warp's queries.
func (g *attending) loadQueries() {
	t := g.text
	g.copyRows(g.q, g.first, g.attentionText.queries(), g.base)
	t.add("cp.async.commit_group")
	t.add("cp.async.wait_group 0")
	t.add("bar.sync 0")
	row := t.get("r", "and.b32", "%s, 15", g.lane)
	warp := t.get("r", "shr.u32", "%s, 5", g.tid)
	t.add("mad.lo.u32 %s, %s, 16, %s", row, warp, row)
	half := t.get("r", "shr.u32", "%s, 4", g.lane)
	at := t.get("r", "mad.lo.u32", "%s, %d, %s", row, g.pitch(), g.base)
	t.add("mad.lo.u32 %s, %s, 16, %s", at, half, at)
	for k := range g.D / 16 {
		r := t.regs("r", 4)
		t.add("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s}, [%s+%d]", strings.Join(r, ", "), at, 32*k)
		g.queries = append(g.queries, r...)
	}
	t.add("bar.sync 0")
	low, high := t.get("r", "and.b32", "%s, 7", g.lane), t.get("r", "shr.u32", "%s, 4", g.lane)
	middle := t.get("r", "shr.u32", "%s, 3", g.lane)
	t.add("and.b32 %s, %s, 1", middle, middle)
	// keys: rows 0 to 7 and 8 to 15 by bit 4 of the lane, halves of 16 values by bit 3; values the other way round
	g.keyRow = t.get("r", "mad.lo.u32", "%s, 8, %s", high, low)
	t.add("mul.lo.u32 %s, %s, %d", g.keyRow, g.keyRow, g.pitch())
	t.add("mad.lo.u32 %s, %s, 16, %s", g.keyRow, middle, g.keyRow)
	g.valueRow = t.get("r", "mad.lo.u32", "%s, 8, %s", middle, low)
	t.add("mul.lo.u32 %s, %s, %d", g.valueRow, g.valueRow, g.pitch())
	t.add("mad.lo.u32 %s, %s, 16, %s", g.valueRow, high, g.valueRow)
}

// term loads a relative position term of a row.
func (g *attending) term(r attendingRow, number string) string {
	t := g.text
	at := t.get("d", "mad.wide.u32", "%s, %d, %s", number, 4*g.Grid.Pitch, r.terms)
	return t.get("f", "ld.global.f32", "[%s]", at)
}

// keptAt is the offset of the terms of row i for the columns of fragment j.
func (g *attending) keptAt(j, i int) int { return g.operands() + (2*j+i)*8*g.threads() }

// loop goes through the tiles of keys.
func (g *attending) loop() {
	t, s := g.text, g.Grid
	tiles := ceilDiv(s.tokens(), keysOfTile)
	col := t.get("r", "shl.b32", "%s, 1", g.quad) // of the thread in a fragment
	if g.hoisted() {
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
	number := t.get("r", "mov.u32", "0")
	key := t.get("r", "mov.u32", "0") // the first of the next tile
	load := func(to string) {
		g.copyRows(g.k, key, keysOfTile, to)
		values := t.get("r", "add.u32", "%s, %d", to, g.tile())
		g.copyRows(g.v, key, keysOfTile, values)
		t.add("add.u32 %s, %s, %d", key, key, keysOfTile)
	}
	now := t.get("r", "mov.u32", "%s", g.base)
	load(now)
	t.add("cp.async.commit_group")
	other := t.get("r", "add.u32", "%s, %d", g.base, 2*g.tile())
	again, last := t.label(), t.label()
	t.place(again)
	end := t.get("p", "setp.ge.u32", "%s, %d", key, tiles*keysOfTile)
	t.add("@%s bra.uni %s", end, last)
	load(other)
	t.place(last)
	t.add("cp.async.commit_group")
	t.add("cp.async.wait_group 1")
	t.add("bar.sync 0")
	g.multiplyKeys(now)
	g.weigh(number, col)
	g.multiplyValues(now)
	t.add("bar.sync 0")
	swap := t.get("r", "mov.u32", "%s", now)
	t.add("mov.u32 %s, %s", now, other)
	t.add("mov.u32 %s, %s", other, swap)
	t.add("add.u32 %s, %s, 1", number, number)
	more := t.get("p", "setp.lt.u32", "%s, %d", number, tiles)
	t.add("@%s bra.uni %s", more, again)
}

// multiplyKeys computes the scores of a tile at an address.
func (g *attending) multiplyKeys(at string) {
	t := g.text
	if g.scores == nil {
		g.scores = t.regs("f", keysOfTile/2)
	}
	for _, r := range g.scores {
		t.add("mov.f32 %s, 0f00000000", r)
	}
	from := t.get("r", "add.u32", "%s, %s", at, g.keyRow)
	for k := range g.D / 16 {
		for pair := range keysOfTile / 16 {
			b := t.regs("r", 4)
			t.add("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s}, [%s+%d]", strings.Join(b, ", "), from,
				pair*16*g.pitch()+32*k)
			for half := range 2 {
				g.multiply(g.scores[8*pair+4*half:][:4], g.queries[4*k:][:4], b[2*half:][:2])
			}
		}
	}
}

func (g *attending) multiply(sums, a, b []string) {
	list := strings.Join(sums, ", ")
	g.text.add("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%s}, {%s}, {%s}, {%s}", list,
		strings.Join(a, ", "), strings.Join(b, ", "), list)
}

// weigh turns the scores of a tile into weights, and scales what was summed before.
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
	for i := range 2 {
		g.weighRow(i)
	}
}

// ofRow returns the registers of a row among those of fragments.
func ofRow(all []string, i int) (out []string) {
	for j := 0; j < len(all); j += 4 {
		out = append(out, all[j+2*i], all[j+2*i+1])
	}
	return out
}

func (g *attending) weighRow(i int) {
	t := g.text
	scores := ofRow(g.scores, i)
	most := t.get("f", "max.f32", "%s, %s", scores[0], scores[1])
	for _, s := range scores[2:] {
		t.add("max.f32 %s, %s, %s", most, most, s)
	}
	g.acrossQuad(most, "max.f32")
	t.add("max.f32 %s, %s, %s", most, most, g.most[i])
	// a row without keys so far has weights 0
	base := t.get("f", "mov.f32", "%s", most)
	none := t.get("p", "setp.eq.f32", "%s, 0fFF800000", most)
	t.add("@%s mov.f32 %s, 0f00000000", none, base)
	scale := t.get("f", "sub.f32", "%s, %s", g.most[i], base)
	t.add("ex2.approx.ftz.f32 %s, %s", scale, scale)
	t.add("mov.f32 %s, %s", g.most[i], most)
	t.add("mul.f32 %s, %s, %s", g.total[i], g.total[i], scale)
	for _, s := range scores {
		t.add("sub.f32 %s, %s, %s", s, s, base)
		t.add("ex2.approx.ftz.f32 %s, %s", s, s)
		t.add("add.f32 %s, %s, %s", g.total[i], g.total[i], s)
	}
	for _, s := range ofRow(g.sums, i) {
		t.add("mul.f32 %s, %s, %s", s, s, scale)
	}
}

// acrossQuad combines a register of the four lanes that share a row.
func (g *attending) acrossQuad(value, instruction string) {
	t := g.text
	for _, distance := range []int{1, 2} {
		other := t.get("f", "shfl.sync.bfly.b32", "%s, %d, 31, 0xffffffff", value, distance)
		t.add("%s %s, %s, %s", instruction, value, value, other)
	}
}

// multiplyValues adds the weighted values of a tile at an address.
func (g *attending) multiplyValues(at string) {
	t := g.text
	from := t.get("r", "add.u32", "%s, %s", at, g.valueRow)
	for k := range keysOfTile / 16 {
		var a []string
		for _, pair := range []int{0, 2, 4, 6} {
			s := g.scores[8*k+pair:]
			a = append(a, t.get("r", "cvt.rn.bf16x2.f32", "%s, %s", s[1], s[0]))
		}
		for pair := range g.D / 16 {
			b := t.regs("r", 4)
			t.add("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%s}, [%s+%d]", strings.Join(b, ", "), from,
				g.tile()+k*16*g.pitch()+32*pair)
			for half := range 2 {
				g.multiply(g.sums[8*pair+4*half:][:4], a, b[2*half:][:2])
			}
		}
	}
}

// finishRows divides by the sums of weights and writes the results.
func (g *attending) finishRows() {
	t := g.text
	for i, r := range g.row {
		g.acrossQuad(g.total[i], "add.f32")
		inverse := t.get("f", "rcp.rn.f32", "%s", g.total[i])
		none := t.get("p", "setp.eq.f32", "%s, 0f00000000", g.total[i])
		t.add("@%s mov.f32 %s, 0f00000000", none, inverse)
		out := t.get("d", "mad.wide.u32", "%s, 8, %s", g.quad, r.out)
		list := ofRow(g.sums, i)
		for j := 0; j < len(list); j += 2 {
			for _, s := range list[j:][:2] {
				t.add("mul.f32 %s, %s, %s", s, s, inverse)
			}
			t.add("@%s st.global.v2.f32 [%s+%d], {%s, %s}", r.in, out, 16*j, list[j], list[j+1])
		}
	}
}
