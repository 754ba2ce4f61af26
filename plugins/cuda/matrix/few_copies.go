package matrix

import (
	"fmt"
	"strings"
)

// This file has the part of fewKernel that copies weights and x to shared memory, and what is made of x there.

// prepare finds what the thread copies of each chunk.
func (g *fewKernel) prepare() {
	t := g.text
	units := g.bytes() / 16 // of a row
	last := t.get("r", "sub.u32", "%s, 1", g.p["n"])
	for i := 0; i < g.Rows*units; i += fewThreads {
		c := t.get("r", "add.u32", "%s, %d", g.tid, i)
		guard := ""
		if left := g.Rows*units - i; left < fewThreads {
			guard = t.get("p", "setp.lt.u32", "%s, %d", g.tid, left)
		}
		g.guards = append(g.guards, guard)
		row, column := t.get("r", "div.u32", "%s, %d", c, units), t.get("r", "rem.u32", "%s, %d", c, units)
		t.add("shl.b32 %s, %s, 4", column, column)
		g.to = append(g.to, t.get("r", "mad.lo.u32", "%s, %d, %s", row, g.stride(), column))
		t.add("add.u32 %s, %s, %s", row, row, g.row)
		t.add("min.u32 %s, %s, %s", row, row, last) // rows past the end are computed and not written
		g.from = append(g.from, t.get("r", "mad.lo.u32", "%s, %s, %s", row, g.p["row"], column))
	}
	t.add("mad.wide.u32 %s, %s, 16, %s", g.a, g.p["a_at"], g.a)
	g.prepareX()
	g.chunk = t.get("r", "mul.lo.u32", "%s, %s", g.part, g.p["chunks"])
	g.ends = t.get("r", "add.u32", "%s, %s", g.chunk, g.p["chunks"])
	g.fill, g.use = t.get("r", "mov.u32", "0"), t.get("r", "mov.u32", "0")
}

// prepareX finds what the thread copies of x: 16 bytes at a time.
func (g *fewKernel) prepareX() {
	t := g.text
	each, lines, size := g.Depth/8, g.Columns, 2*g.Terms
	if g.Wide {
		each, lines, size = g.Depth/4, g.texts(), 4
	}
	width := t.get("r", "mul.lo.u32", "%s, %d", g.p["k"], size)
	last := t.get("r", "sub.u32", "%s, 1", g.p["m"])
	for i := 0; i < lines*each; i += fewThreads {
		guard := ""
		if left := lines*each - i; left < fewThreads {
			guard = t.get("p", "setp.lt.u32", "%s, %d", g.tid, left)
		}
		g.xGuards = append(g.xGuards, guard)
		c := t.get("r", "add.u32", "%s, %d", g.tid, i)
		row, unit := t.get("r", "div.u32", "%s, %d", c, each), t.get("r", "rem.u32", "%s, %d", c, each)
		if g.Wide {
			g.xTo = append(g.xTo, t.get("r", "mul.lo.u32", "%s, 16", c))
		} else {
			to := t.get("r", "mul.lo.u32", "%s, %d", row, g.xStride())
			g.xTo = append(g.xTo, t.get("r", "mad.lo.u32", "%s, 16, %s", unit, to))
		}
		t.add("min.u32 %s, %s, %s", row, row, last)
		at := t.get("r", "mul.lo.u32", "%s, 16", unit)
		g.xFrom = append(g.xFrom, t.get("r", "mad.lo.u32", "%s, %s, %s", row, width, at))
	}
}

// copyWeights begins to copy the weights of a chunk to a stage, if there is such a chunk.
func (g *fewKernel) copyWeights(chunk, stage string) {
	t := g.text
	more := t.get("p", "setp.lt.u32", "%s, %s", chunk, g.ends)
	at := t.get("r", "mul.lo.u32", "%s, %d", chunk, rowBytes(g.Weights, g.Depth))
	if rowBytes(g.Weights, g.Depth)%16 != 0 {
		t.add("and.b32 %s, %s, 0xfffffff0", at, at)
	}
	base := t.get("d", "mad.wide.u32", "%s, 1, %s", at, g.b)
	to := t.get("r", "add.u32", "%s, %s", g.memory, stage)
	for i, from := range g.from {
		guard := more
		if g.guards[i] != "" {
			guard = t.get("p", "and.pred", "%s, %s", more, g.guards[i])
		}
		t.add("@%s cp.async.cg.shared.global [%s], [%s], 16", guard, t.get("r", "add.u32", "%s, %s", to, g.to[i]),
			t.get("d", "mad.wide.u32", "%s, 1, %s", from, base))
	}
}

// copyX is copyWeights for x.
func (g *fewKernel) copyX(chunk, stage string) {
	t := g.text
	more, size := t.get("p", "setp.lt.u32", "%s, %s", chunk, g.ends), 2*g.Terms
	if g.Wide {
		size = 4
	}
	base := t.get("d", "mad.wide.u32", "%s, %d, %s", chunk, g.Depth*size, g.a)
	to := t.get("r", "add.u32", "%s, %s", g.memory, stage)
	for i, from := range g.xFrom {
		guard := more
		if g.xGuards[i] != "" {
			guard = t.get("p", "and.pred", "%s, %s", more, g.xGuards[i])
		}
		at := t.get("r", "add.u32", "%s, %s", to, g.xTo[i])
		t.add("@%s cp.async.cg.shared.global [%s+%d], [%s], 16", guard, at, g.Rows*g.stride(),
			t.get("d", "mad.wide.u32", "%s, 1, %s", from, base))
	}
	t.add("cp.async.commit_group")
}

// makeX writes the chunk's values of x in 16 bits, in terms or rounded.
func (g *fewKernel) makeX() {
	t := g.text
	all := g.texts() * g.Depth / 4
	from := t.get("r", "add.u32", "%s, %s", g.memory, g.use)
	for i := 0; i < all; i += fewThreads {
		c := t.get("r", "add.u32", "%s, %d", g.tid, i)
		skip := ""
		if all-i < fewThreads {
			skip = t.label()
			none := t.get("p", "setp.ge.u32", "%s, %d", c, all)
			t.add("@%s bra %s", none, skip)
		}
		x := t.regs("f", 4)
		t.add("ld.shared.v4.f32 {%s}, [%s+%d]", strings.Join(x, ", "), t.get("r", "mad.lo.u32", "%s, 16, %s", c, from),
			g.Rows*g.stride())
		row, four := t.get("r", "div.u32", "%s, %d", c, g.Depth/4), t.get("r", "rem.u32", "%s, %d", c, g.Depth/4)
		to := t.get("r", "mad.lo.u32", "%s, %d, %s", row, g.xStride(), g.memory)
		t.add("mad.lo.u32 %s, %s, 8, %s", to, four, to)
		if g.Terms == 1 {
			var two [2]string
			for k := range two {
				two[k] = t.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", g.Type), "%s, %s", x[2*k+1], x[2*k])
			}
			t.add("st.shared.v2.u32 [%s+%d], {%s, %s}", to, g.madeAt(), two[0], two[1])
		} else {
			terms := t.termsOf(x)
			for k := range g.Terms {
				low := t.get("r", "prmt.b32", "%s, %s, 0x7632", terms[0][k], terms[1][k])
				high := t.get("r", "prmt.b32", "%s, %s, 0x7632", terms[2][k], terms[3][k])
				t.add("st.shared.v2.u32 [%s+%d], {%s, %s}", to, g.madeAt()+k*mostTerms*g.xStride(), low, high)
			}
		}
		if skip != "" {
			t.place(skip)
		}
	}
	t.add("bar.sync 0")
}

// x returns the address of the chunk's x in 16 bits, as a register and an offset.
func (g *fewKernel) x() (at string, offset int) {
	if g.Wide {
		return g.memory, g.madeAt()
	}
	return g.text.get("r", "add.u32", "%s, %s", g.memory, g.use), g.Rows * g.stride()
}

// sumX adds x of each 32 values of the chunk and each row.
func (g *fewKernel) sumX() {
	t, all := g.text, g.Depth/32*g.texts()
	x, offset := g.x()
	for i := 0; i < all; i += fewThreads {
		skip := ""
		if all-i < fewThreads {
			skip = t.label()
			none := t.get("p", "setp.ge.u32", "%s, %d", g.tid, all-i)
			t.add("@%s bra %s", none, skip)
		}
		c := t.get("r", "add.u32", "%s, %d", g.tid, i)
		row, block := t.get("r", "rem.u32", "%s, %d", c, g.texts()), t.get("r", "div.u32", "%s, %d", c, g.texts())
		at := t.get("r", "mad.lo.u32", "%s, %d, %s", row, g.xStride(), x)
		t.add("mad.lo.u32 %s, %s, 64, %s", at, block, at)
		total := ""
		for term := g.Terms - 1; term >= 0; term-- {
			sum := t.get("f", "mov.f32", "0f00000000")
			for k := range 4 {
				r := t.regs("r", 4)
				t.add("ld.shared.v4.u32 {%s}, [%s+%d]", strings.Join(r, ", "), at,
					offset+term*mostTerms*g.xStride()+16*k)
				for _, w := range r {
					for _, v := range t.halvesOf(w, g.Type) {
						t.add("add.rn.f32 %s, %s, %s", sum, sum, v)
					}
				}
			}
			if total == "" {
				total = sum
			} else {
				total = t.get("f", "fma.rn.f32", "%s, %s, %s", total, literal(1./secondFactor), sum)
			}
		}
		t.add("mad.lo.u32 %s, %s, 4, %s", c, c, g.memory)
		t.add("st.shared.f32 [%s+%d], %s", c, g.sumsAt(), total)
		if skip != "" {
			t.place(skip)
		}
	}
	t.add("bar.sync 0")
}
