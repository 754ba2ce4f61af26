package matrix

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// productText generates the kernel of a product of operands of 16 bits whose rows lie along K, with sums in f32.
type productText struct {
	Tile
	Type           dtype.DType // of the operands; f32 means TF32, whose values take two units of 16 bits
	Act            string
	Bias, Residual bool
	Pairs          bool   // the number of columns is even
	Fours          bool   // and a multiple of four
	Rounded        bool   // the result is also written in Type, see kernels.RoundedOut; Pairs is set
	Only           bool   // the result is written in Type only, not in f32
	Terms          [2]int // of the operands' values, at most three; 0 and 0: operands are rounded. See terms_text.go.
	NoRepair       bool   // sums of terms that are not finite stay as they are
	RowBias        bool   // the bias has an element for each row
	Patch          patchText
	Scatter        scatterText
	Grouped        bool // rows have places and tiles have matrices of the right operand: see group_places.wgsl
	Skips          []int64
}

// productFields are the words of its parameters. Strides of rows, and of matrices in count products, are in units of 16
// bytes, and so is where the operands and the result begin.
var productFields = []string{"groups", "m", "n", "parts", "a_at", "a_row", "a_matrix", "b_at", "b_row", "b_matrix",
	"y_at"}

// rasterRows is the number of rows of tiles that blocks with consecutive numbers share, so that their operands stay in
// the L2 cache.
const rasterRows = 8

// generated is the state while a product is generated.
type generated struct {
	productText
	*text
	p                     map[string]string
	a, b, bias, add, y, z string
	list, group           string // of Grouped: the places, and the number of the tile's matrix
	tid, lane             string
	row, col, matrix      string      // first row and column of the tile, and the number of the product
	begin                 [2]string   // of the operands
	from                  [2][]string // what the thread loads next, by operand
	partial               [2]string   // whether it loads the last of these; empty if all threads do
	to                    string      // offset in a stage of the thread's first unit
	base                  string      // of the stages in shared memory
	loads, stage, loading string      // parts loaded; offsets of the stages that are computed and loaded
	acc                   []string
	biases                []string // PingPong: of columns lane, lane + 32, ... of the tile
	ring                  string   // and the barriers of the stages, in shared memory
	turns                 *turns   // of products of terms
	walk                  *walk    // through patches
}

func (x productText) text() string {
	g := &generated{productText: x, text: newText()}
	bindings := 4 + btoi(x.Bias) + btoi(x.Residual) + btoi(x.Rounded) + btoi(x.Grouped)
	skip := func(i int) int64 {
		if i < len(x.Skips) {
			return x.Skips[i]
		}
		return 0
	}
	next := 0
	bind := func() string {
		next++
		return g.binding(next-1, skip(next-1))
	}
	g.a, g.b = bind(), bind()
	if x.Grouped {
		g.list = bind()
	}
	if x.Bias {
		g.bias = bind()
	}
	if x.Residual {
		g.add = bind()
	}
	g.y = bind()
	if x.Rounded {
		g.z = bind()
	}
	fields := productFields
	switch {
	case x.Patch.Operand > 0:
		fields = slices.Concat(productFields, patchFields)
	case x.Scatter.Run > 0:
		fields = slices.Concat(productFields, scatterFields)
	case x.Grouped:
		fields = slices.Concat(productFields, []string{"list_at"})
	}
	params := bind()
	if x.PingPong {
		g.openRing()
	}
	g.p = g.words(params, fields)
	g.y = g.get("d", "mad.wide.u32", "%s, 16, %s", g.p["y_at"], g.y)
	if x.PingPong {
		g.takeTurns()
		g.text.add("ret")
		return g.text.finish(entry{"sm_90a", x.threads(), x.shared(), bindings, x.Blocks})
	}
	g.placeTile()
	if x.Grouped {
		g.placeGroup()
	}
	g.addresses()
	g.acc = g.regs("f", x.M*x.N/x.threads())
	for _, r := range g.acc {
		g.text.add("mov.f32 %s, 0f00000000", r)
	}
	if x.Terms[0] > 0 {
		g.sumTerms()
		if !x.NoRepair {
			g.repair()
		}
	} else {
		g.loop()
	}
	g.finishSums()
	g.text.add("ret")
	target := "sm_80"
	if x.Warpgroup {
		target = "sm_90a"
	}
	return g.text.finish(entry{target, x.threads(), x.shared(), bindings, x.Blocks})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// placeTile finds the tile of the block.
func (g *generated) placeTile() {
	t := g.text
	id := g.block()
	past := t.get("p", "setp.ge.u32", "%s, %s", id, g.p["groups"])
	t.add("@%s ret", past)
	g.tileAt(id)
}

// block returns the number of the block.
func (g *generated) block() string {
	t := g.text
	g.tid = t.get("r", "mov.u32", "%%tid.x")
	g.lane = t.get("r", "and.b32", "%s, 31", g.tid)
	x, y := t.get("r", "mov.u32", "%%ctaid.x"), t.get("r", "mov.u32", "%%ctaid.y")
	w := t.get("r", "mov.u32", "%%nctaid.x")
	return t.get("r", "mad.lo.u32", "%s, %s, %s", y, w, x)
}

// tileAt finds the tile with a number.
func (g *generated) tileAt(id string) {
	t := g.text
	tiles := func(size string, n int) string {
		r := t.get("r", "add.u32", "%s, %d", size, n-1)
		return t.get("r", "div.u32", "%s, %d", r, n)
	}
	tm, tn := tiles(g.p["m"], g.M), tiles(g.p["n"], g.N)
	each := t.get("r", "mul.lo.u32", "%s, %s", tm, tn)
	g.matrix = t.get("r", "div.u32", "%s, %s", id, each)
	in := t.get("r", "rem.u32", "%s, %s", id, each)
	width := t.get("r", "mul.lo.u32", "%s, %d", tn, rasterRows)
	first := t.get("r", "div.u32", "%s, %s", in, width)
	t.add("mul.lo.u32 %s, %s, %d", first, first, rasterRows)
	t.add("rem.u32 %s, %s, %s", in, in, width)
	rows := t.get("r", "sub.u32", "%s, %s", tm, first)
	t.add("min.u32 %s, %s, %d", rows, rows, rasterRows)
	row := t.get("r", "rem.u32", "%s, %s", in, rows)
	t.add("add.u32 %s, %s, %s", row, row, first)
	col := t.get("r", "div.u32", "%s, %s", in, rows)
	g.row, g.col = t.get("r", "mul.lo.u32", "%s, %d", row, g.M), t.get("r", "mul.lo.u32", "%s, %d", col, g.N)
}

// placeGroup finds the group of the tile, and ends blocks that have none.
func (g *generated) placeGroup() {
	t := g.text
	g.list = t.get("d", "mad.wide.u32", "%s, 4, %s", g.p["list_at"], g.list)
	tile := t.get("r", "div.u32", "%s, %d", g.row, g.M)
	at := t.get("d", "mad.wide.u32", "%s, 4, %s", tile, g.list)
	g.group = t.get("r", "ld.global.u32", "[%s]", at)
	none := t.get("p", "setp.eq.u32", "%s, 0xffffffff", g.group)
	t.add("@%s ret", none)
	// the places follow the groups of all tiles
	tiles := t.get("r", "div.u32", "%s, %d", g.p["m"], g.M)
	g.list = t.get("d", "mad.wide.u32", "%s, 4, %s", tiles, g.list)
}

// rowOf returns the row that has a place, and whether there is one. If not, the row is 0.
func (g *generated) rowOf(place string) (row, in string) {
	t := g.text
	at := t.get("d", "mad.wide.u32", "%s, 4, %s", place, g.list)
	row = t.get("r", "ld.global.u32", "[%s]", at)
	in = t.get("p", "setp.ne.u32", "%s, 0xffffffff", row)
	t.add("@!%s mov.u32 %s, 0", in, row)
	return row, in
}

// addresses computes what the thread loads: units of 16 bytes, one of each threads/8 rows of A and B.
func (g *generated) addresses() {
	t := g.text
	unit, row := t.get("r", "and.b32", "%s, 7", g.tid), t.get("r", "shr.u32", "%s, 3", g.tid)
	for operand, o := range []struct {
		name, at, first, size string
		rows                  int
	}{{"a", g.a, g.row, g.p["m"], g.M}, {"b", g.b, g.col, g.p["n"], g.N}} {
		last := t.get("r", "sub.u32", "%s, 1", o.size)
		begin := t.get("d", "mad.wide.u32", "%s, 16, %s", g.p[o.name+"_at"], o.at)
		matrix := g.matrix
		if g.Grouped && operand == 1 {
			matrix = g.group
		}
		m := t.get("d", "mul.wide.u32", "%s, %s", matrix, g.p[o.name+"_matrix"])
		t.add("shl.b64 %s, %s, 4", m, m)
		t.add("add.u64 %s, %s, %s", begin, begin, m)
		g.begin[operand] = begin
		begin = t.get("d", "mad.wide.u32", "%s, 16, %s", unit, begin)
		for i := 0; i < o.rows; i += g.threads() / 8 {
			if left := o.rows - i; left < g.threads()/8 {
				g.partial[operand] = t.get("p", "setp.lt.u32", "%s, %d", row, left)
			}
			r := t.get("r", "add.u32", "%s, %s", o.first, row)
			t.add("add.u32 %s, %s, %d", r, r, i)
			t.add("min.u32 %s, %s, %s", r, r, last) // rows past the end are computed and not written
			if g.Grouped && operand == 0 {
				r, _ = g.rowOf(r)
			}
			var at string
			if g.Patch.Operand == operand+1 {
				at = t.get("d", "mul.wide.u32", "%s, 16", g.place(r))
			} else {
				at = t.get("d", "mul.wide.u32", "%s, %s", r, g.p[o.name+"_row"])
				t.add("shl.b64 %s, %s, 4", at, at)
			}
			t.add("add.u64 %s, %s, %s", at, at, begin)
			g.from[operand] = append(g.from[operand], at)
		}
	}
	low := t.get("r", "and.b32", "%s, 7", row)
	g.to = t.get("r", "xor.b32", "%s, %s", unit, low)
	t.add("shl.b32 %s, %s, 4", g.to, g.to)
	t.add("mad.lo.u32 %s, %s, 128, %s", g.to, row, g.to)
	g.base = t.get("r", "mov.u32", "memory")
	t.add("add.u32 %s, %s, 1023", g.base, g.base)
	t.add("and.b32 %s, %s, 0xfffffc00", g.base, g.base)
	t.add("add.u32 %s, %s, %s", g.to, g.to, g.base)
	g.loads = t.get("r", "mov.u32", "0")
	g.stage, g.loading = t.get("r", "mov.u32", "0"), t.get("r", "mov.u32", "0")
	g.beginWalk()
}

// load starts to load the next part, if there is one.
func (g *generated) load() {
	t := g.text
	all := g.p["parts"]
	if g.turns != nil {
		all = g.turns.all
	}
	more := t.get("p", "setp.lt.u32", "%s, %s", g.loads, all)
	to := t.get("r", "add.u32", "%s, %s", g.to, g.loading)
	offset := 0
	for i, list := range g.from {
		at := offset
		for k, from := range list {
			guard := more
			if p := g.partial[i]; p != "" && k == len(list)-1 {
				guard = t.get("p", "and.pred", "%s, %s", more, p)
			}
			t.add("@%s cp.async.cg.shared.global [%s+%d], [%s], 16", guard, to, at, from)
			t.add("add.u64 %s, %s, %d", from, from, 2*depth*max(1, g.Terms[i]))
			at += g.threads() * 16
		}
		offset += []int{g.M, g.N}[i] * 2 * depth
	}
	g.step()
	if g.turns != nil {
		g.turn()
	}
	t.add("cp.async.commit_group")
	t.add("add.u32 %s, %s, 1", g.loads, g.loads)
	g.next(g.loading)
}

// next advances the offset of a stage.
func (g *generated) next(stage string) {
	t := g.text
	t.add("add.u32 %s, %s, %d", stage, stage, g.Tile.stage())
	end := t.get("p", "setp.eq.u32", "%s, %d", stage, g.Stages*g.Tile.stage())
	t.add("@%s mov.u32 %s, 0", end, stage)
}

// loop sums over the parts. Warpgroups still multiply one part while the next iteration begins, so that a stage is
// loaded again one iteration later than with warps.
func (g *generated) loop() {
	t := g.text
	ahead := g.Stages - 1
	if g.Warpgroup {
		ahead = g.Stages - 2
	}
	for range ahead {
		g.load()
	}
	multiply := g.warps()
	if g.Warpgroup {
		multiply = g.warpgroups()
	}
	g.each(g.p["parts"], ahead, func() {
		if g.Warpgroup {
			multiply(g.acc, false, 0, steps)
			t.add("wgmma.wait_group.sync.aligned 1")
			g.load()
		} else {
			g.load()
			multiply(g.acc, false, 0, steps)
		}
	})
	if g.Warpgroup {
		t.add("wgmma.wait_group.sync.aligned 0")
	}
	t.add("cp.async.wait_all")
}

// each repeats what is done with a part, count times, when the part is in shared memory. ahead is the number of parts
// that are loaded before they are used.
func (g *generated) each(count string, ahead int, do func()) {
	t := g.text
	done := t.get("r", "mov.u32", "0")
	again, end := t.label(), t.label()
	t.place(again)
	over := t.get("p", "setp.ge.u32", "%s, %s", done, count)
	t.add("@%s bra.uni %s", over, end)
	t.add("cp.async.wait_group %d", ahead-1)
	if g.Warpgroup {
		t.add("fence.proxy.async.shared::cta")
	}
	t.add("bar.sync 0")
	do()
	g.next(g.stage)
	t.add("add.u32 %s, %s, 1", done, done)
	t.add("bra.uni %s", again)
	t.place(end)
}

// steps is the number of values of K in a stage, in units of 16.
const steps = depth / 16

// warpgroups returns a function that multiplies steps [from, to) of the part in the current stage and adds them to
// sums. If fresh is set, it sets the sums to them instead. Matrix descriptors are those of PTX for rows of 128 bytes
// with the swizzle of 128 bytes: the address, 1024 bytes between groups of eight rows.
func (g *generated) warpgroups() func(sums []string, fresh bool, from, to int) {
	t := g.text
	group := t.get("r", "shr.u32", "%s, 7", g.tid)
	group = t.uniform(group)
	high := t.get("d", "mov.b64", "0x4000004000010000")
	first := t.get("r", "mad.lo.u32", "%s, %d, %s", group, 64*2*depth, g.base)
	always := t.get("p", "setp.eq.u32", "0, 0")
	never := ""
	if g.Terms[0] > 0 {
		never = t.get("p", "setp.ne.u32", "0, 0")
	}
	return func(sums []string, fresh bool, from, to int) {
		describe := func(at string, offset int) string {
			r := t.get("r", "add.u32", "%s, %s", at, g.stage)
			if offset > 0 {
				t.add("add.u32 %s, %s, %d", r, r, offset)
			}
			t.add("shr.u32 %s, %s, 4", r, r)
			d := t.get("d", "cvt.u64.u32", "%s", r)
			return t.get("d", "or.b64", "%s, %s", d, high)
		}
		a, b := describe(first, 0), describe(g.base, g.M*2*depth)
		t.add("wgmma.fence.sync.aligned")
		for k, by := from, 2*from; k < to; k, by = k+1, 2 {
			if by > 0 {
				t.add("add.u64 %s, %s, %d", a, a, by)
				t.add("add.u64 %s, %s, %d", b, b, by)
			}
			adds := always
			if fresh && k == from {
				adds = never
			}
			k, typ, across := 16, g.Type.String(), ", 0, 0"
			if g.Type == dtype.F32 {
				k, typ, across = 8, "tf32", ""
			}
			t.add("wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%[3]s.%[3]s {%[4]s}, %[5]s, %[6]s, %[7]s, 1, 1%[8]s", g.N, k,
				typ, strings.Join(sums, ", "), a, b, adds, across)
		}
		t.add("wgmma.commit_group.sync.aligned")
	}
}

// uniform returns the value of a register in lane 0, which tells the compiler that it is the same in all lanes.
func (t *text) uniform(value string) string {
	return t.get("r", "shfl.sync.idx.b32", "%s, 0, 31, 0xffffffff", value)
}

// warps is like warpgroups, with warps: four for each 64 rows, each with a quarter of the columns.
func (g *generated) warps() func(sums []string, fresh bool, from, to int) {
	if g.Warpgroup {
		return nil
	}
	t := g.text
	low := t.get("r", "and.b32", "%s, 7", g.lane)
	row, col := g.warp()
	// a unit of A and B for each 16 values of K
	at := func(first string, offset int, row, half string) []string {
		r := t.get("r", "add.u32", "%s, %s", first, row)
		t.add("mad.lo.u32 %s, %s, 128, %s", r, r, g.base)
		t.add("add.u32 %s, %s, %d", r, r, offset)
		var out []string
		for k := range depth / 16 {
			u := t.get("r", "add.u32", "%s, %d", half, 2*k)
			t.add("xor.b32 %s, %s, %s", u, u, low)
			out = append(out, t.get("r", "mad.lo.u32", "%s, 16, %s", u, r))
		}
		return out
	}
	aRow, aHalf := t.get("r", "and.b32", "%s, 15", g.lane), t.get("r", "shr.u32", "%s, 4", g.lane)
	bRow := t.get("r", "shr.u32", "%s, 4", g.lane)
	t.add("mad.lo.u32 %s, %s, 8, %s", bRow, bRow, low)
	bHalf := t.get("r", "shr.u32", "%s, 3", g.lane)
	t.add("and.b32 %s, %s, 1", bHalf, bHalf)
	a, b := at(row, 0, aRow, aHalf), at(col, g.M*2*depth, bRow, bHalf)
	return func(_ []string, _ bool, from, to int) {
		for k := from; k < to; k++ {
			fragment := func(at string, i int) []string {
				r := t.regs("r", 4)
				t.add("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s}, [%s+%d]", strings.Join(r, ", "), at,
					i*16*2*depth)
				return r
			}
			fromA := t.get("r", "add.u32", "%s, %s", a[k], g.stage)
			fromB := t.get("r", "add.u32", "%s, %s", b[k], g.stage)
			var left, right [][]string
			for i := range 4 {
				left = append(left, fragment(fromA, i))
			}
			for i := range g.N / 4 / 16 {
				right = append(right, fragment(fromB, i))
			}
			for i := range 4 {
				for j := range g.N / 4 / 8 {
					sums := strings.Join(g.sums(i, j), ", ")
					r := right[j/2][j%2*2:]
					shape := "m16n8k16.row.col.f32." + g.Type.String() + "." + g.Type.String()
					if g.Type == dtype.F32 {
						shape = "m16n8k8.row.col.f32.tf32.tf32"
					}
					t.add("mma.sync.aligned.%s.f32 {%[2]s}, {%[3]s}, {%[4]s, %[5]s}, {%[2]s}", shape,
						sums, strings.Join(left[i], ", "), r[0], r[1])
				}
			}
		}
	}
}
