package matrix

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// keysOfTile is the number of keys in shared memory at a time; there are two such tiles.
const keysOfTile = 64

// attentionText generates attention over q, k and v in 16 bits. A warp has 16 queries. Scores and weights stay in
// registers (Dao, FlashAttention-2, 2023). It is that of attention if Plain is set, otherwise of grid_attention, whose
// operands are packed as [groups][tokens][width], one after another.
type attentionText struct {
	Type  dtype.DType // of q, k and v
	Terms int         // of their values: three at f32, otherwise 1. See attention_terms.go.
	Warps int
	Group bool // wgmma: see attention_group.go
	D     int  // a multiple of 16, at most 128
	Grid  gridText
	Plain plainText
	// the result is also written in Type, see kernels.RoundedOut
	Rounded bool
	Only    bool // the result is written in Type only, not in f32
	Skips   []int64
}

// attentionFields are the words of its parameters. at is where the operands begin in scratch memory, in units of 16
// bytes; part is the size of each of them. scale has a factor of log2(e).
var attentionFields = []string{"groups", "at", "part", "scale"}

func (x attentionText) queries() int { return 16 * x.Warps }
func (x attentionText) threads() int { return 32 * x.Warps }

// width is the number of values of a row of an operand: D of each term.
func (x attentionText) width() int { return x.D * x.Terms }

// pitch is the size of a row in shared memory. With 16 bytes of padding, eight rows begin in different banks.
func (x attentionText) pitch() int { return 2*x.width() + 16 }
func (x attentionText) tile() int {
	if x.Group {
		return x.Terms * x.parts() * partBytes
	}
	return keysOfTile * x.pitch()
}

func (x attentionText) shared() int {
	n := x.operands()
	if x.Group {
		n += 1023 // they begin at a multiple of 1024
	}
	if x.Grid.Rel {
		n += 4 * x.queries() * x.Grid.termPitch()
	}
	return n
}

// operands is the part of shared memory for q, then k and v.
func (x attentionText) operands() int { return max(4*x.tile(), x.queries()*x.pitch()) }

// perProcessor is the number of blocks that should fit on a processor. Wide heads need more registers.
func (x attentionText) perProcessor() int {
	if x.Group && !x.exact() {
		return max(1, min(x.groupBlocks(), sharedOfProcessor/(x.shared()+sharedOfBlock)))
	}
	if x.D > 96 || x.exact() {
		return 8 / x.Warps
	}
	return 16 / x.Warps
}

// blocks returns the number of blocks for a number of groups of tokens.
func (x attentionText) blocks(groups, tokens int) int { return groups * ceilDiv(tokens, x.queries()) }

// attending is the state while an attention is generated.
type attending struct {
	attentionText
	*text
	p                     map[string]string
	y, z                  string
	tid, lane, quad       string
	group, first          string    // group, and the first query of the block
	q, k, v               rowsAt    // the group's operands
	terms                 rowsAt    // for relative positions
	offset                string    // of positions; see plainText
	all                   [2]string // the keys that all queries of the block see
	from, to              string    // keys of the block; from is a multiple of keysOfTile
	base                  string    // of shared memory
	queries, scores, sums []string
	most, total           [2]string // of a row: the largest score so far, and the sum of weights
	row                   [2]attendingRow
	columns               [2][4][2]string // terms of columns that are kept in registers
	keyRow, valueRow      string          // offsets of the fragments of keys and values in a tile
	idle                  string          // no query of the warp exists, or of the warpgroup
	check                 [2]string       // of a row: NaN if a score was not finite, else 0; see attention_repair.go
	// weights as left operands: fragments of 16 keys, by term
	left [3][keysOfTile / 16][]string
	groups
}

// groups is the part of the state that only wgmma needs.
type groups struct {
	always, never         string   // predicates
	part                  []string // sums of a tile
	unit, unitRow, unitAt string   // which units the thread copies, and where to in a tile; see copyTile
}

// rowsAt are the rows of an operand: where they begin, the bytes from one to the next, and their number, which are
// registers or constants. wide means that they are keys of gridText.wide.
type rowsAt struct {
	at, pitch, count string
	wide             bool
}

// attendingRow is one of the two rows of a thread.
type attendingRow struct {
	in    string    // the query exists
	out   string    // where its result begins
	terms string    // where its relative position terms begin in shared memory
	span  [2]string // the keys that it sees, in Plain
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
	place := g.placeWindow
	if x.Plain.On {
		place = g.placePlain
	}
	bindings := place(skip)
	g.loadQueries()
	g.sums = t.regs("f", x.D/2)
	for _, r := range g.sums {
		t.add("mov.f32 %s, 0f00000000", r)
	}
	for i := range 2 {
		g.most[i], g.total[i] = t.get("f", "mov.f32", "0fFF800000"), t.get("f", "mov.f32", "0f00000000")
		if x.exact() {
			g.check[i] = t.get("f", "mov.f32", "0f00000000")
		}
	}
	g.loop()
	g.finishRows()
	t.add("ret")
	target := "sm_80"
	if x.Group {
		target = "sm_90a"
	}
	return t.finish(entry{target, x.threads(), x.shared(), bindings, x.perProcessor()})
}

// placeBlock finds the block's number, and ends blocks that have none.
func (g *attending) placeBlock() (number string) {
	t := g.text
	g.tid = t.get("r", "mov.u32", "%%tid.x")
	g.lane = t.get("r", "and.b32", "%s, 31", g.tid)
	g.quad = t.get("r", "and.b32", "%s, 3", g.lane)
	g.base = t.get("r", "mov.u32", "memory")
	if g.Group {
		t.add("add.u32 %s, %s, 1023", g.base, g.base)
		t.add("and.b32 %s, %s, 0xfffffc00", g.base, g.base)
		g.placeUnits()
	}
	x, y := t.get("r", "mov.u32", "%%ctaid.x"), t.get("r", "mov.u32", "%%ctaid.y")
	w := t.get("r", "mov.u32", "%%nctaid.x")
	number = t.get("r", "mad.lo.u32", "%s, %s, %s", y, w, x)
	past := t.get("p", "setp.ge.u32", "%s, %s", number, g.p["groups"])
	t.add("@%s ret", past)
	return number
}

// rowOfThread is the first of the two rows of the thread.
func (g *attending) rowOfThread() string {
	t := g.text
	warp := t.get("r", "shr.u32", "%s, 5", g.tid)
	row := t.get("r", "mad.lo.u32", "%s, 16, %s", warp, g.first)
	first := row
	if g.Group {
		first = t.get("r", "shr.u32", "%s, 7", g.tid)
		t.add("mad.lo.u32 %s, %s, 64, %s", first, first, g.first)
	}
	g.idle = t.get("p", "setp.ge.u32", "%s, %s", t.uniform(first), g.q.count)
	inWarp := t.get("r", "shr.u32", "%s, 2", g.lane)
	return t.get("r", "add.u32", "%s, %s", row, inWarp)
}

// copyRows starts to copy rows of an operand to shared memory. Rows past the end become zeros.
func (g *attending) copyRows(from rowsAt, first string, rows int, to string) {
	g.copyUnits(from, first, rows, g.attentionText.width()/8, g.pitch(), to)
}

// copyUnits is copyRows for rows of a number of units of 16 bytes, pitch bytes from one to the next in shared memory.
func (g *attending) copyUnits(from rowsAt, first string, rows, units, pitch int, to string) {
	t := g.text
	for i := 0; i < rows*units; i += g.threads() {
		u := t.get("r", "add.u32", "%s, %d", g.tid, i)
		row, unit := t.get("r", "div.u32", "%s, %d", u, units), t.get("r", "rem.u32", "%s, %d", u, units)
		a, bytes := g.rowAt(from, t.get("r", "add.u32", "%s, %s", row, first))
		t.add("mad.wide.u32 %s, %s, 16, %s", a, unit, a)
		s := t.get("r", "mad.lo.u32", "%s, %d, %s", row, pitch, to)
		t.add("mad.lo.u32 %s, %s, 16, %s", s, unit, s)
		guard := ""
		if i+g.threads() > rows*units {
			guard = "@" + t.get("p", "setp.lt.u32", "%s, %d", u, rows*units) + " "
		}
		t.add("%scp.async.cg.shared.global [%s], [%s], 16, %s", guard, s, a, bytes)
	}
}

// rowAt returns where a row of an operand begins, and how many bytes of each unit of 16 are to be copied.
func (g *attending) rowAt(from rowsAt, row string) (at, bytes string) {
	t := g.text
	bytes = t.get("r", "mov.u32", "16")
	wide := ""
	if from.wide {
		wide = t.get("r", "rem.u32", "%s, %d", row, g.Grid.wide())
		t.add("div.u32 %s, %s, %d", row, row, g.Grid.wide())
		t.add("mad.lo.u32 %s, %s, %d, %s", row, row, g.Grid.WW, wide)
	}
	past := t.get("p", "setp.ge.u32", "%s, %s", row, from.count)
	if from.wide {
		t.add("setp.ge.or.u32 %s, %s, %d, %s", past, wide, g.Grid.WW, past)
	}
	t.add("@%s mov.u32 %s, 0", past, bytes)
	t.add("@%s mov.u32 %s, 0", past, row)
	at = t.get("d", "mul.wide.u32", "%s, %s", row, from.pitch)
	t.add("add.u64 %s, %s, %s", at, at, from.at)
	return at, bytes
}

// loadQueries loads the fragments of the warp's queries.
func (g *attending) loadQueries() {
	t := g.text
	g.copyRows(g.q, g.first, g.attentionText.queries(), g.base)
	if x := g.attentionText; x.Grid.Rel {
		to := t.get("r", "add.u32", "%s, %d", g.base, x.operands())
		g.copyUnits(g.terms, g.first, x.queries(), x.Grid.pitch()/4, 4*x.Grid.termPitch(), to)
	}
	t.add("cp.async.commit_group")
	t.add("cp.async.wait_group 0")
	t.add("bar.sync 0")
	row := t.get("r", "and.b32", "%s, 15", g.lane)
	warp := t.get("r", "shr.u32", "%s, 5", g.tid)
	t.add("mad.lo.u32 %s, %s, 16, %s", row, warp, row)
	half := t.get("r", "shr.u32", "%s, 4", g.lane)
	at := t.get("r", "mad.lo.u32", "%s, %d, %s", row, g.pitch(), g.base)
	t.add("mad.lo.u32 %s, %s, 16, %s", at, half, at)
	for k := range g.attentionText.width() / 16 {
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

// loop goes through the tiles of keys.
func (g *attending) loop() {
	t := g.text
	col := t.get("r", "shl.b32", "%s, 1", g.quad) // of the thread in a fragment
	g.keepTerms()
	if g.Group {
		g.beginGroups()
		if g.exact() {
			g.loopGroups(col)
			return
		}
	}
	key := t.get("r", "mov.u32", "%s", g.from) // the first of the next tile
	number := t.get("r", "shr.u32", "%s, 6", key)
	load := func(to string) {
		values := t.get("r", "add.u32", "%s, %d", to, g.tile())
		if g.Group {
			g.copyTile(g.k, key, to)
			g.copyTile(g.v, key, values)
		} else {
			g.copyRows(g.k, key, keysOfTile, to)
			g.copyRows(g.v, key, keysOfTile, values)
		}
		t.add("add.u32 %s, %s, %d", key, key, keysOfTile)
	}
	now := t.get("r", "mov.u32", "%s", g.base)
	load(now)
	t.add("cp.async.commit_group")
	other := t.get("r", "add.u32", "%s, %d", g.base, 2*g.tile())
	again, last := t.label(), t.label()
	t.place(again)
	end := t.get("p", "setp.ge.u32", "%s, %s", key, g.to)
	t.add("@%s bra.uni %s", end, last)
	load(other)
	t.place(last)
	t.add("cp.async.commit_group")
	t.add("cp.async.wait_group 1")
	if g.Group {
		t.add("fence.proxy.async.shared::cta")
	}
	t.add("bar.sync 0")
	skip := t.label()
	t.add("@%s bra.uni %s", g.idle, skip)
	g.steps(number, func(masked bool) {
		g.multiplyKeys(now)
		for i, scale := range g.weighTile(number, col, masked) {
			g.rescale(i, scale)
		}
		g.multiplyValues(now)
	})
	t.place(skip)
	t.add("bar.sync 0")
	swap := t.get("r", "mov.u32", "%s", now)
	t.add("mov.u32 %s, %s", now, other)
	t.add("mov.u32 %s, %s", other, swap)
	t.add("add.u32 %s, %s, 1", number, number)
	next := t.get("r", "shl.b32", "%s, 6", number)
	more := t.get("p", "setp.lt.u32", "%s, %s", next, g.to)
	t.add("@%s bra.uni %s", more, again)
}

// steps generates a step of the loop twice: without a mask for tiles that all queries of the block see completely,
// which most are, and masked for others. A branch within the step would be shorter, but products of warpgroups before
// and after it wait for each other, and the ptxas of CUDA 12.9 and 13.0 gives them wrong registers: the weights of a
// tile overwrite the queries, which the next tile needs. The interpreter refuses such a branch.
func (g *attending) steps(number string, step func(masked bool)) {
	if !g.Plain.On {
		step(false)
		return
	}
	t := g.text
	hidden, end := t.label(), t.label()
	t.add("@!%s bra.uni %s", g.seen(number), hidden)
	step(false)
	t.add("bra.uni %s", end)
	t.place(hidden)
	step(true)
	t.place(end)
}

// multiplyKeys computes the scores of a tile at an address.
func (g *attending) multiplyKeys(at string) {
	t := g.text
	if g.Group {
		g.beginScores(at)
		t.add("wgmma.wait_group.sync.aligned 0")
		return
	}
	if g.scores == nil {
		g.scores = t.regs("f", keysOfTile/2)
	}
	for _, r := range g.scores {
		t.add("mov.f32 %s, 0f00000000", r)
	}
	from := t.get("r", "add.u32", "%s, %s", at, g.keyRow)
	if g.exact() {
		g.multiplyKeyTerms(from)
		return
	}
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

func (g *attending) multiply(sums, a, b []string) { g.mma(g.Type, sums, a, b) }

// multiplyValues adds the weighted values of a tile at an address.
func (g *attending) multiplyValues(at string) {
	t := g.text
	if g.Group {
		g.setWeights()
		g.beginSums(t.get("r", "add.u32", "%s, %d", at, g.tile()))
		t.add("wgmma.wait_group.sync.aligned 0")
		return
	}
	from := t.get("r", "add.u32", "%s, %s", at, g.valueRow)
	if g.exact() {
		g.multiplyValueTerms(from)
		return
	}
	g.makeWeights()
	g.setWeights()
	for k, a := range g.left[0] {
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
	for i := range g.row {
		g.acrossQuad(g.total[i], "add.f32")
		inverse := t.get("f", "rcp.rn.f32", "%s", g.total[i])
		none := t.get("p", "setp.eq.f32", "%s, 0f00000000", g.total[i])
		t.add("@%s mov.f32 %s, 0f00000000", none, inverse)
		for _, s := range ofRow(g.sums, i) {
			t.add("mul.f32 %s, %s, %s", s, s, inverse)
		}
	}
	if g.exact() {
		g.repair()
	}
	for i, r := range g.row {
		out := t.get("d", "mad.wide.u32", "%s, 8, %s", g.quad, r.out)
		half := ""
		if g.Rounded {
			half = t.get("d", "sub.u64", "%s, %s", out, g.y)
			t.add("shr.u64 %s, %s, 1", half, half)
			t.add("add.u64 %s, %s, %s", half, half, g.z)
		}
		list := ofRow(g.sums, i)
		for j := 0; j < len(list); j += 2 {
			if !g.Only {
				t.add("@%s st.global.v2.f32 [%s+%d], {%s, %s}", r.in, out, 16*j, list[j], list[j+1])
			}
			if g.Rounded {
				both := t.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", g.Type), "%s, %s", list[j+1], list[j])
				t.add("@%s st.global.u32 [%s+%d], %s", r.in, half, 8*j, both)
			}
		}
	}
}
