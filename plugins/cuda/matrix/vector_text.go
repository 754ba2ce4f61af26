package matrix

import (
	"fmt"
	"math"
)

// vectorKernel is the state while the text of a vectorText is generated.
type vectorKernel struct {
	vectorText
	*text
	tid, lane, warp, block string

	// of a part
	part            vectorPart
	bases           []string // of the weights: of the block's product or, if gated, of both
	n               string   // number of rows
	tile, end, step string   // the block's next tile, the number of tiles, and the distance of its tiles
	bias, residual  []string
	y               string
}

func (x vectorText) text() string {
	g := &vectorKernel{vectorText: x, text: newText()}
	t := g.text
	g.tid, g.block = t.get("r", "mov.u32", "%%tid.x"), t.get("r", "mov.u32", "%%ctaid.x")
	y, w := t.get("r", "mov.u32", "%%ctaid.y"), t.get("r", "mov.u32", "%%nctaid.x")
	t.add("mad.lo.u32 %s, %s, %s, %s", g.block, y, w, g.block)
	past := t.get("p", "setp.ge.u32", "%s, %d", g.block, x.blocks())
	t.add("@%s ret", past)
	g.lane = t.get("r", "and.b32", "%s, 31", g.tid)
	g.warp = t.get("r", "shr.u32", "%s, 5", g.tid)
	if !x.Lasts {
		t.body.WriteString(Waits)
	}
	for k, p := range x.Parts {
		next := t.label()
		if k < len(x.Parts)-1 {
			other := t.get("p", "setp.ge.u32", "%s, %d", g.block, p.Begin[len(p.Begin)-1])
			t.add("@%s bra %s", other, next)
		}
		g.part = p
		g.choose()
		if decoders[p.Type] != nil {
			newPackedVector(g).generate()
		} else {
			newPlainVector(g).generate()
		}
		t.add("ret")
		t.place(next)
	}
	t.add("ret")
	blocks := vectorBlocks
	if x.Products[0].Type.IsPacked() {
		blocks = packedBlocks
	}
	return t.finish(entry{"sm_80", vectorThreads, x.shared(), len(x.Bindings) + 1, blocks})
}

// at returns the address of a binding.
func (g *vectorKernel) at(name string) string {
	i := g.Binding(name)
	skip := int64(0)
	if i < len(g.Skips) {
		skip = g.Skips[i]
	}
	return g.text.binding(i, skip)
}

// choose finds the product of the block and its first tile.
func (g *vectorKernel) choose() {
	t, p := g.text, g.part
	g.bases, g.bias, g.residual = nil, nil, nil
	of := func(i int) (regs []string) {
		product := g.Products[i]
		g.bases = append(g.bases, g.at(fmt.Sprint("b", i, "_")))
		if product.Bias {
			g.bias = append(g.bias, g.at(fmt.Sprint("bias", i, "_")))
		} else {
			g.bias = append(g.bias, "")
		}
		if product.Residual {
			g.residual = append(g.residual, g.at(fmt.Sprint("residual", i, "_")))
		} else {
			g.residual = append(g.residual, "")
		}
		return regs
	}
	if g.Gated {
		of(0)
		of(1)
		g.y = g.at("y0_")
		g.n, g.end = t.get("r", "mov.u32", "%d", g.Products[0].N), t.get("r", "mov.u32", "%d", p.Tiles[0])
		g.tile = t.get("r", "mov.u32", "%s", g.block)
		g.step = t.get("r", "mov.u32", "%d", p.Begin[1])
		return
	}
	begin := t.get("r", "mov.u32", "%d", p.Begin[0])
	for j, i := range p.Products {
		n, y := g.Products[i].N, g.at(fmt.Sprint("y", i, "_"))
		if j == 0 {
			of(i)
			g.y = y
			g.n, g.end = t.get("r", "mov.u32", "%d", n), t.get("r", "mov.u32", "%d", p.Tiles[0])
			g.step = t.get("r", "mov.u32", "%d", p.Begin[1]-p.Begin[0])
			continue
		}
		bases, bias, residual := g.bases, g.bias, g.residual
		g.bases, g.bias, g.residual = nil, nil, nil
		of(i)
		mine := t.get("p", "setp.ge.u32", "%s, %d", g.block, p.Begin[j])
		for _, list := range [][2][]string{{bases, g.bases}, {bias, g.bias}, {residual, g.residual}} {
			if list[0][0] != "" {
				t.add("@%s mov.b64 %s, %s", mine, list[0][0], list[1][0])
			}
		}
		g.bases, g.bias, g.residual = bases, bias, residual
		t.add("@%s mov.b64 %s, %s", mine, g.y, y)
		for _, c := range []struct {
			reg string
			to  int
		}{{g.n, n}, {g.end, p.Tiles[j]}, {g.step, p.Begin[j+1] - p.Begin[j]}, {begin, p.Begin[j]}} {
			t.add("@%s mov.u32 %s, %d", mine, c.reg, c.to)
		}
	}
	g.tile = t.get("r", "sub.u32", "%s, %s", g.block, begin)
}

// waits places the wait for the kernel before, unless the text begins with it.
func (g *vectorKernel) waits() {
	if g.Lasts {
		g.text.body.WriteString(Waits)
	}
}

// quads is the number of vectors of four of x that a thread prepares.
func (g *vectorKernel) quads() int { return ceilDiv(g.K/4, vectorThreads) }

// prepare reads x, normalises it if that is wanted, and calls store for each vector of four with its number. sums is
// the address of 32 bytes of shared memory. The threads of a warp call store together.
func (g *vectorKernel) prepare(sums int, store func(quad string, x []string)) {
	t, n := g.text, g.quads()
	whole := g.K/4%vectorThreads == 0
	quad, live, offset := make([]string, n), make([]string, n), make([]string, n)
	xs, gammas, betas := make([][]string, n), make([][]string, n), make([][]string, n)
	for i := range n {
		quad[i] = t.get("r", "add.u32", "%s, %d", g.tid, i*vectorThreads)
		if i == n-1 && !whole {
			live[i] = t.get("p", "setp.lt.u32", "%s, %d", quad[i], g.K/4)
		}
		offset[i] = t.get("r", "shl.b32", "%s, 4", quad[i])
	}
	load := func(base string, i int) []string {
		at := t.get("d", "mad.wide.u32", "%s, 1, %s", offset[i], base)
		out := t.regs("f", 4)
		guard := ""
		if live[i] != "" {
			guard = "@" + live[i] + " "
			for _, r := range out {
				t.add("mov.f32 %s, 0f00000000", r)
			}
		}
		t.add("%sld.global.v4.f32 {%s, %s, %s, %s}, [%s]", guard, out[0], out[1], out[2], out[3], at)
		return out
	}
	if g.Norm {
		gamma, beta := g.at("gamma"), g.at("beta")
		for i := range n {
			gammas[i], betas[i] = load(gamma, i), load(beta, i)
		}
	}
	a := g.at("a")
	g.waits()
	for i := range n {
		xs[i] = load(a, i)
	}
	if g.Norm {
		scale := g.scale(sums, xs)
		for i := range n {
			for k := range 4 {
				t.add("mul.f32 %s, %s, %s", xs[i][k], xs[i][k], scale)
				t.add("fma.rn.f32 %s, %s, %s, %s", xs[i][k], xs[i][k], gammas[i][k], betas[i][k])
			}
		}
	}
	for i := range n {
		skip := ""
		if live[i] != "" {
			skip = t.label()
			t.add("@!%s bra %s", live[i], skip)
		}
		store(quad[i], xs[i])
		if skip != "" {
			t.place(skip)
		}
	}
}

// scale returns 1 / sqrt(mean(x^2) + eps).
func (g *vectorKernel) scale(sums int, xs [][]string) string {
	t := g.text
	sum := t.get("f", "mov.f32", "0f00000000")
	for _, x := range xs {
		for _, r := range x {
			t.add("fma.rn.f32 %s, %s, %s, %s", sum, r, r, sum)
		}
	}
	g.addLanes(sum, 16, 8, 4, 2, 1)
	at := t.get("r", "mov.u32", "memory")
	g.sharedByWarp(sum, at, sums)
	t.add("bar.sync 0")
	var total string
	for i := range 2 {
		r := t.regs("f", 4)
		t.add("ld.shared.v4.f32 {%s, %s, %s, %s}, [%s+%d]", r[0], r[1], r[2], r[3], at, sums+16*i)
		for _, v := range r {
			if total == "" {
				total = t.get("f", "mov.f32", "%s", v)
			} else {
				t.add("add.f32 %s, %s, %s", total, total, v)
			}
		}
	}
	t.add("div.rn.f32 %s, %s, %s", total, total, literal(float32(g.K)))
	t.add("add.f32 %s, %s, %s", total, total, literal(g.Eps))
	t.add("sqrt.rn.f32 %s, %s", total, total)
	return t.get("f", "rcp.rn.f32", "%s", total)
}

// sharedByWarp writes a value of each warp's first lane to shared memory, four bytes for each warp.
func (g *vectorKernel) sharedByWarp(value, base string, at int) {
	t := g.text
	first := t.get("p", "setp.eq.u32", "%s, 0", g.lane)
	to := t.get("r", "mad.lo.u32", "%s, 4, %s", g.warp, base)
	t.add("@%s st.shared.f32 [%s+%d], %s", first, to, at, value)
}

// addLanes adds the values of the lanes whose numbers differ in some bits.
func (g *vectorKernel) addLanes(value string, bits ...int) {
	t := g.text
	for _, b := range bits {
		other := t.get("f", "shfl.sync.bfly.b32", "%s, %d, 31, 0xffffffff", value, b)
		t.add("add.f32 %s, %s, %s", value, value, other)
	}
}

func literal(f float32) string { return fmt.Sprintf("0f%08X", math.Float32bits(f)) }

// epilogue are registers of the threads that write results: what is added to the sums of their row.
type epilogue struct {
	rows           int    // of a tile, in as many threads
	live           string // whether the thread writes a result
	row            string
	bias, residual []string
}

// newEpilogue makes the registers.
func (g *vectorKernel) newEpilogue(rows int) (e epilogue) {
	t := g.text
	e.rows, e.row, e.live = rows, t.get("r", "mov.u32", "0"), t.get("p", "setp.lt.u32", "%s, 0", g.tid)
	for i, base := range g.bias {
		for _, to := range []struct {
			list *[]string
			base string
		}{{&e.bias, base}, {&e.residual, g.residual[i]}} {
			r := ""
			if to.base != "" {
				r = t.get("f", "mov.f32", "0f00000000")
			}
			*to.list = append(*to.list, r)
		}
	}
	return e
}

// begin loads what is added to the sums of a tile.
func (g *vectorKernel) begin(e epilogue) {
	t := g.text
	skip := t.label()
	others := t.get("p", "setp.ge.u32", "%s, %d", g.tid, e.rows)
	t.add("@%s bra %s", others, skip)
	t.add("mad.lo.u32 %s, %s, %d, %s", e.row, g.tile, e.rows, g.tid)
	t.add("setp.lt.u32 %s, %s, %s", e.live, e.row, g.n)
	for i := range e.bias {
		for _, from := range [][2]string{{e.bias[i], g.bias[i]}, {e.residual[i], g.residual[i]}} {
			if from[0] != "" {
				at := t.get("d", "mad.wide.u32", "%s, 4, %s", e.row, from[1])
				t.add("@%s ld.global.f32 %s, [%s]", e.live, from[0], at)
			}
		}
	}
	t.place(skip)
}

// write writes the result of a row. sums are the sums of the product or, if gated, of both.
func (g *vectorKernel) write(e epilogue, sums []string) {
	t := g.text
	for i, s := range sums {
		p := g.Products[g.part.Products[0]]
		if g.Gated {
			p = g.Products[i]
		}
		if e.bias[i] != "" {
			t.add("add.f32 %s, %s, %s", s, s, e.bias[i])
		}
		activation(p.Act)(t, s)
		if e.residual[i] != "" {
			t.add("add.f32 %s, %s, %s", s, s, e.residual[i])
		}
	}
	y := sums[0]
	if len(sums) == 2 {
		y = t.get("f", "mul.f32", "%s, %s", sums[0], sums[1])
	}
	at := t.get("d", "mad.wide.u32", "%s, 4, %s", e.row, g.y)
	t.add("@%s st.global.f32 [%s], %s", e.live, at, y)
}
