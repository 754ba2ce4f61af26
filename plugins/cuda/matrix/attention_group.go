package matrix

import (
	"slices"
	"strings"
)

// This file has the products of attention with wgmma, on compute capability 9.0. A warpgroup has 64 queries, which it
// keeps in registers, as the weights; keys and values are read from shared memory. There they lie in rows of 128 bytes,
// in which units of 16 bytes are permuted: a part of 64 values of all keys of a tile after the other, for each term.
// Sums have the places in registers that those of mma have.

// groupKernel reports whether wgmma suits. Terms of heads with several parts need too much memory.
func (x attentionText) groupKernel(d Device) bool {
	return d.Capability == 90 && (!x.exact() || x.D <= 64)
}

// Shared memory of a processor of capability 9.0, and what the system takes of it for each block.
const (
	sharedOfProcessor = 228 << 10
	sharedOfBlock     = 1 << 10
)

// groupBlocks is the number of blocks of a warpgroup for which registers suffice.
func (x attentionText) groupBlocks() int {
	if x.D > 96 {
		return 3
	}
	return 4
}

// parts is the number of parts of a row of one term, each of up to 64 values.
func (x attentionText) parts() int { return ceilDiv(x.D, 64) }

// partBytes is the size of a part of all keys of a tile.
const partBytes = keysOfTile * 128

// beginGroups prepares the registers of products, before the loop.
func (g *attending) beginGroups() {
	t := g.text
	g.always, g.never = t.get("p", "setp.eq.u32", "0, 0"), t.get("p", "setp.ne.u32", "0, 0")
	g.scores = t.regs("f", keysOfTile/2)
	if g.exact() {
		g.part = t.regs("f", len(g.sums))
	}
	for _, list := range [][]string{g.scores, g.part} {
		for _, r := range list {
			t.add("mov.f32 %s, 0f00000000", r)
		}
	}
	g.makeWeights()
	for term := range g.Terms {
		for _, list := range g.left[term] {
			for _, r := range list {
				t.add("mov.u32 %s, 0", r)
			}
		}
	}
}

// copyTile starts to copy a tile of an operand to shared memory.
func (g *attending) copyTile(from rowsAt, first, to string) {
	t := g.text
	step := g.threads() / 8 // rows that the threads copy at a time, a multiple of eight
	at := t.get("r", "add.u32", "%s, %s", to, g.unitAt)
	for row := 0; row < keysOfTile; row += step {
		key := t.get("r", "add.u32", "%s, %s", first, g.unitRow)
		if row > 0 {
			t.add("add.u32 %s, %s, %d", key, key, row)
		}
		a, bytes := g.rowAt(from, key)
		t.add("mad.wide.u32 %s, %s, 16, %s", a, g.unit, a)
		for term := range g.Terms {
			for part := range g.parts() {
				guard := ""
				if left := g.D/8 - 8*part; left < 8 {
					guard = "@" + t.get("p", "setp.lt.u32", "%s, %d", g.unit, left) + " "
				}
				t.add("%scp.async.cg.shared.global [%s+%d], [%s+%d], 16, %s", guard, at,
					(term*g.parts()+part)*partBytes+128*row, a, 2*g.D*term+128*part, bytes)
			}
		}
	}
}

// placeUnits finds the unit that the thread copies of each row.
func (g *attending) placeUnits() {
	t := g.text
	g.unit, g.unitRow = t.get("r", "and.b32", "%s, 7", g.tid), t.get("r", "shr.u32", "%s, 3", g.tid)
	low := t.get("r", "and.b32", "%s, 7", g.unitRow)
	t.add("xor.b32 %s, %s, %s", low, low, g.unit)
	g.unitAt = t.get("r", "shl.b32", "%s, 4", low)
	t.add("mad.lo.u32 %s, %s, 128, %s", g.unitAt, g.unitRow, g.unitAt)
}

// describe returns a function that makes the descriptor of 16 values of K in the tile at an address. With across, those
// are keys, and the matrix lies across K.
func (g *attending) describe(at string, across bool) func(term, step int) string {
	t := g.text
	first := t.get("r", "shr.u32", "%s, 4", at)
	low := t.get("d", "cvt.u64.u32", "%s", first)
	// the swizzle of 128 bytes, 1024 bytes between groups of eight rows, and the distance of parts, for those across K
	high := uint64(1)<<62 | 1024>>4<<32 | partBytes>>4<<16
	base := t.get("d", "or.b64", "%s, %s", low, t.get("d", "mov.b64", "%#x", high))
	return func(term, step int) string {
		offset := term * g.parts() * partBytes
		if across {
			offset += step * 16 * 128
		} else {
			offset += step/4*partBytes + step%4*32
		}
		if offset == 0 {
			return base
		}
		return t.get("d", "add.u64", "%s, %d", base, offset>>4)
	}
}

// multiplyGroups adds products of warpgroups to sums, whose number decides how wide they are: of the left operand in
// registers and the matrices that describe gives. fresh sets the sums instead. They are not waited for.
func (g *attending) multiplyGroups(sums []string, list []turn, steps int, fresh, across bool,
	left func(term, step int) []string, describe func(term, step int) string) {
	t := g.text
	t.add("wgmma.fence.sync.aligned")
	for i, pass := range list {
		for k := range steps {
			adds := g.always
			if fresh && i == 0 && k == 0 {
				adds = g.never
			}
			t.add("wgmma.mma_async.sync.aligned.m64n%dk16.f32.%[2]v.%[2]v {%[3]s}, {%[4]s}, %[5]s, %[6]s, 1, 1, %[7]d",
				2*len(sums), g.Type, strings.Join(sums, ", "), strings.Join(left(pass.a, k), ", "),
				describe(pass.b, k), adds, btoi(across))
		}
	}
	t.add("wgmma.commit_group.sync.aligned")
}

// passes returns the pairs of terms that are multiplied, the smallest products first.
func (x attentionText) passes() []turn {
	return slices.Concat(turnsOf([2]int{x.Terms, x.Terms})...)
}

// beginScores starts to compute the scores of keys at an address.
func (g *attending) beginScores(keys string) {
	steps := g.D / 16
	left := func(term, k int) []string { return g.queries[4*(term*steps+k):][:4] }
	g.multiplyGroups(g.scores, g.passes(), steps, true, false, left, g.describe(keys, false))
}

// beginSums starts to add values at an address, weighted. At f32, those of a tile are added alone.
func (g *attending) beginSums(values string) {
	sums := g.sums
	if g.exact() {
		sums = g.part
	}
	left := func(term, k int) []string { return g.left[term][k] }
	g.multiplyGroups(sums, g.passes(), keysOfTile/16, g.exact(), true, left, g.describe(values, true))
}

// loopGroups goes through the tiles of keys at f32. While the values of a tile are multiplied, the scores of the next
// one become weights (Shah et al., FlashAttention-3, 2024): its keys are loaded with the values of the tile before. In
// 16 bits that is slower than loop, with more blocks on a processor.
func (g *attending) loopGroups(col string) {
	t := g.text
	// keys and values that are loaded next
	key, value := t.get("r", "mov.u32", "%s", g.from), t.get("r", "mov.u32", "%s", g.from)
	number := t.get("r", "shr.u32", "%s, 6", key) // of the tile of scores
	var at [2][2]string                           // of keys and values: used now, loaded next
	for i := range at {
		at[i][0] = t.get("r", "add.u32", "%s, %d", g.base, 2*i*g.tile())
		at[i][1] = t.get("r", "add.u32", "%s, %d", g.base, (2*i+1)*g.tile())
	}
	advance := func(key string) { t.add("add.u32 %s, %s, %d", key, key, keysOfTile) }
	load := func(from rowsAt, key, to string) {
		end, skip := t.get("p", "setp.ge.u32", "%s, %s", key, g.to), t.label()
		t.add("@%s bra.uni %s", end, skip)
		g.copyTile(from, key, to)
		t.place(skip)
		advance(key)
	}
	swap := func(list [2]string) {
		other := t.get("r", "mov.u32", "%s", list[0])
		t.add("mov.u32 %s, %s", list[0], list[1])
		t.add("mov.u32 %s, %s", list[1], other)
	}
	ready := func(left int) {
		t.add("cp.async.wait_group %d", left)
		t.add("fence.proxy.async.shared::cta")
		t.add("bar.sync 0")
	}
	g.copyTile(g.k, key, at[0][0]) // if there are no keys, these are zeros
	t.add("cp.async.commit_group")
	g.copyTile(g.v, value, at[1][0])
	advance(key)
	advance(value)
	load(g.k, key, at[0][1])
	t.add("cp.async.commit_group")
	ready(1)
	again, next, last, end := t.label(), t.label(), t.label(), t.label()
	t.add("@%s bra.uni %s", g.idle, again)
	g.beginScores(at[0][0])
	t.add("wgmma.wait_group.sync.aligned 0")
	g.weighTile(number, col, true)
	g.setWeights()
	t.place(again)
	swap(at[0])
	t.add("add.u32 %s, %s, 1", number, number)
	ready(0)
	load(g.v, value, at[1][1])
	load(g.k, key, at[0][1])
	t.add("cp.async.commit_group")
	first := t.get("r", "shl.b32", "%s, 6", number)
	past := t.get("p", "setp.ge.u32", "%s, %s", first, g.to)
	t.add("@%s bra.uni %s", past, last)
	t.add("@%s bra.uni %s", g.idle, next)
	step := func(masked bool) {
		g.beginScores(at[0][0])
		g.beginSums(at[1][0])
		t.add("wgmma.wait_group.sync.aligned 1")
		scales := g.weighTile(number, col, masked)
		t.add("wgmma.wait_group.sync.aligned 0")
		g.addPart()
		for i, scale := range scales {
			g.rescale(i, scale)
		}
		g.setWeights()
	}
	g.steps(number, step)
	t.place(next)
	swap(at[1])
	t.add("bra.uni %s", again)
	t.place(last)
	t.add("cp.async.wait_all")
	t.add("@%s bra.uni %s", g.idle, end)
	g.beginSums(at[1][0])
	t.add("wgmma.wait_group.sync.aligned 0")
	g.addPart()
	t.place(end)
}

// addPart adds the sums of a tile.
func (g *attending) addPart() {
	for i, r := range g.part {
		g.text.add("add.f32 %s, %s, %s", g.sums[i], g.sums[i], r)
	}
}

// makeWeights makes the registers of left.
func (g *attending) makeWeights() {
	for term := range g.Terms {
		for k := range g.left[term] {
			g.left[term][k] = g.text.regs("r", 4)
		}
	}
}

// setWeights makes left operands of the weights of the tile.
func (g *attending) setWeights() {
	t := g.text
	for k := range g.left[0] {
		for i := range 4 {
			s := g.scores[8*k+2*i:][:2]
			if !g.exact() {
				t.add("cvt.rn.%vx2.f32 %s, %s, %s", g.Type, g.left[0][k][i], s[1], s[0])
				continue
			}
			t.terms([]string{g.left[0][k][i], g.left[1][k][i], g.left[2][k][i]}, s)
		}
	}
}
