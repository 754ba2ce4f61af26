package matrix

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// fewText generates the kernel of a product of few rows. A block computes a tile of rows of weights, and all rows of x.
// It copies chunks of Depth values along K to shared memory. A warp multiplies fewRowsOfWarp rows by one or more runs
// of 64 values of each chunk; the sums of the warps that share rows are added at the end. Weights without their scales
// are integers, which both types of 16 bits have. mma.sync sums 16 or 32 products, and the scales are applied in f32.
type fewText struct {
	Weights        dtype.DType
	Type           dtype.DType // of x, in rows along K
	Terms          int         // of each value of x: see terms.wgsl
	Wide           bool        // x is in f32, and each block makes the terms, or rounds it
	Columns        int         // rows of x, or rows times terms
	Rows           int         // of weights in a tile
	Depth          int         // values along K of a chunk
	Stages         int
	Act            string
	Bias, Residual bool
	Pairs          bool // the number of rows of weights is even
	Rounded, Only  bool // as in productText
	Lasts          bool // weights can be read before earlier steps end
	Skips          []int64
}

// fewFields are the words of its parameters. x and the result begin at multiples of 16 bytes.
var fewFields = []string{"groups", "m", "n", "k", "row", "chunks", "tiles", "a_at", "y_at"}

const (
	fewThreads    = 512
	fewWarps      = fewThreads / warpSize
	fewDepth      = 256 // values along K of a chunk, if tiles have no fewer rows than leastFewTile
	fewRun        = 64  // values along K that a warp multiplies at a time
	fewRowsOfWarp = 16
	leastFewTile  = 64 // rows of weights of a tile
	fewStages     = 4
)

// bytes is what is copied of a row of weights: those of a chunk, from the multiple of 16 bytes before them.
func (x fewText) bytes() int { return (rowBytes(x.Weights, x.Depth) + 15) / 16 * 16 }

// stride is the distance of rows of weights in shared memory. They begin 4 banks apart, or 8 if 8 bytes are read.
func (x fewText) stride() int {
	want := 16
	if !x.Weights.IsPacked() {
		want = 32
	}
	return x.bytes() + (want-x.bytes()%128+128)%128
}

// xStride is the distance of rows of x in shared memory. They begin 8 banks apart, so that half a warp reads four rows
// at once.
func (x fewText) xStride() int { return 2*x.Depth + 32 }

func (x fewText) stage() int {
	if x.Wide {
		return x.Rows*x.stride() + 4*x.texts()*x.Depth
	}
	return x.Rows*x.stride() + x.Columns*x.xStride()
}

// texts is the number of rows of x.
func (x fewText) texts() int { return x.Columns / max(1, x.Terms) }

// madeAt is where x begins in 16 bits if it is Wide, and sumsAt where its sums begin, of each 32 values and row.
func (x fewText) madeAt() int { return x.Stages * x.stage() }

func (x fewText) sumsAt() int {
	if x.Wide {
		return x.madeAt() + x.Columns*x.xStride()
	}
	return x.madeAt()
}

// padded is the distance of the results of rows of x in shared memory.
func (x fewText) padded() int { return x.Rows + 4 }

// shares is the number of warps that share rows of weights.
func (x fewText) shares() int { return fewWarps * fewRowsOfWarp / x.Rows }

func (x fewText) shared() int {
	n := x.sumsAt()
	if d := fewDecoders[x.Weights]; d != nil && d.minima {
		n += x.Depth / 32 * 4 * x.texts()
	}
	return max(n, 4*x.shares()*x.texts()*x.padded())
}

// withStages chooses the number of stages, at least two.
func (x fewText) withStages(d Device) fewText {
	for x.Stages = fewStages; x.Stages > 2 && x.shared() > d.Shared; x.Stages-- {
	}
	return x
}

// fewKernel is the state while a fewText is generated.
type fewKernel struct {
	fewText
	*text
	decode           *fewDecoder
	p                map[string]string
	a, b, bias, plus string
	y, z             string
	tid, lane, warp  string
	octet, quarter   string // of the lane: lane / 4 and lane % 4
	row, part        string // first row of the tile, part of K
	slice, share     string // of the warp: its rows, and which of the runs of a chunk it has
	memory           string
	from, to         []string // of the thread's copies of weights: offset in the tile, and in a stage
	xFrom, xTo       []string // likewise of x
	chunk, fill, use string   // next chunk to copy; stages
	ends             string   // number of chunks
	acc              [][]string
	zero             string
	guards, xGuards  []string // of the copies that some threads do not make
}

func (x fewText) text() string {
	g := &fewKernel{fewText: x, text: newText(), decode: fewDecoders[x.Weights]}
	t := g.text
	bindings := 4 + btoi(x.Bias) + btoi(x.Residual) + btoi(x.Rounded)
	next := 0
	bind := func() string {
		skip := int64(0)
		if next < len(x.Skips) {
			skip = x.Skips[next]
		}
		next++
		return t.binding(next-1, skip)
	}
	g.a, g.b = bind(), bind()
	if x.Bias {
		g.bias = bind()
	}
	if x.Residual {
		g.plus = bind()
	}
	g.y = bind()
	if x.Rounded {
		g.z = bind()
	}
	g.p = t.words(bind(), fewFields)
	g.place()
	g.prepare()
	g.sum()
	g.finish()
	t.add("ret")
	return t.finish(entry{"sm_80", fewThreads, x.shared(), bindings, 1})
}

// place finds the tile of the block, and what the warp does.
func (g *fewKernel) place() {
	t := g.text
	g.tid = t.get("r", "mov.u32", "%%tid.x")
	x, y := t.get("r", "mov.u32", "%%ctaid.x"), t.get("r", "mov.u32", "%%ctaid.y")
	w := t.get("r", "mov.u32", "%%nctaid.x")
	id := t.get("r", "mad.lo.u32", "%s, %s, %s", y, w, x)
	past := t.get("p", "setp.ge.u32", "%s, %s", id, g.p["groups"])
	t.add("@%s ret", past)
	g.part = t.get("r", "div.u32", "%s, %s", id, g.p["tiles"])
	tile := t.get("r", "rem.u32", "%s, %s", id, g.p["tiles"])
	g.row = t.get("r", "mul.lo.u32", "%s, %d", tile, g.Rows)
	g.lane, g.warp = t.get("r", "and.b32", "%s, 31", g.tid), t.get("r", "shr.u32", "%s, 5", g.tid)
	g.octet, g.quarter = t.get("r", "shr.u32", "%s, 2", g.lane), t.get("r", "and.b32", "%s, 3", g.lane)
	slices := g.Rows / fewRowsOfWarp
	g.slice = t.get("r", "and.b32", "%s, %d", g.warp, slices-1)
	g.share = t.get("r", "div.u32", "%s, %d", g.warp, slices)
	g.memory = t.get("r", "mov.u32", "memory")
	g.zero = t.get("f", "mov.f32", "0f00000000")
}

// advance moves the offset of a stage to the next one.
func (g *fewKernel) advance(stage string) {
	t := g.text
	t.add("add.u32 %s, %s, %d", stage, stage, g.stage())
	last := t.get("p", "setp.ge.u32", "%s, %d", stage, g.Stages*g.stage())
	t.add("@%s mov.u32 %s, 0", last, stage)
}

// sum computes the sums of the warp.
func (g *fewKernel) sum() {
	t := g.text
	if !g.Lasts {
		t.body.WriteString(Waits)
	}
	first := make([]string, g.Stages-1)
	for i := range first {
		first[i] = t.get("r", "add.u32", "%s, %d", g.chunk, i)
		g.copyWeights(first[i], t.get("r", "mov.u32", "%d", i*g.stage()))
	}
	if g.Lasts {
		t.body.WriteString(Waits)
	}
	for i := range first {
		g.copyX(first[i], t.get("r", "mov.u32", "%d", i*g.stage()))
	}
	next := t.get("r", "add.u32", "%s, %d", g.chunk, g.Stages-1)
	t.add("mov.u32 %s, %d", g.fill, (g.Stages-1)*g.stage())
	for range g.Columns / 8 {
		r := t.regs("f", 4)
		for _, v := range r {
			t.add("mov.f32 %s, 0f00000000", v)
		}
		g.acc = append(g.acc, r)
	}
	again, end := t.label(), t.label()
	t.place(again)
	over := t.get("p", "setp.ge.u32", "%s, %s", g.chunk, g.ends)
	t.add("@%s bra %s", over, end)
	t.add("cp.async.wait_group %d", g.Stages-2)
	t.add("bar.sync 0")
	if g.Wide {
		g.makeX()
	}
	if g.decode != nil && g.decode.minima {
		g.sumX()
	}
	g.multiply()
	// copies after this, so that loads from shared memory do not wait behind them
	g.copyWeights(next, g.fill)
	g.copyX(next, g.fill)
	g.advance(g.fill)
	t.add("add.u32 %s, %s, 1", next, next)
	g.advance(g.use)
	t.add("add.u32 %s, %s, 1", g.chunk, g.chunk)
	t.add("bra %s", again)
	t.place(end)
	t.add("cp.async.wait_all")
	t.add("bar.sync 0")
}

// halvesOf returns the two values of 16 bits of a word as f32.
func (t *text) halvesOf(word string, typ dtype.DType) [2]string {
	if typ == dtype.BF16 {
		return [2]string{t.get("f", "mov.b32", "%s", t.get("r", "shl.b32", "%s, 16", word)),
			t.get("f", "mov.b32", "%s", t.get("r", "and.b32", "%s, 0xffff0000", word))}
	}
	h := t.regs("h", 2)
	t.add("mov.b32 {%s, %s}, %s", h[0], h[1], word)
	return [2]string{t.get("f", "cvt.f32.f16", "%s", h[0]), t.get("f", "cvt.f32.f16", "%s", h[1])}
}

// multiply multiplies the warp's runs of a chunk.
func (g *fewKernel) multiply() {
	t := g.text
	stage := t.get("r", "add.u32", "%s, %s", g.memory, g.use)
	line := t.get("r", "mad.lo.u32", "%s, %d, %s", g.slice, fewRowsOfWarp, g.octet)
	rows := t.get("r", "mad.lo.u32", "%s, %d, %s", line, g.stride(), stage)
	if size := rowBytes(g.Weights, g.Depth); size%16 != 0 {
		skip := t.get("r", "mul.lo.u32", "%s, %d", g.chunk, size)
		t.add("and.b32 %s, %s, 15", skip, skip)
		t.add("add.u32 %s, %s, %s", rows, rows, skip)
	}
	x, offset := g.x()
	x = t.get("r", "mad.lo.u32", "%s, %d, %s", g.octet, g.xStride(), x)
	t.add("mad.lo.u32 %s, %s, 8, %s", x, g.quarter, x)
	each := g.Depth / fewRun / g.shares()
	for i := range each {
		run := t.get("r", "mad.lo.u32", "%s, %d, %d", g.share, each, i)
		g.multiplyRun(run, rows, t.get("r", "mad.lo.u32", "%s, %d, %s", run, 2*fewRun, x), offset)
	}
}

// multiplyRun multiplies 64 values of the warp's rows. rows is the address of the lane's first row, and x and an offset
// that of its values of x.
func (g *fewKernel) multiplyRun(run, rows, x string, offset int) {
	t, within := g.text, run
	if size := g.Weights.Values(); size > fewRun && g.Depth > size { // blocks of several runs
		block := t.get("r", "div.u32", "%s, %d", run, size/fewRun)
		within = t.get("r", "rem.u32", "%s, %d", run, size/fewRun)
		rows = t.get("r", "mad.lo.u32", "%s, %d, %s", block, g.Weights.Size(), rows)
	}
	var w [2]fewWeights // of the rows lane / 4, and those 8 later
	for o := range w {
		if g.decode == nil {
			w[o] = g.plain(within, rows, 8*o*g.stride())
		} else {
			w[o] = g.decode.read(&fewUnit{g, within, rows, 8 * o * g.stride()})
		}
	}
	sums := ""
	if g.decode != nil && g.decode.minima {
		sums = t.get("r", "mad.lo.u32", "%s, %d, %s", run, 2*4*g.texts(), g.memory)
		t.add("mad.lo.u32 %s, %s, 8, %s", sums, g.quarter, sums)
	}
	for b := range 2 {
		for j := range g.Columns / 8 {
			at := offset + j*8*g.xStride() + 64*b
			var right [2][]string
			for s := range right {
				right[s] = t.regs("r", 2)
				t.add("ld.shared.v2.u32 {%s, %s}, [%s+%d]", right[s][0], right[s][1], x, at+32*s)
			}
			g.multiplyTile(w[0], w[1], b, g.acc[j], right)
			if sums == "" || j >= g.texts()/8 {
				continue
			}
			of := t.regs("f", 2)
			t.add("ld.shared.v2.f32 {%s, %s}, [%s+%d]", of[0], of[1], sums, g.sumsAt()+4*(b*g.texts()+8*j))
			for k, v := range g.acc[j] {
				t.add("fma.rn.f32 %s, %s, %s, %s", v, w[k/2].minima[b], of[k%2], v)
			}
		}
	}
}

// multiplyTile adds the products of 32 values of 16 rows of weights and 8 rows of x. first are the upper eight rows.
func (g *fewKernel) multiplyTile(first, second fewWeights, b int, acc []string, right [2][]string) {
	t := g.text
	var c []string
	for s := range 2 {
		v, w := first.values[b][s], second.values[b][s]
		left := []string{v[0], w[0], v[1], w[1]}
		if g.decode == nil {
			t.mma(g.Type, acc, left, right[s])
			continue
		}
		if s == 0 || g.decode.each == 16 {
			c = t.regs("f", 4)
			from := strings.Join([]string{g.zero, g.zero, g.zero, g.zero}, ", ")
			t.add("mma.sync.aligned.m16n8k16.row.col.f32.%[1]v.%[1]v.f32 {%[2]s}, {%[3]s}, {%[4]s}, {%[5]s}", g.Type,
				strings.Join(c, ", "), strings.Join(left, ", "), strings.Join(right[s], ", "), from)
		} else {
			t.mma(g.Type, c, left, right[s])
		}
		if s == 1 || g.decode.each == 16 {
			for k, v := range acc {
				scale := first.scales[b][s]
				if k >= 2 {
					scale = second.scales[b][s]
				}
				t.add("fma.rn.f32 %s, %s, %s, %s", v, c[k], scale, v)
			}
		}
	}
}

// finish adds the sums of the warps and writes the results.
func (g *fewKernel) finish() {
	t := g.text
	if g.Terms > 1 { // columns 8 apart are terms
		for k, v := range g.acc[0] {
			total := g.acc[g.Terms-1][k]
			for term := g.Terms - 2; term >= 0; term-- {
				total = t.get("f", "fma.rn.f32", "%s, %s, %s", total, literal(1./secondFactor), g.acc[term][k])
			}
			t.add("mov.f32 %s, %s", v, total)
		}
	}
	at := t.get("r", "mad.lo.u32", "%s, %d, %s", g.slice, fewRowsOfWarp, g.octet)
	column := t.get("r", "mul.lo.u32", "%s, 2", g.quarter)
	t.add("mad.lo.u32 %s, %s, %d, %s", column, g.share, g.texts(), column)
	t.add("mad.lo.u32 %s, %s, %d, %s", at, column, g.padded(), at)
	t.add("mad.lo.u32 %s, %s, 4, %s", at, at, g.memory)
	for j := range g.texts() / 8 {
		for k, v := range g.acc[j] {
			t.add("st.shared.f32 [%s+%d], %s", at, 4*(8*(k/2)+(8*j+k%2)*g.padded()), v)
		}
	}
	t.add("bar.sync 0")
	g.write()
}

// write writes the results. A thread has those of two rows of weights and of evenly spaced rows of x.
func (g *fewKernel) write() {
	t := g.text
	pairs := g.Rows / 2
	pair, text := t.get("r", "and.b32", "%s, %d", g.tid, pairs-1), t.get("r", "div.u32", "%s, %d", g.tid, pairs)
	from := t.get("r", "mad.lo.u32", "%s, %d, 0", text, 4*g.padded())
	t.add("mad.lo.u32 %s, %s, 8, %s", from, pair, from)
	t.add("add.u32 %s, %s, %s", from, from, g.memory)
	row := t.get("r", "mad.lo.u32", "%s, 2, %s", pair, g.row)
	in := []string{t.get("p", "setp.lt.u32", "%s, %s", row, g.p["n"])}
	after := t.get("r", "add.u32", "%s, 1", row)
	in = append(in, t.get("p", "setp.lt.u32", "%s, %s", after, g.p["n"]))
	var bias []string
	if g.Bias {
		base := t.get("d", "mad.wide.u32", "%s, 4, %s", row, g.bias)
		for e := range 2 {
			bias = append(bias, t.get("f", "mov.f32", "0f00000000"))
			t.add("@%s ld.global.nc.f32 %s, [%s+%d]", in[e], bias[e], base, 4*e)
		}
	}
	// the row of x, counted from the first of the part
	line := t.get("r", "mad.lo.u32", "%s, %s, %s", g.part, g.p["m"], text)
	wide := t.get("d", "mul.wide.u32", "%s, %s", line, g.p["n"])
	t.add("add.u64 %s, %s, %s", wide, wide, t.get("d", "cvt.u64.u32", "%s", row))
	t.add("shl.b64 %s, %s, 2", wide, wide)
	step := t.get("d", "mul.wide.u32", "%s, %d", g.p["n"], 4*fewThreads/pairs)
	t.add("mad.wide.u32 %s, %s, 16, %s", g.y, g.p["y_at"], g.y)
	done := t.label()
	for i := 0; i < g.texts(); i += fewThreads / pairs {
		past := t.get("p", "setp.ge.u32", "%s, %s", text, g.p["m"])
		t.add("@%s bra %s", past, done)
		var sums []string
		for s := range g.shares() {
			r := t.regs("f", 2)
			t.add("ld.shared.v2.f32 {%s, %s}, [%s+%d]", r[0], r[1], from, 4*(s*g.texts()+i)*g.padded())
			if sums == nil {
				sums = r
				continue
			}
			for e := range 2 {
				t.add("add.rn.f32 %s, %s, %s", sums[e], sums[e], r[e])
			}
		}
		g.writePair(sums, bias, in, wide)
		t.add("add.u64 %s, %s, %s", wide, wide, step)
		t.add("add.u32 %s, %s, %d", text, text, fewThreads/pairs)
	}
	t.place(done)
}

// writePair finishes and writes two results. at is their offset in bytes.
func (g *fewKernel) writePair(sums, bias, in []string, at string) {
	t := g.text
	for e, v := range sums {
		if g.Bias {
			t.add("add.rn.f32 %s, %s, %s", v, v, bias[e])
		}
		activation(g.Act)(t, v)
	}
	access := func(memory, pair, single string, regs []string) {
		to := t.get("d", "add.u64", "%s, %s", memory, at)
		if g.Pairs {
			t.add("@%s %s", in[0], fmt.Sprintf(pair, to, regs[0], regs[1]))
			return
		}
		for e, r := range regs {
			t.add("@%s %s", in[e], fmt.Sprintf(single, fmt.Sprintf("%s+%d", to, 4*e), r))
		}
	}
	if g.Residual {
		add := t.regs("f", 2)
		for _, r := range add {
			t.add("mov.f32 %s, 0f00000000", r)
		}
		access(g.plus, "ld.global.v2.f32 {%[2]s, %[3]s}, [%[1]s]", "ld.global.f32 %[2]s, [%[1]s]", add)
		for e := range 2 {
			t.add("add.rn.f32 %s, %s, %s", sums[e], sums[e], add[e])
		}
	}
	if g.Rounded {
		half := t.get("d", "shr.u64", "%s, 1", at)
		t.add("add.u64 %s, %s, %s", half, half, g.z)
		both := t.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", g.Type), "%s, %s", sums[1], sums[0])
		t.add("@%s st.global.u32 [%s], %s", in[0], half, both)
	}
	if !g.Only {
		access(g.y, "st.global.v2.f32 [%[1]s], {%[2]s, %[3]s}", "st.global.f32 [%[1]s], %[2]s", sums)
	}
}
