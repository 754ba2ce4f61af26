package matrix

// This file computes rows of attention again that are not finite: with fma, from the terms of q, k and v. An infinite
// value has the second term 0, so that its products with terms are NaN where they should be infinite, and sums of large
// terms overflow where their sum does not. A warp computes a row, a key at a time, and each lane has two of each 64
// columns.

const (
	// noWeight is the exponent below which a weight is 0 even in f64: log2 of its least value and 1.
	noWeight = "0fC4866000" // -1075
	// leastWeight is for infinite values whose weight is 0 only in f32.
	leastWeight = "0f00800000" // 2^-126
	infinity    = "0f7F800000"
	minusInf    = "0fFF800000"
)

// repair finds the rows with scores, sums of weights or results that fma may not give, and computes them. The thread
// then does not write them.
func (g *attending) repair() {
	t := g.text
	flags := t.get("r", "mov.u32", "0") // bit i: row i of the thread
	for i, r := range g.row {
		check := g.check[i]
		for _, s := range ofRow(g.sums, i) {
			t.add("fma.rn.f32 %s, %s, 0f00000000, %s", check, s, check)
		}
		bad := t.get("p", "setp.neu.f32", "%s, 0f00000000", check)
		t.add("setp.eq.or.f32 %s, %s, 0f00000000, %s", bad, g.total[i], bad)
		t.add("and.pred %s, %s, %s", bad, bad, r.in)
		bit := t.get("r", "selp.b32", "%d, 0, %s", 1<<i, bad)
		t.add("or.b32 %s, %s, %s", flags, flags, bit)
	}
	all := flags
	for _, distance := range []int{1, 2, 4, 8, 16} {
		other := t.get("r", "shfl.sync.bfly.b32", "%s, %d, 31, 0xffffffff", all, distance)
		all = t.get("r", "or.b32", "%s, %s", all, other)
		if distance == 2 {
			flags = all // of the lanes that share rows
		}
	}
	end := t.label()
	fine := t.get("p", "setp.eq.u32", "%s, 0", all)
	t.add("@%s bra.uni %s", fine, end)
	warp := t.get("r", "shr.u32", "%s, 5", g.tid)
	first := t.get("r", "mad.lo.u32", "%s, 16, %s", t.uniform(warp), g.first)
	for i := range g.row {
		r := &g.row[i]
		mine := t.get("r", "and.b32", "%s, %d", flags, 1<<i)
		t.add("setp.eq.and.u32 %s, %s, 0, %s", r.in, mine, r.in)
		n := t.get("r", "mov.u32", "0")
		again, next := t.label(), t.label()
		t.place(again)
		lane := t.get("r", "shl.b32", "%s, 2", n)
		bit := t.get("r", "shfl.sync.idx.b32", "%s, %s, 31, 0xffffffff", mine, lane)
		none := t.get("p", "setp.eq.u32", "%s, 0", bit)
		t.add("@%s bra.uni %s", none, next)
		token := t.get("r", "add.u32", "%s, %s", first, n)
		t.add("add.u32 %s, %s, %d", token, token, 8*i)
		g.attendRow(token, t.from(lane, r.out))
		t.place(next)
		t.add("add.u32 %s, %s, 1", n, n)
		more := t.get("p", "setp.lt.u32", "%s, 8", n)
		t.add("@%s bra.uni %s", more, again)
	}
	t.place(end)
}

// from returns a register of 64 bits as a lane has it.
func (t *text) from(lane, value string) string {
	var parts [2]string
	high := t.get("d", "shr.u64", "%s, 32", value)
	for i, d := range []string{value, high} {
		w := t.get("r", "cvt.u32.u64", "%s", d)
		w = t.get("r", "shfl.sync.idx.b32", "%s, %s, 31, 0xffffffff", w, lane)
		parts[i] = t.get("d", "cvt.u64.u32", "%s", w)
	}
	t.add("shl.b64 %s, %s, 32", parts[1], parts[1])
	return t.get("d", "or.b64", "%s, %s", parts[0], parts[1])
}

// lanePair is a pair of columns of a lane: the offset of its first terms in a row. in is empty if all lanes have one.
type lanePair struct{ offset, in string }

// lanePairs returns the pairs of columns of the lane.
func (g *attending) lanePairs() (out []lanePair) {
	t := g.text
	for n := 0; n < g.D/2; n += 32 {
		p := t.get("r", "add.u32", "%s, %d", g.lane, n)
		in := ""
		if n+32 > g.D/2 {
			in = t.get("p", "setp.lt.u32", "%s, %d", p, g.D/2)
			t.add("min.u32 %s, %s, %d", p, p, g.D/2-1)
		}
		out = append(out, lanePair{t.get("r", "shl.b32", "%s, 2", p), in})
	}
	return out
}

// loadRow loads the lane's values of a row of an operand.
func (g *attending) loadRow(from rowsAt, row string, pairs []lanePair) (out []string) {
	t := g.text
	at := t.get("d", "mul.wide.u32", "%s, %s", row, from.pitch)
	t.add("add.u64 %s, %s, %s", at, at, from.at)
	for _, p := range pairs {
		a := t.get("d", "mad.wide.u32", "%s, 1, %s", p.offset, at)
		v := t.value("ld.global.u32", a, 2*g.D)
		out = append(out, v[0], v[1])
	}
	return out
}

// attendRow computes the row of a query and writes it to an address.
func (g *attending) attendRow(query, to string) {
	t, pairs := g.text, g.lanePairs()
	q := g.loadRow(g.q, query, pairs)
	from, end := "0", g.k.count
	if g.Plain.On {
		from, end = g.visible(query)
	}
	most, total := t.get("f", "mov.f32", minusInf), t.get("f", "mov.f32", "0f00000000")
	sums := t.regs("f", len(q))
	for _, s := range sums {
		t.add("mov.f32 %s, 0f00000000", s)
	}
	key := t.get("r", "mov.u32", "%s", from)
	again, over := t.label(), t.label()
	t.place(again)
	past := t.get("p", "setp.ge.u32", "%s, %s", key, end)
	t.add("@%s bra.uni %s", past, over)
	score := g.scoreOf(query, key, q, pairs)
	top := t.get("f", "max.f32", "%s, %s", most, score)
	base := t.get("f", "mov.f32", "%s", top)
	none := t.get("p", "setp.eq.f32", "%s, %s", top, minusInf)
	t.add("@%s mov.f32 %s, 0f00000000", none, base)
	lower, x := t.get("f", "sub.f32", "%s, %s", most, base), t.get("f", "sub.f32", "%s, %s", score, base)
	t.add("mov.f32 %s, %s", most, top)
	scale, weight := t.get("f", "ex2.approx.f32", "%s", lower), t.get("f", "ex2.approx.f32", "%s", x)
	t.add("fma.rn.f32 %s, %s, %s, %s", total, total, scale, weight)
	gone := t.get("p", "setp.lt.f32", "%s, %s", lower, noWeight)
	skipped := t.get("p", "setp.lt.f32", "%s, %s", x, noWeight)
	some := t.get("f", "max.NaN.f32", "%s, %s", weight, leastWeight)
	t.add("@%s mov.f32 %s, 0f00000000", skipped, some)
	for i, v := range g.loadRow(g.v, key, pairs) {
		s := sums[i]
		zero := "0f00000000"
		if !g.Plain.On { // an infinite value times 0 is NaN
			zero = t.get("f", "mul.f32", "%s, 0f00000000", s)
		}
		lowered := t.get("f", "mul.f32", "%s, %s", s, scale)
		t.add("@%s mov.f32 %s, %s", t.finite(s), s, lowered)
		t.add("@%s mov.f32 %s, %s", gone, s, zero)
		w := t.get("f", "selp.f32", "%s, %s, %s", weight, some, t.finite(v))
		sum := t.get("f", "fma.rn.f32", "%s, %s, %s", w, v, s)
		if g.Plain.On { // a key that takes no part
			t.add("@!%s mov.f32 %s, %s", skipped, s, sum)
		} else {
			t.add("mov.f32 %s, %s", s, sum)
		}
	}
	t.add("add.u32 %s, %s, 1", key, key)
	t.add("bra.uni %s", again)
	t.place(over)
	inverse := t.get("f", "rcp.rn.f32", "%s", total)
	none = t.get("p", "setp.eq.f32", "%s, 0f00000000", total)
	t.add("@%s mov.f32 %s, 0f00000000", none, inverse)
	for i, p := range pairs {
		list := sums[2*i:][:2]
		for _, s := range list {
			t.add("mul.f32 %s, %s, %s", s, s, inverse)
		}
		at, guard := t.get("d", "mad.wide.u32", "%s, 2, %s", p.offset, to), ""
		if p.in != "" {
			guard = "@" + p.in + " "
		}
		t.add("%sst.global.v2.f32 [%s], {%s, %s}", guard, at, list[0], list[1])
	}
}

// finite returns whether a value is neither infinite nor NaN.
func (t *text) finite(value string) string {
	return t.get("p", "setp.lt.f32", "%s, %s", t.get("f", "abs.f32", "%s", value), infinity)
}

// scoreOf returns the score of a key in units of log2(e).
func (g *attending) scoreOf(query, key string, q []string, pairs []lanePair) string {
	t := g.text
	score := t.get("f", "mov.f32", "0f00000000")
	for i, k := range g.loadRow(g.k, key, pairs) {
		guard := ""
		if in := pairs[i/2].in; in != "" {
			guard = "@" + in + " "
		}
		t.add("%sfma.rn.f32 %s, %s, %s, %s", guard, score, q[i], k, score)
	}
	for _, distance := range []int{1, 2, 4, 8, 16} {
		other := t.get("f", "shfl.sync.bfly.b32", "%s, %d, 31, 0xffffffff", score, distance)
		t.add("add.f32 %s, %s, %s", score, score, other)
	}
	t.add("mul.f32 %s, %s, %s", score, score, g.p["scale"])
	if s := g.Grid; s.Rel {
		y, x := t.get("r", "div.u32", "%s, %d", key, s.WW), t.get("r", "rem.u32", "%s, %d", key, s.WW)
		t.add("add.u32 %s, %s, %d", x, x, s.rowTerms())
		at := t.get("d", "mul.wide.u32", "%s, %s", query, g.terms.pitch)
		t.add("add.u64 %s, %s, %s", at, at, g.terms.at)
		for _, place := range []string{y, x} {
			from := t.get("d", "mad.wide.u32", "%s, 4, %s", place, at)
			term := t.get("f", "ld.global.f32", "[%s]", from)
			t.add("add.f32 %s, %s, %s", score, score, term)
		}
	}
	return score
}
