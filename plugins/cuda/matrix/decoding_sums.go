package matrix

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// decodingType is the type of all operands in memory, as far as their size matters.
const decodingType = dtype.F32

// weighing are the sums of a lane: for each row its reference, the sum of weights and that of four elements of weighted
// values.
type weighing struct {
	*decodingKernel
	m, l []string
	o    [][]string
}

func newWeighing(g *decodingKernel, rows int) *weighing {
	s := &weighing{decodingKernel: g}
	t := g.text
	for range rows {
		s.m = append(s.m, t.get("f", "mov.f32", "0fFF61B1E6")) // -3e38: finite, so that -Inf minus it stays -Inf
		s.l = append(s.l, t.get("f", "mov.f32", "0f00000000"))
		o := t.regs("f", 4)
		for _, r := range o {
			t.add("mov.f32 %s, 0f00000000", r)
		}
		s.o = append(s.o, o)
	}
	return s
}

// add adds keys. Those that are not live have no weight.
func (s *weighing) add(query, keys, values [][]string, live []string) {
	t := s.text
	for r := range query {
		var scores []string
		most := t.get("f", "mov.f32", "%s", s.m[r])
		for u, k := range keys {
			x := t.get("f", "mul.f32", "%s, %s", query[r][0], k[0])
			for i := 1; i < 4; i++ {
				t.add("fma.rn.f32 %s, %s, %s, %s", x, query[r][i], k[i], x)
			}
			for by := s.lanes() / 2; by > 0; by /= 2 {
				other := t.get("f", "shfl.sync.bfly.b32", "%s, %d, 31, 0xffffffff", x, by)
				t.add("add.f32 %s, %s, %s", x, x, other)
			}
			t.add("selp.f32 %s, %s, 0fFF800000, %s", x, x, live[u])
			t.add("max.f32 %s, %s, %s", most, most, x)
			scores = append(scores, x)
		}
		s.rescale(r, most)
		for u, x := range scores {
			t.add("sub.f32 %s, %s, %s", x, x, most)
			gone := t.get("p", "setp.lt.f32", "%s, 0fC4866000", x) // -1075
			t.add("ex2.approx.f32 %s, %s", x, x)
			t.add("max.NaN.f32 %s, %s, %s", x, x, leastWeight)
			t.add("@!%s add.f32 %s, %s, %s", gone, s.l[r], s.l[r], x)
			for i := range 4 {
				t.add("@!%s fma.rn.f32 %s, %s, %s, %s", gone, s.o[r][i], x, values[u][i], s.o[r][i])
			}
		}
	}
}

// rescale moves the reference of a row.
func (s *weighing) rescale(r int, most string) {
	t := s.text
	w := s.weight(s.m[r], most)
	for _, x := range append([]string{s.l[r]}, s.o[r]...) {
		t.add("mul.f32 %s, %s, %s", x, x, w)
	}
	t.add("mov.f32 %s, %s", s.m[r], most)
}

// mergeLanes adds the sums of the lanes of a warp that have read different keys.
func (s *weighing) mergeLanes() {
	t := s.text
	for by := s.lanes(); by < warpSize; by *= 2 {
		other := func(x string) string {
			return t.get("f", "shfl.sync.bfly.b32", "%s, %d, 31, 0xffffffff", x, by)
		}
		for r := range s.m {
			most := t.get("f", "max.f32", "%s, %s", s.m[r], other(s.m[r]))
			s.rescale(r, most)
			for _, x := range append([]string{s.l[r]}, s.o[r]...) {
				t.add("add.f32 %s, %s, %s", x, x, other(x))
			}
		}
	}
}

// write adds the sums of the warps and writes those of the block.
func (g *decodingKernel) write(s *weighing, part, batch, head, share, warp, lane string) {
	t, rows := g.text, g.rows()
	memory := t.get("r", "mov.u32", "memory")
	to := t.get("r", "mad.lo.u32", "%s, %d, %s", warp, 4*rows*g.D, memory)
	t.add("mad.lo.u32 %s, %s, 16, %s", to, lane, to)
	statistics := t.get("r", "mad.lo.u32", "%s, %d, %s", warp, 8*rows, memory)
	writes := t.get("p", "setp.lt.u32", "%s, %d", lane, g.lanes())
	one := t.get("p", "setp.eq.u32", "%s, 0", lane)
	for r := range rows {
		t.add("@%s st.shared.v4.f32 [%s+%d], {%s}", writes, to, 4*r*g.D, strings.Join(s.o[r], ", "))
		t.add("@%s st.shared.v2.f32 [%s+%d], {%s, %s}", one, statistics, g.statisticsAt()+8*r, s.m[r], s.l[r])
	}
	t.add("bar.sync 0")
	warps := decodingThreads / warpSize
	for i := 0; i < rows*g.D; i += decodingThreads {
		skip := t.label()
		at := t.get("r", "add.u32", "%s, %d", g.tid, i)
		past := t.get("p", "setp.ge.u32", "%s, %d", at, rows*g.D)
		t.add("@%s bra %s", past, skip)
		r, column := t.get("r", "div.u32", "%s, %d", at, g.D), t.get("r", "rem.u32", "%s, %d", at, g.D)
		from := t.get("r", "mad.lo.u32", "%s, 8, %s", r, memory)
		var m, l []string
		most := t.get("f", "mov.f32", "0fFF61B1E6")
		for w := range warps {
			pair := t.regs("f", 2)
			t.add("ld.shared.v2.f32 {%s, %s}, [%s+%d]", pair[0], pair[1], from, g.statisticsAt()+8*rows*w)
			m, l = append(m, pair[0]), append(l, pair[1])
			t.add("max.f32 %s, %s, %s", most, most, pair[0])
		}
		value := t.get("r", "mad.lo.u32", "%s, 4, %s", at, memory)
		total, sum := t.get("f", "mov.f32", "0f00000000"), t.get("f", "mov.f32", "0f00000000")
		for w := range warps {
			weight := g.weight(m[w], most)
			v := t.get("f", "ld.shared.f32", "[%s+%d]", value, 4*rows*g.D*w)
			t.add("fma.rn.f32 %s, %s, %s, %s", total, weight, l[w], total)
			t.add("fma.rn.f32 %s, %s, %s, %s", sum, weight, v, sum)
		}
		h := t.get("r", "mad.lo.u32", "%s, %d, %s", head, rows, r)
		t.add("mad.lo.u32 %s, %s, %d, %s", h, batch, g.Heads, h)
		h = t.get("r", "mad.lo.u32", "%s, %d, %s", h, g.Shares, share)
		row := t.get("d", "mad.wide.u32", "%s, %d, %s", h, 4*(g.D+4), part)
		y := t.get("d", "mad.wide.u32", "%s, 4, %s", column, row)
		t.add("st.global.f32 [%s], %s", y, sum)
		first := t.get("p", "setp.eq.u32", "%s, 0", column)
		t.add("@%s st.global.f32 [%s+%d], %s", first, row, 4*g.D, most)
		t.add("@%s st.global.f32 [%s+%d], %s", first, row, 4*g.D+4, total)
		t.place(skip)
	}
}
