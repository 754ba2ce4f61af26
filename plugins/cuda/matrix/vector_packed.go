package matrix

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// packedVector is the part of a kernel whose weights are packed. Blocks of weights are copied to shared memory, and
// each warp decodes 256 values of eight rows at a time. Values of x are three terms in bf16, which add up to them, and
// weights without their scale are integers that bf16 has, so products are exact. mma.sync adds 16 or 32 of them, and
// then the scale is applied in f32.
//
// A tile of mma.sync has 16 rows: the first eight are those of weights for the first 128 values, and the others are the
// same rows for the other 128. The columns are the terms of x: 0 to 2 for the first half, 3 to 5 for the second.
type packedVector struct {
	*vectorKernel
	packedShape
	decode *decoder

	row, quarter string   // of the lane in mma.sync: lane / 4, lane % 4
	to           []string // offsets of the thread's copies in a stage
	line, column []string // rows of the copies, and offsets in the rows
	offset       []string // of the copies in the tile, if all rows exist
	next, piece  string   // the tile and the part of K that are copied next
	fill, use    string   // stages
	flip         string   // what is added to the addresses of the tile's sums
	terms        string   // address of the lane's terms of x
	acc          []string // sums of mma.sync, with scales
	minima       []string // sums of x times what is subtracted from weights, by half
}

// packedShape divides the work of a block.
type packedShape struct {
	typ            dtype.DType
	k              int
	gated          bool
	groups         int // of eight rows that are read together: of both products, or neighbours
	values         int // of a row in a stage
	bytes          int // that they take
	stride, stages int
}

const (
	packedRows  = 8
	packedUnit  = 256 // values that a warp decodes at a time
	packedTerms = 3
	// manyRows is the least number of rows from which a tile has sixteen.
	manyRows = 1 << 13
	// mostStages is the largest number of stages of copies. A block has no more than it copies.
	mostStages = 5
	// packedRoom is the amount of shared memory for a block up to which it has more stages. Two blocks then leave room
	// for the next kernel, which begins to copy weights meanwhile. leastRoom is that of devices with less memory.
	packedRoom, leastRoom = 96 << 10, 55 << 10
	// packedBlocks is the number of blocks for which a processor has registers: two, and one of the next kernel.
	packedBlocks = 3
	// factors of the second term and the third, so that they are not denormal
	secondFactor, thirdFactor = 256, 65536
)

func (x vectorText) packed(d dtype.DType) packedShape {
	s := packedShape{typ: d, k: x.K, gated: x.Gated, groups: 1, values: min(x.K, vectorWarps*packedUnit)}
	if x.Gated || len(x.Products) == 1 && x.Products[0].N >= manyRows {
		s.groups = 2
	}
	s.bytes = rowBytes(d, s.values)
	// rows begin 4 words apart in the banks of shared memory, so that a warp reads words of eight rows at once
	s.stride = s.bytes + (16-s.bytes%128+128)%128
	s.stages = min(mostStages, max(2, s.parts()*x.turns(s.tileRows())))
	for ; s.stages > 2 && s.shared() > x.Room; s.stages-- {
	}
	return s
}

// Shared memory has the stages, the terms of x, the sums of 32 values of x, the squares of x and the sums of each warp.
func (s packedShape) stage() int     { return s.groups * packedRows * s.stride }
func (s packedShape) termsAt() int   { return s.stages * s.stage() }
func (s packedShape) blockAt() int   { return s.termsAt() + s.k/32*packedTerms*64 }
func (s packedShape) squaresAt() int { return s.blockAt() + s.k/32*4 }
func (s packedShape) sumsAt() int    { return s.squaresAt() + 4*vectorWarps }
func (s packedShape) shared() int {
	return s.sumsAt() + 2*s.sumsBytes()
}

// sumsBytes is the size of the sums of all warps.
func (s packedShape) sumsBytes() int { return s.groups * 4 * vectorWarps * packedRows }

// tileRows is the number of rows of a tile.
func (s packedShape) tileRows() int {
	if s.gated {
		return packedRows
	}
	return s.groups * packedRows
}

// parts is the number of parts of K.
func (s packedShape) parts() int { return ceilDiv(s.k, s.values) }

func newPackedVector(g *vectorKernel) *packedVector {
	typ := g.part.Type
	return &packedVector{vectorKernel: g, packedShape: g.packed(typ), decode: decoders[typ]}
}

func (g *packedVector) generate() {
	t := g.text
	g.row, g.quarter = t.get("r", "shr.u32", "%s, 2", g.lane), t.get("r", "and.b32", "%s, 3", g.lane)
	g.beginCopies()
	for range g.stages - 1 {
		g.copy()
	}
	g.storeTerms()
	g.findTerms()
	g.use = t.get("r", "mov.u32", "0")
	now := t.get("r", "mov.u32", "0") // part of K
	g.acc = t.regs("f", 4*g.groups)
	g.minima = t.regs("f", 2*g.groups)
	clear := func() {
		for _, r := range append(append([]string(nil), g.acc...), g.minima...) {
			t.add("mov.f32 %s, 0f00000000", r)
		}
	}
	clear()
	e := g.newEpilogue(g.tileRows())
	loop, done, more := t.label(), t.label(), t.label()
	g.flip = t.get("r", "mov.u32", "memory") // a multiple of 1024
	t.add("add.u32 %s, %s, %d", g.flip, g.flip, g.sumsBytes())
	ended := t.get("p", "setp.ne.u32", "0, 0") // whether the sums of a tile are in shared memory
	t.place(loop)
	none := t.get("p", "setp.ge.u32", "%s, %s", g.tile, g.end)
	t.add("@%s bra %s", none, done)
	t.add("cp.async.wait_group %d", g.stages-2)
	t.add("bar.sync 0")
	t.add("@!%s bra %s", ended, more)
	g.finish(e)
	t.place(more)
	g.begin(e)
	g.copy()
	g.multiply(now)
	g.advance(g.use)
	if g.parts() > 1 {
		t.add("add.u32 %s, %s, 1", now, now)
		left := t.get("p", "setp.lt.u32", "%s, %d", now, g.parts())
		t.add("setp.ne.u32 %s, 0, 0", ended)
		t.add("@%s bra %s", left, loop)
		t.add("mov.u32 %s, 0", now)
	}
	g.reduce()
	clear()
	t.add("setp.eq.u32 %s, 0, 0", ended)
	t.add("add.u32 %s, %s, %s", g.tile, g.tile, g.step)
	t.add("bra %s", loop)
	t.place(done)
	t.add("cp.async.wait_all")
	t.add("bar.sync 0")
	last := t.label()
	t.add("@!%s bra %s", ended, last)
	g.finish(e)
	t.place(last)
}

// advance moves the offset of a stage to the next one.
func (g *packedVector) advance(stage string) {
	t := g.text
	t.add("add.u32 %s, %s, %d", stage, stage, g.stage())
	last := t.get("p", "setp.ge.u32", "%s, %d", stage, g.stages*g.stage())
	t.add("@%s mov.u32 %s, 0", last, stage)
}

// beginCopies finds what the thread copies of each stage: 16 bytes at a time of eight rows.
func (g *packedVector) beginCopies() {
	t := g.text
	chunks := g.bytes / 16 // of a row
	for i := 0; i < packedRows*chunks; i += vectorThreads {
		c := t.get("r", "add.u32", "%s, %d", g.tid, i)
		row := t.get("r", "div.u32", "%s, %d", c, chunks)
		column := t.get("r", "rem.u32", "%s, %d", c, chunks)
		column = t.get("r", "shl.b32", "%s, 4", column)
		at := t.get("r", "mad.lo.u32", "%s, %d, %s", row, g.stride, column)
		memory := t.get("r", "mov.u32", "memory")
		g.to = append(g.to, t.get("r", "add.u32", "%s, %s", at, memory))
		g.line, g.column = append(g.line, row), append(g.column, column)
		wide := t.get("d", "cvt.u64.u32", "%s", column)
		g.offset = append(g.offset, t.get("d", "mad.wide.u32", "%s, %d, %s", row, rowBytes(g.typ, g.k), wide))
	}
	g.fill = t.get("r", "mov.u32", "0")
	g.next, g.piece = t.get("r", "mov.u32", "%s", g.tile), t.get("r", "mov.u32", "0")
}

// even reports whether all tiles have all of their rows.
func (g *packedVector) even() bool {
	for _, i := range g.part.Products {
		if g.Products[i].N%g.tileRows() != 0 {
			return false
		}
	}
	return true
}

// copy begins to copy the next stage, if there is one.
func (g *packedVector) copy() {
	t := g.text
	chunks, whole := g.bytes/16, rowBytes(g.typ, g.k)
	skip := t.label()
	none := t.get("p", "setp.ge.u32", "%s, %s", g.next, g.end)
	t.add("@%s bra %s", none, skip)
	first := t.get("r", "mul.lo.u32", "%s, %d", g.next, g.tileRows())
	last := t.get("r", "sub.u32", "%s, 1", g.n)
	along := t.get("r", "mul.lo.u32", "%s, %d", g.piece, g.bytes)
	for p := range g.groups {
		base, begin := g.bases[0], first
		if g.gated {
			base = g.bases[p]
		} else if p > 0 {
			begin = t.get("r", "add.u32", "%s, %d", first, p*packedRows)
		}
		base = t.get("d", "mad.wide.u32", "%s, 1, %s", along, base)
		if g.even() {
			base = t.get("d", "mad.wide.u32", "%s, %d, %s", begin, whole, base)
		}
		for i := range g.to {
			var from string
			if g.even() {
				from = t.get("d", "add.u64", "%s, %s", base, g.offset[i])
			} else {
				row := t.get("r", "add.u32", "%s, %s", begin, g.line[i])
				t.add("min.u32 %s, %s, %s", row, row, last)
				from = t.get("d", "mad.wide.u32", "%s, %d, %s", row, whole, base)
				t.add("mad.wide.u32 %s, %s, 1, %s", from, g.column[i], from)
			}
			to := t.get("r", "add.u32", "%s, %s", g.to[i], g.fill)
			if p > 0 {
				to = t.get("r", "add.u32", "%s, %d", to, p*packedRows*g.stride)
			}
			t.add("%scp.async.cg.shared.global [%s], [%s], 16", g.inside(i, chunks, along, whole), to, from)
		}
	}
	g.advance(g.fill)
	t.add("add.u32 %s, %s, 1", g.piece, g.piece)
	over := t.get("p", "setp.ge.u32", "%s, %d", g.piece, g.parts())
	t.add("@%s mov.u32 %s, 0", over, g.piece)
	t.add("@%s add.u32 %s, %s, %s", over, g.next, g.next, g.step)
	t.place(skip)
	t.add("cp.async.commit_group")
}

// inside returns the guard of the thread's copy i, or "" if it always exists.
func (g *packedVector) inside(i, chunks int, along string, whole int) string {
	t, in := g.text, ""
	if left := packedRows*chunks - i*vectorThreads; left < vectorThreads {
		in = t.get("p", "setp.lt.u32", "%s, %d", g.tid, left)
	}
	if g.k%g.values != 0 {
		column := t.get("r", "add.u32", "%s, %s", g.column[i], along)
		inside := t.reg("p")
		if in == "" {
			t.add("setp.lt.u32 %s, %s, %d", inside, column, whole)
		} else {
			t.add("setp.lt.and.u32 %s, %s, %d, %s", inside, column, whole, in)
		}
		in = inside
	}
	if in != "" {
		in = "@" + in + " "
	}
	return in
}

// storeTerms writes the terms of x. For 32 values and each term, there are four groups of 16 bytes, one for each
// quarter: values 0, 2, 1, 3 of four that begin at 4 times the quarter, and of those 16 values later.
func (g *packedVector) storeTerms() {
	t := g.text
	memory := t.get("r", "mov.u32", "memory")
	g.prepare(g.squaresAt(), func(quad string, x []string) {
		block := t.get("r", "shr.u32", "%s, 3", quad)
		within := t.get("r", "and.b32", "%s, 7", quad)
		at := t.get("r", "mad.lo.u32", "%s, %d, %s", block, packedTerms*64, memory)
		late := t.get("r", "shr.u32", "%s, 2", within)
		early := t.get("r", "and.b32", "%s, 3", within)
		t.add("mad.lo.u32 %s, %s, 16, %s", at, early, at)
		t.add("mad.lo.u32 %s, %s, 8, %s", at, late, at)
		terms := t.termsOf(x)
		for k := range packedTerms {
			low := t.get("r", "prmt.b32", "%s, %s, 0x7632", terms[0][k], terms[2][k])
			high := t.get("r", "prmt.b32", "%s, %s, 0x7632", terms[1][k], terms[3][k])
			t.add("st.shared.v2.u32 [%s+%d], {%s, %s}", at, g.termsAt()+64*k, low, high)
		}
		if g.decode.minima {
			sum := t.get("f", "add.f32", "%s, %s", x[0], x[1])
			other := t.get("f", "add.f32", "%s, %s", x[2], x[3])
			t.add("add.f32 %s, %s, %s", sum, sum, other)
			g.addLanes(sum, 4, 2, 1)
			first := t.get("p", "setp.eq.u32", "%s, 0", within)
			to := t.get("r", "mad.lo.u32", "%s, 4, %s", block, memory)
			t.add("@%s st.shared.f32 [%s+%d], %s", first, to, g.blockAt(), sum)
		}
	})
	t.add("bar.sync 0")
}

// termsOf returns three terms of each of four values, in the upper halves of words. The second is multiplied by
// secondFactor and the third by thirdFactor. If a value is not finite, they are 0.
func (t *text) termsOf(x []string) (terms [][]string) {
	size := t.get("f", "abs.f32", "%s", x[0])
	for _, r := range x[1:] {
		t.add("max.NaN.f32 %s, %s, %s", size, size, t.get("f", "abs.f32", "%s", r))
	}
	for _, r := range x {
		first := t.get("r", "and.b32", "%s, 0xffff0000", t.get("r", "mov.b32", "%s", r))
		term := []string{first}
		rest := t.get("f", "sub.rn.f32", "%s, %s", r, t.get("f", "mov.b32", "%s", first))
		for range packedTerms - 1 {
			t.add("mul.f32 %s, %s, %s", rest, rest, literal(secondFactor))
			next := t.get("r", "and.b32", "%s, 0xffff0000", t.get("r", "mov.b32", "%s", rest))
			term = append(term, next)
			rest = t.get("f", "sub.rn.f32", "%s, %s", rest, t.get("f", "mov.b32", "%s", next))
		}
		terms = append(terms, term)
	}
	finite := t.label()
	all := t.get("p", "setp.lt.f32", "%s, 0f7F800000", size)
	t.add("@%s bra %s", all, finite)
	for i, r := range x {
		bits := t.get("r", "and.b32", "%s, 0x7fffffff", t.get("r", "mov.b32", "%s", r))
		not := t.get("p", "setp.ge.u32", "%s, 0x7f800000", bits)
		nan := t.get("p", "setp.gt.u32", "%s, 0x7f800000", bits)
		t.add("@%s mov.u32 %s, 0x7fc00000", nan, terms[i][0])
		for _, term := range terms[i][1:] {
			t.add("@%s mov.u32 %s, 0", not, term)
		}
	}
	t.place(finite)
	return terms
}

// findTerms finds what the lane reads of the terms: the columns of mma.sync are the rows of lanes. Those of columns 6
// and 7 are not used.
func (g *packedVector) findTerms() {
	t := g.text
	second := t.get("p", "setp.ge.u32", "%s, %d", g.row, packedTerms)
	column := t.get("r", "rem.u32", "%s, %d", g.row, packedTerms)
	at := t.get("r", "mov.u32", "memory")
	t.add("mad.lo.u32 %s, %s, 64, %s", at, column, at)
	t.add("mad.lo.u32 %s, %s, 16, %s", at, g.quarter, at)
	t.add("@%s add.u32 %s, %s, %d", second, at, at, packedUnit/64*packedTerms*64)
	g.terms = t.get("r", "mad.lo.u32", "%s, %d, %s", g.warp, packedUnit/32*packedTerms*64, at)
}

// multiply multiplies what the warp has of a stage.
func (g *packedVector) multiply(part string) {
	t := g.text
	skip := ""
	if g.k%g.values != 0 || g.values < vectorWarps*packedUnit {
		unit := t.get("r", "mad.lo.u32", "%s, %d, %s", part, g.values/packedUnit, g.warp)
		none := t.get("p", "setp.ge.u32", "%s, %d", unit, g.k/packedUnit)
		if g.values < vectorWarps*packedUnit {
			none = t.get("p", "setp.ge.u32", "%s, %d", g.warp, g.values/packedUnit)
		}
		skip = t.label()
		t.add("@%s bra %s", none, skip)
	}
	terms := t.get("r", "mad.lo.u32", "%s, %d, %s", part, g.values/32*packedTerms*64, g.terms)
	from := t.get("r", "mov.u32", "memory")
	t.add("add.u32 %s, %s, %s", from, from, g.use)
	t.add("mad.lo.u32 %s, %s, %d, %s", from, g.row, g.stride, from)
	t.add("mad.lo.u32 %s, %s, %d, %s", from, g.warp, rowBytes(g.typ, packedUnit), from)
	sums := t.get("r", "mov.u32", "memory")
	t.add("mad.lo.u32 %s, %s, %d, %s", sums, part, g.values/32*4, sums)
	t.add("mad.lo.u32 %s, %s, %d, %s", sums, g.warp, packedUnit/32*4, sums)
	x := make([][]string, 4)
	for i := range x {
		x[i] = t.regs("r", 4)
		t.add("ld.shared.v4.u32 {%s}, [%s+%d]", strings.Join(x[i], ", "), terms, g.termsAt()+i*packedTerms*64)
	}
	u := unit{text: t, quarter: g.quarter, x: x, zero: t.get("f", "mov.f32", "0f00000000")}
	if g.decode.minima {
		for h := range 2 {
			u.sums[h] = t.regs("f", 4)
			t.add("ld.shared.v4.f32 {%s}, [%s+%d]", strings.Join(u.sums[h], ", "), sums, g.blockAt()+16*h)
		}
	}
	for p := range g.groups {
		at := from
		if p > 0 {
			at = t.get("r", "add.u32", "%s, %d", from, p*packedRows*g.stride)
		}
		u.acc, u.minima = g.acc[4*p:4*p+4], g.minima[2*p:2*p+2]
		g.decode.multiply(&u, at)
	}
	if skip != "" {
		t.place(skip)
	}
}

// reduce adds the sums of all terms and halves of the warp, and writes them to shared memory. The sums of tiles
// alternate between two places there, so that a block waits for its warps only once for each stage: while the first
// warp finishes a tile, the others multiply the next one.
func (g *packedVector) reduce() {
	t := g.text
	t.add("xor.b32 %s, %s, %d", g.flip, g.flip, g.sumsBytes())
	to := t.get("r", "mad.lo.u32", "%s, %d, %s", g.warp, 4*packedRows, g.flip)
	t.add("mad.lo.u32 %s, %s, 4, %s", to, g.row, to)
	q := make([]string, 3)
	for i := range q {
		q[i] = t.get("p", "setp.eq.u32", "%s, %d", g.quarter, i)
	}
	second, third := literal(1./secondFactor), literal(1./thirdFactor)
	for p := range g.groups {
		c := g.acc[4*p : 4*p+4]
		// quarter 0 has terms 0 and 1 of the first half, quarter 1 its term 2 and term 0 of the second half, which has
		// the next two in quarter 2
		v := t.get("f", "fma.rn.f32", "%s, %s, %s", c[1], second, c[0])
		w := t.get("f", "fma.rn.f32", "%s, %s, %s", c[0], third, c[3])
		z := t.get("f", "mul.f32", "%s, %s", c[3], third)
		t.add("fma.rn.f32 %s, %s, %s, %s", z, c[2], second, z)
		t.add("selp.f32 %s, %s, %s, %s", v, v, z, q[0])
		t.add("selp.f32 %s, %s, %s, %s", v, w, v, q[1])
		none := t.get("p", "setp.eq.u32", "%s, 3", g.quarter)
		t.add("selp.f32 %s, 0f00000000, %s, %s", v, v, none)
		g.addLanes(v, 1, 2)
		if g.decode.minima {
			t.add("sub.f32 %s, %s, %s", v, v, g.minima[2*p])
			t.add("sub.f32 %s, %s, %s", v, v, g.minima[2*p+1])
		}
		t.add("@%s st.shared.f32 [%s+%d], %s", q[0], to, g.sumsAt()+4*vectorWarps*packedRows*p, v)
	}
}

// finish adds the sums of all warps and writes the results of the last tile.
func (g *packedVector) finish(e epilogue) {
	t := g.text
	skip := t.label()
	t.add("@!%s bra %s", e.live, skip)
	at := t.get("r", "mad.lo.u32", "%s, 4, %s", g.tid, g.flip)
	if g.tileRows() > packedRows {
		group := t.get("r", "shr.u32", "%s, 3", g.tid)
		t.add("mad.lo.u32 %s, %s, %d, %s", at, group, 4*packedRows*(vectorWarps-1), at)
	}
	var sums []string
	for p := range 1 + btoi(g.gated) {
		var total string
		for w := range vectorWarps {
			r := t.get("f", "ld.shared.f32", "[%s+%d]", at, g.sumsAt()+4*packedRows*(vectorWarps*p+w))
			if total == "" {
				total = r
			} else {
				t.add("add.f32 %s, %s, %s", total, total, r)
			}
		}
		sums = append(sums, total)
	}
	g.write(e, sums)
	t.place(skip)
}
