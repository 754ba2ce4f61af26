package matrix

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// A block of a product with Tile.PingPong has a sequence of tiles, which its two warpgroups compute in turn: while one
// writes its results, the other has the matrix units. Both load to one ring of stages, in the order of the tiles, so
// the first operands of a tile are there when the products of the one before end. There is a block for each processor.
//
// A thread has 192 sums of a tile of 128 x 192, so there are registers for no more than eight warps. Warps that only
// load would need setmaxnreg, which drivers ignore in code that they link.
//
// Each stage has two barriers in shared memory (mbarrier). The first completes when all threads of a warpgroup have
// loaded their part of the stage, the second when all its warps have read it. Two others say that all loads of a tile
// are under way, so that the other warpgroup may begin. Without them, it could not tell a later round of the ring from
// the present one: a wait knows only whether the number of the round is odd.

const (
	barrierBytes = 16 // of the barriers of a stage, and of those of turns
	// pingPongThreads is the number of threads of a block.
	pingPongThreads = 2 * 128
)

// openRing makes the barriers, and waits for the kernel before.
func (g *generated) openRing() {
	t := g.text
	tid := t.get("r", "mov.u32", "%%tid.x")
	g.base = t.get("r", "mov.u32", "memory")
	t.add("add.u32 %s, %s, 1023", g.base, g.base)
	t.add("and.b32 %s, %s, 0xfffffc00", g.base, g.base)
	g.ring = t.get("r", "add.u32", "%s, %d", g.base, g.Stages*g.Tile.stage())
	first := t.get("p", "setp.eq.u32", "%s, 0", tid)
	for i := range g.Stages {
		t.add("@%s mbarrier.init.shared::cta.b64 [%s+%d], 128", first, g.ring, 8*i)
		t.add("@%s mbarrier.init.shared::cta.b64 [%s+%d], 4", first, g.ring, 8*(g.Stages+i))
	}
	for i := range 2 {
		t.add("@%s mbarrier.init.shared::cta.b64 [%s+%d], 4", first, g.ring, barrierBytes*g.Stages+8*i)
	}
	t.add("bar.sync 0")
	t.body.WriteString(Waits)
}

// takeTurns is all that follows the parameters.
func (g *generated) takeTurns() {
	t := g.text
	id := g.block()
	w, h := t.get("r", "mov.u32", "%%nctaid.x"), t.get("r", "mov.u32", "%%nctaid.y")
	blocks := t.get("r", "mul.lo.u32", "%s, %s", w, h)
	turn := t.get("r", "shr.u32", "%s, 7", g.tid)
	g.multiplyTiles(id, blocks, t.uniform(turn))
}

// eachTile repeats what is done with a tile for every step-th one from id on.
func (g *generated) eachTile(id, step string, do func()) {
	t := g.text
	again, end := t.label(), t.label()
	t.place(again)
	over := t.get("p", "setp.ge.u32", "%s, %s", id, g.p["groups"])
	t.add("@%s bra.uni %s", over, end)
	g.tileAt(id)
	do()
	t.add("add.u32 %s, %s, %s", id, id, step)
	t.add("bra.uni %s", again)
	t.place(end)
}

// eachPart repeats what is done with a part of K, count times. done is the number of parts before it.
func (g *generated) eachPart(count string, do func(done string)) {
	t := g.text
	done := t.get("r", "mov.u32", "0")
	again, end := t.label(), t.label()
	t.place(again)
	over := t.get("p", "setp.ge.u32", "%s, %s", done, count)
	t.add("@%s bra.uni %s", over, end)
	do(done)
	t.add("add.u32 %s, %s, 1", done, done)
	t.add("bra.uni %s", again)
	t.place(end)
}

// await waits until a barrier has completed the phase of a parity.
func (g *generated) await(barrier string, offset int, parity string) {
	t := g.text
	again := t.label()
	t.place(again)
	done := t.get("p", "mbarrier.try_wait.parity.shared::cta.b64", "[%s+%d], %s", barrier, offset, parity)
	t.add("@!%s bra %s", done, again)
}

// place in the ring: the offset of a stage, its barrier, and the parity of the phase that is awaited.
type place struct{ stage, barrier, parity string }

// pass advances to the next stage.
func (g *generated) pass(p place) {
	t := g.text
	t.add("add.u32 %s, %s, %d", p.stage, p.stage, g.Tile.stage())
	t.add("add.u32 %s, %s, 8", p.barrier, p.barrier)
	end := t.get("p", "setp.eq.u32", "%s, %d", p.stage, g.Stages*g.Tile.stage())
	t.add("@%s mov.u32 %s, 0", end, p.stage)
	t.add("@%s mov.u32 %s, %s", end, p.barrier, g.ring)
	t.add("@%s xor.b32 %s, %s, 1", end, p.parity, p.parity)
}

// loading is what a warpgroup loads of a tile.
type loading struct {
	begin         [2]string   // of the matrices
	offsets       [2][]string // of what the thread loads
	to            string      // its place in a stage
	at            place
	loaded        string // parts
	theirs, first string // the other warpgroup's barrier, and whether the thread arrives there
}

// loadingOf returns what the warpgroup loads of a tile. A thread loads a unit of 16 bytes of every 16th row.
func (g *generated) loadingOf(at place) (l loading) {
	t := g.text
	l.at, l.loaded = at, t.get("r", "mov.u32", "0")
	unit, row := t.get("r", "and.b32", "%s, 7", g.tid), t.get("r", "shr.u32", "%s, 3", g.tid)
	t.add("and.b32 %s, %s, 15", row, row)
	l.to = t.get("r", "and.b32", "%s, 7", row)
	t.add("xor.b32 %s, %s, %s", l.to, l.to, unit)
	t.add("shl.b32 %s, %s, 4", l.to, l.to)
	t.add("mad.lo.u32 %s, %s, 128, %s", l.to, row, l.to)
	t.add("add.u32 %s, %s, %s", l.to, l.to, g.base)
	t.add("shl.b32 %s, %s, 4", unit, unit)
	for i, o := range []struct {
		name, at, first, size string
		rows                  int
	}{{"a", g.a, g.row, g.p["m"], g.M}, {"b", g.b, g.col, g.p["n"], g.N}} {
		last := t.get("r", "sub.u32", "%s, 1", o.size)
		l.begin[i] = t.get("d", "mad.wide.u32", "%s, 16, %s", g.p[o.name+"_at"], o.at)
		m := t.get("d", "mul.wide.u32", "%s, %s", g.matrix, g.p[o.name+"_matrix"])
		t.add("shl.b64 %s, %s, 4", m, m)
		t.add("add.u64 %s, %s, %s", l.begin[i], l.begin[i], m)
		width := t.get("r", "shl.b32", "%s, 4", g.p[o.name+"_row"])
		first := t.get("r", "add.u32", "%s, %s", o.first, row)
		for k := 0; k < o.rows; k += 16 {
			r := t.get("r", "add.u32", "%s, %d", first, k)
			t.add("min.u32 %s, %s, %s", r, r, last) // rows past the end are computed and not written
			l.offsets[i] = append(l.offsets[i], t.get("r", "mad.lo.u32", "%s, %s, %s", r, width, unit))
		}
	}
	return l
}

// loadPart loads the next part as soon as its stage has been read.
func (g *generated) loadPart(l *loading) {
	t := g.text
	g.await(l.at.barrier, 8*g.Stages, l.at.parity)
	here := t.get("r", "add.u32", "%s, %s", l.to, l.at.stage)
	offset := 0
	for i, list := range l.offsets {
		for _, o := range list {
			from := t.get("d", "mad.wide.u32", "%s, 1, %s", o, l.begin[i])
			t.add("cp.async.cg.shared.global [%s+%d], [%s], 16", here, offset, from)
			offset += 16 * 2 * depth
		}
		t.add("add.u64 %s, %s, %d", l.begin[i], l.begin[i], 2*depth)
	}
	t.add("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%s]", l.at.barrier)
	g.pass(l.at)
	t.add("add.u32 %s, %s, 1", l.loaded, l.loaded)
	all := t.get("p", "setp.eq.and.u32", "%s, %s, %s", l.loaded, g.p["parts"], l.first)
	g.arrive(all, l.theirs, barrierBytes*g.Stages)
}

// multiplyTiles computes every second tile of the block.
func (g *generated) multiplyTiles(id, blocks, turn string) {
	t := g.text
	t.add("mad.lo.u32 %s, %s, %s, %s", id, turn, blocks, id)
	step := t.get("r", "shl.b32", "%s, 1", blocks)
	parts := t.get("r", "mul.lo.u32", "%s, %s", turn, g.p["parts"]) // of the tiles before
	twice := t.get("r", "shl.b32", "%s, 1", g.p["parts"])
	one := t.get("p", "setp.eq.u32", "%s, 0", g.lane)
	high := t.get("d", "mov.b64", "0x4000004000010000")
	always := t.get("p", "setp.eq.u32", "0, 0")
	g.acc = t.regs("f", g.M*g.N/128)
	other := t.get("r", "xor.b32", "%s, 1", turn)
	ours := t.get("r", "mad.lo.u32", "%s, 8, %s", turn, g.ring)
	theirs := t.get("r", "mad.lo.u32", "%s, 8, %s", other, g.ring)
	parity := t.get("r", "mov.u32", "%s", other) // the first warpgroup does not wait the first time
	g.eachTile(id, step, func() {
		round := t.get("r", "div.u32", "%s, %d", parts, g.Stages)
		index := t.get("r", "rem.u32", "%s, %d", parts, g.Stages)
		t.add("and.b32 %s, %s, 1", round, round)
		at := place{t.get("r", "mul.lo.u32", "%s, %d", index, g.Tile.stage()),
			t.get("r", "mad.lo.u32", "%s, 8, %s", index, g.ring), round}
		// nobody has read the stages of the first round: the phase before the first counts as complete
		l := g.loadingOf(place{t.get("r", "mov.u32", "%s", at.stage), t.get("r", "mov.u32", "%s", at.barrier),
			t.get("r", "xor.b32", "%s, 1", round)})
		l.theirs, l.first = theirs, one
		g.await(ours, barrierBytes*g.Stages, parity)
		t.add("xor.b32 %s, %s, 1", parity, parity)
		first := t.get("r", "min.u32", "%s, %d", g.p["parts"], g.Stages)
		g.eachPart(first, func(string) { g.loadPart(&l) })
		g.loadBiases()
		for _, r := range g.acc {
			t.add("mov.f32 %s, 0f00000000", r)
		}
		before := t.get("r", "mov.u32", "%s", at.barrier)
		g.eachPart(g.p["parts"], func(done string) {
			g.await(at.barrier, 0, at.parity)
			t.add("fence.proxy.async.shared::cta")
			g.multiplyPart(at.stage, high, always)
			t.add("wgmma.wait_group.sync.aligned 1")
			again := t.get("p", "setp.ne.u32", "%s, 0", done)
			g.arrive(t.get("p", "and.pred", "%s, %s", again, one), before, 8*g.Stages)
			more := t.get("p", "setp.lt.and.u32", "%s, %s, %s", l.loaded, g.p["parts"], again)
			skip := t.label()
			t.add("@!%s bra.uni %s", more, skip)
			g.loadPart(&l)
			t.place(skip)
			t.add("mov.u32 %s, %s", before, at.barrier)
			g.pass(at)
		})
		t.add("wgmma.wait_group.sync.aligned 0")
		g.arrive(one, before, 8*g.Stages)
		g.finishTile()
		t.add("add.u32 %s, %s, %s", parts, parts, twice)
	})
	t.add("cp.async.wait_all")
}

// arrive makes threads arrive at a barrier.
func (g *generated) arrive(guard, barrier string, offset int) {
	t := g.text
	state := t.reg("d")
	t.add("@%s mbarrier.arrive.shared::cta.b64 %s, [%s+%d]", guard, state, barrier, offset)
}

// multiplyPart adds the products of a part of K. For the descriptors, see warpgroups.
func (g *generated) multiplyPart(stage, high, always string) {
	t := g.text
	describe := func(offset int) string {
		r := t.get("r", "add.u32", "%s, %s", g.base, stage)
		t.add("add.u32 %s, %s, %d", r, r, offset)
		t.add("shr.u32 %s, %s, 4", r, r)
		d := t.get("d", "cvt.u64.u32", "%s", r)
		return t.get("d", "or.b64", "%s, %s", d, high)
	}
	var a []string
	for i := range g.rows() {
		a = append(a, describe(64*i*2*depth))
	}
	b := describe(g.M * 2 * depth)
	k, typ, across := 16, g.Type.String(), ", 0, 0"
	if g.Type == dtype.F32 {
		k, typ, across = 8, "tf32", ""
	}
	t.add("wgmma.fence.sync.aligned")
	for s := range steps {
		for i := range a {
			if s > 0 {
				t.add("add.u64 %s, %s, 2", a[i], a[i])
			}
		}
		if s > 0 {
			t.add("add.u64 %s, %s, 2", b, b)
		}
		for i := range a {
			sums := g.acc[i*g.N/2:][:g.N/2]
			t.add("wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%[3]s.%[3]s {%[4]s}, %[5]s, %[6]s, %[7]s, 1, 1%[8]s", g.N, k,
				typ, strings.Join(sums, ", "), a[i], b, always, across)
		}
	}
	t.add("wgmma.commit_group.sync.aligned")
}

// loadBiases loads the biases of the tile's columns, one of every 32 in each lane.
func (g *generated) loadBiases() {
	if !g.Bias {
		return
	}
	t := g.text
	if g.biases == nil {
		g.biases = t.regs("f", g.N/32)
	}
	first := t.get("r", "add.u32", "%s, %s", g.col, g.lane)
	at := t.get("d", "mad.wide.u32", "%s, 4, %s", first, g.bias)
	for i, b := range g.biases {
		column := t.get("r", "add.u32", "%s, %d", first, 32*i)
		in := t.get("p", "setp.lt.u32", "%s, %s", column, g.p["n"])
		t.add("mov.f32 %s, 0f00000000", b)
		t.add("@%s ld.global.nc.f32 %s, [%s+%d]", in, b, at, 128*i)
	}
}

// biasOf returns the bias of a column after the thread's first.
func (g *generated) biasOf(column int) string {
	t := g.text
	lane := t.get("r", "and.b32", "%s, 3", g.lane)
	t.add("mad.lo.u32 %s, %s, 2, %d", lane, lane, column%32)
	return t.get("f", "shfl.sync.idx.b32", "%s, %s, 31, 0xffffffff", g.biases[column/32], lane)
}

// finishTile computes and writes the results of a tile, row by row.
func (g *generated) finishTile() {
	t := g.text
	row, col := g.firstOfTile()
	lines := g.lines(row, col)
	step := 1
	if g.Rounded && g.Fours {
		step = 2
	}
	var left []string // columns from the thread's first on; none in rows past the end
	for _, l := range lines {
		n := t.get("r", "sub.u32", "%s, %s", g.p["n"], col)
		left = append(left, t.get("r", "selp.b32", "%s, 0, %s", n, l.in))
	}
	pair := func(k int) (w written) {
		line, j := k/g.columns(), k%g.columns()
		for e := range 2 {
			w.in[e] = t.get("p", "setp.gt.s32", "%s, %d", left[line], 8*j+e)
			w.at[e], w.more[e] = lines[line].at, 32*j+4*e
		}
		w.sums = g.sums(line/2, j)[2*(line%2):][:2]
		return w
	}
	// each pair that is written leaves registers for two that are loaded
	var residuals [][2]string
	for k := 0; k < len(lines)*g.columns(); k += step {
		for g.Residual && len(residuals) < min(len(lines)*g.columns(), k+k/2+residualsAhead) {
			w := pair(len(residuals))
			g.loadResidual(&w)
			residuals = append(residuals, w.residuals)
		}
		var list []written
		for i := range step {
			w := pair(k + i)
			if g.Bias {
				j := (k + i) % g.columns()
				w.bias = [2]string{g.biasOf(8 * j), g.biasOf(8*j + 1)}
			}
			if g.Residual {
				w.residuals = residuals[k+i]
			}
			if step == 1 {
				g.write(&w)
				continue
			}
			g.complete(&w)
			g.writeWide(&w)
			list = append(list, w)
		}
		if step == 2 {
			g.writeFour(list, left[k/g.columns()])
		}
	}
}

// residualsAhead is the number of pairs of the residual that are loaded first.
const residualsAhead = 4

// firstOfTile returns the row and the column of the thread's first sum.
func (g *generated) firstOfTile() (row, col string) {
	t := g.text
	row = t.get("r", "shr.u32", "%s, 5", g.tid)
	t.add("and.b32 %s, %s, 3", row, row)
	t.add("mad.lo.u32 %s, %s, 16, %s", row, row, g.row)
	inRow, inCol := t.get("r", "shr.u32", "%s, 2", g.lane), t.get("r", "and.b32", "%s, 3", g.lane)
	t.add("add.u32 %s, %s, %s", row, row, inRow)
	col = t.get("r", "mad.lo.u32", "%s, 2, %s", inCol, g.col)
	return row, col
}

// writeFour writes the results of two fragments that are next to each other in 16 bits. Lanes that are next to each
// other exchange pairs, so that each writes four columns of one fragment.
func (g *generated) writeFour(list []written, left string) {
	t := g.text
	odd := t.get("r", "and.b32", "%s, 1", g.lane)
	isOdd := t.get("p", "setp.ne.u32", "%s, 0", odd)
	at := t.get("d", "shr.u64", "%s, 1", list[0].at[0])
	t.add("add.u64 %s, %s, %s", at, at, g.z)
	t.add("mad.wide.u32 %s, %s, 12, %s", at, odd, at)
	a, b := g.narrow(&list[0]), g.narrow(&list[1])
	sent := t.get("r", "selp.b32", "%s, %s, %s", a, b, isOdd)
	got := t.get("r", "shfl.sync.bfly.b32", "%s, 1, 31, 0xffffffff", sent)
	low := t.get("r", "selp.b32", "%s, %s, %s", got, a, isOdd)
	high := t.get("r", "selp.b32", "%s, %s, %s", b, got, isOdd)
	column := t.get("r", "mad.lo.u32", "%s, 6, %d", odd, list[0].more[0]/4)
	in := t.get("p", "setp.gt.s32", "%s, %s", left, column)
	t.add("@%s st.global.v2.u32 [%s+%d], {%s, %s}", in, at, list[0].more[0]/2, low, high)
}
