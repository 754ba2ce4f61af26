package matrix

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// packText generates the kernel that rounds q, k and v of attention in windows, or divides them into terms:
// [part][window and head][token][term][dim]. A thread writes eight values of each term. Tokens past the edge of the
// grid are the row for padding.
type packText struct {
	Type    dtype.DType
	Terms   int
	D       int
	Grid    gridText
	Windows int64 // of all batch elements
	Rounded bool  // q, k and v are in Type already, but not the row for padding
	Skips   []int64
}

// packFields are the words of its parameters: the number of threads with something to do, and where the result begins
// in scratch memory, in units of 16 bytes.
var packFields = []string{"units", "at"}

// packThreads is the number of threads of a block.
const packThreads = 256

// units is the number of threads that have something to do.
func (x packText) units() int {
	return 3 * int(x.Windows) * x.Grid.Heads * x.Grid.tokens() * x.D / 8
}

func (x packText) text() string {
	t, s := newText(), x.Grid
	skip := func(i int) int64 {
		if i < len(x.Skips) {
			return x.Skips[i]
		}
		return 0
	}
	from, pad, to := t.binding(0, skip(0)), t.binding(1, skip(1)), t.binding(2, skip(2))
	p := t.words(t.binding(3, 0), packFields)
	unit := t.get("r", "mov.u32", "%%tid.x")
	bx, by := t.get("r", "mov.u32", "%%ctaid.x"), t.get("r", "mov.u32", "%%ctaid.y")
	w := t.get("r", "mov.u32", "%%nctaid.x")
	block := t.get("r", "mad.lo.u32", "%s, %s, %s", by, w, bx)
	t.add("mad.lo.u32 %s, %s, %d, %s", unit, block, packThreads, unit)
	past := t.get("p", "setp.ge.u32", "%s, %s", unit, p["units"])
	t.add("@%s ret", past)
	split := func(n string, by int64) (quotient, rest string) {
		return t.get("r", "div.u32", "%s, %d", n, by), t.get("r", "rem.u32", "%s, %d", n, by)
	}
	line, first := split(unit, int64(x.D/8))
	row, token := split(line, int64(s.tokens()))
	rest, head := split(row, int64(s.Heads))
	part, window := split(rest, x.Windows)
	batch, inGrid := split(window, int64(s.NH*s.NW))
	top, left := split(inGrid, int64(s.NW))
	down, right := split(token, int64(s.WW))
	y := t.get("r", "mad.lo.u32", "%s, %d, %s", top, s.WH, down)
	column := t.get("r", "mad.lo.u32", "%s, %d, %s", left, s.WW, right)
	place := t.get("r", "mad.lo.u32", "%s, %d, %s", batch, s.GH, y)
	t.add("mad.lo.u32 %s, %s, %d, %s", place, place, s.GW, column)
	inRow := t.get("r", "mad.lo.u32", "%s, %d, %s", part, s.Heads, head) // values
	t.add("mul.lo.u32 %s, %s, %d", inRow, inRow, x.D)
	t.add("mad.lo.u32 %s, %s, 8, %s", inRow, first, inRow)
	out := t.get("d", "mad.wide.u32", "%s, 16, %s", p["at"], to)
	t.add("mad.wide.u32 %s, %s, %d, %s", out, line, 2*x.D*x.Terms, out)
	t.add("mad.wide.u32 %s, %s, 16, %s", out, first, out)
	size := 4
	if x.Rounded {
		size = 2
	}
	at := t.get("d", "mad.wide.u32", "%s, %d, %s", place, 3*s.Heads*x.D*size, from)
	t.add("mad.wide.u32 %s, %s, %d, %s", at, inRow, size, at)
	outside := ""
	if s.padded() {
		outside = t.get("p", "setp.ge.u32", "%s, %d", y, s.GH)
		t.add("setp.ge.or.u32 %s, %s, %d, %s", outside, column, s.GW, outside)
	}
	end := t.label()
	if x.Rounded { // copies, but for padding
		values, padding := t.regs("r", 4), t.label()
		if outside != "" {
			t.add("@%s bra %s", outside, padding)
		}
		t.add("ld.global.nc.v4.u32 {%s}, [%s]", strings.Join(values, ", "), at)
		t.add("st.global.v4.u32 [%s], {%s}", out, strings.Join(values, ", "))
		if outside == "" {
			t.add("ret")
			return t.finish(entry{"sm_80", packThreads, 0, 4, 1})
		}
		t.add("bra %s", end)
		t.place(padding)
	}
	if outside != "" {
		padAt := t.get("d", "mad.wide.u32", "%s, 4, %s", inRow, pad)
		t.add("@%s mov.b64 %s, %s", outside, at, padAt)
	}
	values := t.regs("f", 8)
	t.add("ld.global.nc.v4.f32 {%s}, [%s]", strings.Join(values[:4], ", "), at)
	t.add("ld.global.nc.v4.f32 {%s}, [%s+16]", strings.Join(values[4:], ", "), at)
	for term, words := range x.divide(t, values) {
		t.add("st.global.v4.u32 [%s+%d], {%s}", out, 2*x.D*term, strings.Join(words, ", "))
	}
	t.place(end)
	t.add("ret")
	return t.finish(entry{"sm_80", packThreads, 0, 4, 1})
}

// divide returns eight values in 16 bits, by term.
func (x packText) divide(t *text, values []string) (out [][]string) {
	for range x.Terms {
		out = append(out, t.regs("r", 4))
	}
	if x.Terms == 1 {
		for i, r := range out[0] {
			t.add("cvt.rn.%vx2.f32 %s, %s, %s", x.Type, r, values[2*i+1], values[2*i])
		}
		return out
	}
	most := t.get("f", "abs.f32", "%s", values[0])
	for _, v := range values[1:] {
		t.add("max.NaN.f32 %s, %s, %s", most, most, t.get("f", "abs.f32", "%s", v))
	}
	usual, end := t.label(), t.label()
	small := t.get("p", "setp.lt.f32", "%s, 0f7F7F8000", most) // the first term is not rounded to infinity
	t.add("@%s bra %s", small, usual)
	for i := 0; i < len(values); i += 2 {
		pair := []string{values[i], values[i+1]}
		for term := range out {
			if term > 0 {
				pair = []string{t.rest(pair[0]), t.rest(pair[1])}
			}
			t.add("cvt.rn.bf16x2.f32 %s, %s, %s", out[term][i/2], t.nearest(pair[1]), t.nearest(pair[0]))
		}
	}
	t.add("bra %s", end)
	t.place(usual)
	for i := 0; i < len(values); i += 2 {
		t.terms([]string{out[0][i/2], out[1][i/2], out[2][i/2]}, values[i:i+2])
	}
	t.place(end)
	return out
}
