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

func (x relText) pitch() int   { return 2*x.D + 16 }
func (x relText) threads() int { return 2 * relRows }
func (x relText) shared() int  { return (relRows + ceilDiv(x.made(), 16)*16) * x.pitch() }

// blocks returns the number of blocks for a number of groups.
func (x relText) blocks(groups int) int { return x.side() * ceilDiv(groups*x.across(), relRows) }

// relating is the state while the terms are generated.
type relating struct {
	relText
	*text
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
	units := x.D / 8
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
		at := t.get("d", "mul.wide.u32", "%s, %d", g.token(row), 2*x.D)
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
		low := t.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", x.Type), "%s, %s", v[1], v[0])
		high := t.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", x.Type), "%s, %s", v[3], v[2])
		to := t.get("r", "mad.lo.u32", "%s, %d, %s", row, x.pitch(), g.base)
		t.add("mad.lo.u32 %s, %s, 8, %s", to, quad, to)
		guard := ""
		if i+x.threads() > all {
			guard = "@" + t.get("p", "setp.lt.u32", "%s, %d", u, all) + " "
		}
		t.add("%sst.shared.v2.u32 [%s+%d], {%s, %s}", guard, to, relRows*x.pitch(), low, high)
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
	for k := range x.D / 16 {
		r := t.regs("r", 4)
		t.add("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s}, [%s+%d]", strings.Join(r, ", "), at, 32*k)
		g.queries = append(g.queries, r...)
	}
	quad := t.get("r", "and.b32", "%s, 3", g.lane)
	first := t.get("r", "shr.u32", "%s, 2", g.lane)
	t.add("mad.lo.u32 %s, %s, 16, %s", first, warp, first)
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
		sums := t.regs("f", 8)
		for _, r := range sums {
			t.add("mov.f32 %s, 0f00000000", r)
		}
		for k := range x.D / 16 {
			b := t.regs("r", 4)
			t.add("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s}, [%s+%d]", strings.Join(b, ", "), from,
				(relRows+n)*x.pitch()+32*k)
			t.mma(x.Type, sums[:4], g.queries[4*k:][:4], b[:2])
			t.mma(x.Type, sums[4:], g.queries[4*k:][:4], b[2:])
		}
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
