package matrix

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// relText generates the relative position terms of grid_attention along an axis: the products of queries with the
// vectors for their place on that axis. It reads the queries that were packed for the attention itself. For each token
// of a group there are gridText.pitch terms, in units of log2(e): those of the rows of keys, then those of the columns.
// Terms past the last row or column are minus infinity, so that attention need not check for it.
type relText struct {
	Type  dtype.DType
	Terms int // of the queries, and of the vectors
	D     int
	Axis  int // 0 for rows, 1 for columns
	Grid  gridText
	Skips []int64
}

// relFields are the words of its parameters: the number of blocks, of rows of the left operand (a row is a query with a
// certain place on the axis), and where the queries begin in scratch memory, in units of 16 bytes.
var relFields = []string{"groups", "rows", "at"}

// relRows is the number of queries of a block.
const relRows = 128

// side is the number of places on the axis, and across that on the other one.
func (x relText) side() int { return []int{x.Grid.WH, x.Grid.WW}[x.Axis] }

func (x relText) across() int { return x.Grid.tokens() / x.side() }

// made is the number of terms that are written, and first that of terms before them.
func (x relText) made() int { return []int{x.Grid.rowTerms(), x.Grid.wide()}[x.Axis] }

func (x relText) first() int { return []int{0, x.Grid.rowTerms()}[x.Axis] }

func (x relText) width() int   { return x.D * x.Terms }
func (x relText) pitch() int   { return 2*x.width() + 16 }
func (x relText) threads() int { return 2 * relRows }
func (x relText) shared() int  { return (relRows + ceilDiv(x.made(), 16)*16) * x.pitch() }

// blocks returns the number of blocks for a number of groups.
func (x relText) blocks(groups int) int { return x.side() * ceilDiv(groups*x.across(), relRows) }

// relating is the state while the terms are generated.
type relating struct {
	relText
	*text
	mine            string // the offset of the first of the thread's two rows in shared memory
	p               map[string]string
	scratch, table  string
	tid, lane, base string
	place, first    string // on the axis, and the first row of the block
	queries         []string
	out             [2]string // where the terms of the thread's two rows begin
	in              [2]string // the row exists
}

func (x relText) text() string {
	g := &relating{relText: x, text: newText()}
	t := g.text
	skip := func(i int) int64 {
		if i < len(x.Skips) {
			return x.Skips[i]
		}
		return 0
	}
	g.scratch, g.table = g.binding(0, skip(0)), g.binding(1, skip(1))
	g.p = g.words(g.binding(2, 0), relFields)
	g.tid = t.get("r", "mov.u32", "%%tid.x")
	g.lane = t.get("r", "and.b32", "%s, 31", g.tid)
	g.base = t.get("r", "mov.u32", "memory")
	bx, by := t.get("r", "mov.u32", "%%ctaid.x"), t.get("r", "mov.u32", "%%ctaid.y")
	w := t.get("r", "mov.u32", "%%nctaid.x")
	number := t.get("r", "mad.lo.u32", "%s, %s, %s", by, w, bx)
	past := t.get("p", "setp.ge.u32", "%s, %s", number, g.p["groups"])
	t.add("@%s ret", past)
	g.place = t.get("r", "rem.u32", "%s, %d", number, x.side())
	g.first = t.get("r", "div.u32", "%s, %d", number, x.side())
	t.add("mul.lo.u32 %s, %s, %d", g.first, g.first, relRows)
	g.load()
	g.rows()
	g.multiply()
	t.add("ret")
	return t.finish(entry{"sm_80", x.threads(), x.shared(), 3, 2})
}

// token returns the number of the token of a row among those of all groups.
func (g *relating) token(row string) string {
	t, x := g.text, g.relText
	group, other := t.get("r", "div.u32", "%s, %d", row, x.across()), t.get("r", "rem.u32", "%s, %d", row, x.across())
	y, at := g.place, other
	if x.Axis == 1 {
		y, at = other, g.place
	}
	n := t.get("r", "mad.lo.u32", "%s, %d, %s", group, x.Grid.WH, y)
	t.add("mad.lo.u32 %s, %s, %d, %s", n, n, x.Grid.WW, at)
	return n
}

// load copies the queries and the rounded vectors to shared memory.
func (g *relating) load() {
	t, x := g.text, g.relText
	units := x.width() / 8
	from := t.get("d", "mad.wide.u32", "%s, 16, %s", g.p["at"], g.scratch)
	for i := 0; i < relRows*units; i += x.threads() {
		u := t.get("r", "add.u32", "%s, %d", g.tid, i)
		row, unit := t.get("r", "div.u32", "%s, %d", u, units), t.get("r", "rem.u32", "%s, %d", u, units)
		to := t.get("r", "mad.lo.u32", "%s, %d, %s", row, x.pitch(), g.base)
		t.add("mad.lo.u32 %s, %s, 16, %s", to, unit, to)
		t.add("add.u32 %s, %s, %s", row, row, g.first)
		bytes := t.get("r", "mov.u32", "16")
		past := t.get("p", "setp.ge.u32", "%s, %s", row, g.p["rows"])
		t.add("@%s mov.u32 %s, 0", past, bytes)
		t.add("@%s mov.u32 %s, 0", past, row)
		at := t.get("d", "mul.wide.u32", "%s, %d", g.token(row), 2*x.width())
		t.add("add.u64 %s, %s, %s", at, at, from)
		t.add("mad.wide.u32 %s, %s, 16, %s", at, unit, at)
		guard := ""
		if i+x.threads() > relRows*units {
			guard = "@" + t.get("p", "setp.lt.u32", "%s, %d", u, relRows*units) + " "
		}
		t.add("%scp.async.cg.shared.global [%s], [%s], 16, %s", guard, to, at, bytes)
	}
	t.add("cp.async.commit_group")
	quads := x.D / 4
	all := ceilDiv(x.made(), 16) * 16 * quads
	begin := t.get("r", "mul.lo.u32", "%s, %d", g.place, 4*x.side()*x.D)
	vectors := t.get("d", "cvt.u64.u32", "%s", begin)
	t.add("add.u64 %s, %s, %s", vectors, vectors, g.table)
	for i := 0; i < all; i += x.threads() {
		u := t.get("r", "add.u32", "%s, %d", g.tid, i)
		row, quad := t.get("r", "div.u32", "%s, %d", u, quads), t.get("r", "rem.u32", "%s, %d", u, quads)
		v := t.regs("f", 4)
		for _, r := range v {
			t.add("mov.f32 %s, 0f00000000", r)
		}
		in := t.get("p", "setp.lt.u32", "%s, %d", row, x.side())
		at := t.get("d", "mad.wide.u32", "%s, 16, %s", u, vectors)
		t.add("@%s ld.global.v4.f32 {%s}, [%s]", in, strings.Join(v, ", "), at)
		to := t.get("r", "mad.lo.u32", "%s, %d, %s", row, x.pitch(), g.base)
		t.add("mad.lo.u32 %s, %s, 8, %s", to, quad, to)
		guard := ""
		if i+x.threads() > all {
			guard = "@" + t.get("p", "setp.lt.u32", "%s, %d", u, all) + " "
		}
		for term := range x.Terms {
			if term > 0 {
				for e := range v {
					v[e] = t.rest(v[e])
				}
			}
			w := v
			if x.Terms > 1 {
				w = []string{t.nearest(v[0]), t.nearest(v[1]), t.nearest(v[2]), t.nearest(v[3])}
			}
			low := t.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", x.Type), "%s, %s", w[1], w[0])
			high := t.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", x.Type), "%s, %s", w[3], w[2])
			t.add("%sst.shared.v2.u32 [%s+%d], {%s, %s}", guard, to, relRows*x.pitch()+2*x.D*term, low, high)
		}
	}
	t.add("cp.async.wait_group 0")
	t.add("bar.sync 0")
}

// rows loads the fragments of the warp's 16 rows, and finds where their terms are written.
func (g *relating) rows() {
	t, x := g.text, g.relText
	warp := t.get("r", "shr.u32", "%s, 5", g.tid)
	row := t.get("r", "and.b32", "%s, 15", g.lane)
	t.add("mad.lo.u32 %s, %s, 16, %s", row, warp, row)
	half := t.get("r", "shr.u32", "%s, 4", g.lane)
	at := t.get("r", "mad.lo.u32", "%s, %d, %s", row, x.pitch(), g.base)
	t.add("mad.lo.u32 %s, %s, 16, %s", at, half, at)
	for k := range x.width() / 16 {
		r := t.regs("r", 4)
		t.add("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s}, [%s+%d]", strings.Join(r, ", "), at, 32*k)
		g.queries = append(g.queries, r...)
	}
	quad := t.get("r", "and.b32", "%s, 3", g.lane)
	first := t.get("r", "shr.u32", "%s, 2", g.lane)
	t.add("mad.lo.u32 %s, %s, 16, %s", first, warp, first)
	g.mine = t.get("r", "mad.lo.u32", "%s, %d, %s", first, x.pitch(), g.base)
	t.add("add.u32 %s, %s, %s", first, first, g.first)
	for i := range g.out {
		r := t.get("r", "add.u32", "%s, %d", first, 8*i)
		g.in[i] = t.get("p", "setp.lt.u32", "%s, %s", r, g.p["rows"])
		at := t.get("d", "mul.wide.u32", "%s, %d", g.token(r), 4*x.Grid.pitch())
		t.add("add.u64 %s, %s, %s", at, at, g.scratch)
		g.out[i] = t.get("d", "mad.wide.u32", "%s, 8, %s", quad, at)
	}
}

// multiply computes 16 terms of each row at a time.
func (g *relating) multiply() {
	t, x := g.text, g.relText
	low, high := t.get("r", "and.b32", "%s, 7", g.lane), t.get("r", "shr.u32", "%s, 4", g.lane)
	middle, quad := t.get("r", "shr.u32", "%s, 3", g.lane), t.get("r", "and.b32", "%s, 3", g.lane)
	t.add("and.b32 %s, %s, 1", middle, middle)
	from := t.get("r", "mad.lo.u32", "%s, 8, %s", high, low)
	t.add("mad.lo.u32 %s, %s, %d, %s", from, from, x.pitch(), g.base)
	t.add("mad.lo.u32 %s, %s, 16, %s", from, middle, from)
	for n := 0; n < x.made(); n += 16 {
		sums := g.products(from, n)
		for half := range 2 {
			column := n + 8*half // the thread's are column + 2 quad and the next
			if column >= x.made() {
				continue
			}
			for i := range g.out {
				s := sums[4*half+2*i:][:2]
				for e, r := range s {
					t.add("mul.f32 %s, %s, 0f3FB8AA3B", r, r) // log2(e)
					if column+8 > x.side() {
						c := t.get("r", "mad.lo.u32", "%s, 2, %d", quad, column+e)
						past := t.get("p", "setp.ge.u32", "%s, %d", c, x.side())
						t.add("@%s mov.f32 %s, 0fFF800000", past, r)
					}
				}
				in := g.in[i]
				if column+8 > x.made() {
					c := t.get("r", "mad.lo.u32", "%s, 2, %d", quad, column)
					in = t.get("p", "setp.lt.and.u32", "%s, %d, %s", c, x.made(), in)
				}
				t.add("@%s st.global.v2.f32 [%s+%d], {%s, %s}", in, g.out[i], 4*(x.first()+column), s[0], s[1])
			}
		}
	}
}

// products returns the thread's sums in 16 columns from n on, whose vectors begin at an address.
func (g *relating) products(from string, n int) []string {
	t, x := g.text, g.relText
	load := func(term, k int) []string {
		b := t.regs("r", 4)
		t.add("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s}, [%s+%d]", strings.Join(b, ", "), from,
			(relRows+n)*x.pitch()+2*x.D*term+32*k)
		return b
	}
	steps := x.D / 16
	if x.Terms > 1 {
		sums := t.termProducts(steps,
			func(term, k int) []string { return g.queries[4*(term*steps+k):][:4] }, load)
		g.repair(sums, n)
		return sums
	}
	sums := t.regs("f", 8)
	for _, r := range sums {
		t.add("mov.f32 %s, 0f00000000", r)
	}
	for k := range steps {
		b := load(0, k)
		t.mma(x.Type, sums[:4], g.queries[4*k:][:4], b[:2])
		t.mma(x.Type, sums[4:], g.queries[4*k:][:4], b[2:])
	}
	return sums
}

// repair computes sums in 16 columns from n on with fma, if one is not finite: see attention_repair.go.
func (g *relating) repair(sums []string, n int) {
	t, x := g.text, g.relText
	check := t.get("f", "mov.f32", "0f00000000")
	for _, r := range sums {
		t.add("fma.rn.f32 %s, %s, 0f00000000, %s", check, r, check)
	}
	for _, distance := range []int{1, 2, 4, 8, 16} { // the warp computes its sums together
		other := t.get("f", "shfl.sync.bfly.b32", "%s, %d, 31, 0xffffffff", check, distance)
		t.add("add.f32 %s, %s, %s", check, check, other)
	}
	end, again := t.label(), t.label()
	fine := t.get("p", "setp.eq.f32", "%s, 0f00000000", check)
	t.add("@%s bra.uni %s", fine, end)
	for _, r := range sums {
		t.add("mov.f32 %s, 0f00000000", r)
	}
	left := t.get("r", "mov.u32", "%s", g.mine)
	quad := t.get("r", "and.b32", "%s, 3", g.lane)
	right := t.get("r", "mad.lo.u32", "%s, %d, %s", quad, 2*x.pitch(), g.base)
	done := t.get("r", "mov.u32", "0")
	t.place(again)
	value := func(at string, row int) [2]string {
		a := t.get("r", "add.u32", "%s, %d", at, row*x.pitch())
		return t.value("ld.shared.u32", a, 2*x.D)
	}
	queries := [2][2]string{value(left, 0), value(left, 8)}
	for i, r := range sums { // of column 8 (i / 4) + i % 2 after that of the quad, and row 8 (i / 2 % 2)
		v := value(right, relRows+n+i/4*8+i%2)
		for e, q := range queries[i/2%2] {
			t.add("fma.rn.f32 %s, %s, %s, %s", r, q, v[e], r)
		}
	}
	t.add("add.u32 %s, %s, 4", left, left)
	t.add("add.u32 %s, %s, 4", right, right)
	t.add("add.u32 %s, %s, 1", done, done)
	more := t.get("p", "setp.lt.u32", "%s, %d", done, x.D/2)
	t.add("@%s bra.uni %s", more, again)
	t.place(end)
}
