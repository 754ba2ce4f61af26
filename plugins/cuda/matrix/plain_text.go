package matrix

// plainText describes attention. A group is a head of a batch element.
type plainText struct {
	On bool
	// Causal: a query at position t sees the keys 0 to t; Sliding: those from t minus the window on
	Causal, Sliding bool
	Softcap         bool
	Position        bool // an operand has the position of query 0, otherwise a parameter
	Each            bool // it has one for each batch element
}

// plainFields are the words of its parameters. Where operands begin and their strides are in units of 16 bytes; the
// strides of the result are in elements. per_kv heads share keys. Scores are in units of log2(e): the products times
// scale or, with a softcap, tanh(products times scale) times softcap.
var plainFields = []string{"groups", "heads", "per_kv", "sq", "sk", "offset", "window", "scale", "softcap",
	"q_at", "q_b", "q_s", "q_h", "k_at", "k_b", "k_s", "k_h", "v_at", "v_b", "v_s", "v_h", "o_b", "o_s", "o_h"}

// unbounded is larger than any size, yet sums with positions do not overflow.
const unbounded = 1 << 30

// placePlain finds the group, the queries of the block and the keys that they see, and returns the number of bindings:
// q, k, v, the position if it is an operand, the result, its rounded copy if there is one, and the parameters.
func (g *attending) placePlain(skip func(i int) int64) (bindings int) {
	t, x := g.text, g.Plain
	bind := func() string {
		bindings++
		return g.binding(bindings-1, skip(bindings-1))
	}
	q, k, v := bind(), bind(), bind()
	position := ""
	if x.Position {
		position = bind()
	}
	g.y = bind()
	if g.Rounded {
		g.z = bind()
	}
	g.p = g.words(bind(), plainFields)
	number := g.placeBlock()
	queries := g.attentionText.queries()
	tiles := t.get("r", "add.u32", "%s, %d", g.p["sq"], queries-1)
	t.add("div.u32 %s, %s, %d", tiles, tiles, queries)
	g.group = t.get("r", "div.u32", "%s, %s", number, tiles)
	g.first = t.get("r", "rem.u32", "%s, %s", number, tiles)
	// the last queries see most keys, so they come first
	t.add("sub.u32 %s, %s, %s", g.first, tiles, g.first)
	t.add("sub.u32 %s, %s, 1", g.first, g.first)
	t.add("mul.lo.u32 %s, %s, %d", g.first, g.first, queries)
	batch, head := t.get("r", "div.u32", "%s, %s", g.group, g.p["heads"]), t.get("r", "rem.u32", "%s, %s", g.group,
		g.p["heads"])
	kv := t.get("r", "div.u32", "%s, %s", head, g.p["per_kv"])
	operand := func(name, from, head, count string) rowsAt {
		n := t.get("r", "mad.lo.u32", "%s, %s, %s", batch, g.p[name+"_b"], g.p[name+"_at"])
		t.add("mad.lo.u32 %s, %s, %s, %s", n, head, g.p[name+"_h"], n)
		return rowsAt{t.get("d", "mad.wide.u32", "%s, 16, %s", n, from), t.get("r", "shl.b32", "%s, 4", g.p[name+"_s"]),
			count, false}
	}
	g.offset = t.get("r", "mov.u32", "%s", g.p["offset"])
	if x.Position {
		if x.Each {
			position = t.get("d", "mad.wide.u32", "%s, 4, %s", batch, position)
		}
		g.offset = t.get("r", "ld.global.nc.u32", "[%s]", position)
		t.add("max.s32 %s, %s, %d", g.offset, g.offset, -unbounded)
		t.add("min.s32 %s, %s, %d", g.offset, g.offset, unbounded)
	}
	end := t.get("r", "add.u32", "%s, %d", g.first, queries)
	t.add("min.u32 %s, %s, %s", end, end, g.p["sq"])
	t.add("sub.u32 %s, %s, 1", end, end)
	g.all[0], g.to = g.visible(end)
	first, to := g.visible(g.first)
	g.all[1] = to
	g.from = t.get("r", "and.b32", "%s, %d", first, -keysOfTile)
	g.q, g.k, g.v = operand("q", q, head, g.p["sq"]), operand("k", k, kv, g.to), operand("v", v, kv, g.to)
	row := g.rowOfThread()
	for i := range g.row {
		r := &g.row[i]
		n := t.get("r", "add.u32", "%s, %d", row, 8*i)
		r.in = t.get("p", "setp.lt.u32", "%s, %s", n, g.p["sq"])
		r.span[0], r.span[1] = g.visible(n)
		place := t.get("r", "mul.lo.u32", "%s, %s", batch, g.p["o_b"])
		t.add("mad.lo.u32 %s, %s, %s, %s", place, head, g.p["o_h"], place)
		t.add("mad.lo.u32 %s, %s, %s, %s", place, n, g.p["o_s"], place)
		r.out = t.get("d", "mad.wide.u32", "%s, 4, %s", place, g.y)
	}
	return bindings
}

// visible returns the first key that a query sees and the one after the last, as registers or constants.
func (g *attending) visible(query string) (from, to string) {
	t, x := g.text, g.Plain
	if !x.Causal {
		return "0", g.p["sk"]
	}
	at := t.get("r", "add.s32", "%s, %s", query, g.offset)
	to = t.get("r", "add.s32", "%s, 1", at)
	t.add("max.s32 %s, %s, 0", to, to)
	t.add("min.s32 %s, %s, %s", to, to, g.p["sk"])
	if !x.Sliding {
		return "0", to
	}
	from = t.get("r", "sub.s32", "%s, %s", at, g.p["window"])
	t.add("max.s32 %s, %s, 0", from, from)
	return from, to
}

// scaleScores makes scores of products.
func (g *attending) scaleScores() {
	t := g.text
	for _, s := range g.scores {
		t.add("mul.f32 %s, %s, %s", s, s, g.p["scale"])
		if g.Plain.Softcap {
			h := t.tanh(s)
			t.add("mul.f32 %s, %s, %s", s, h, g.p["softcap"])
		}
	}
}

// seen returns a predicate that says whether all queries of the block see the whole tile. It is true for most tiles.
func (g *attending) seen(number string) string {
	t := g.text
	first := t.get("r", "shl.b32", "%s, 6", number)
	end := t.get("r", "add.u32", "%s, %d", first, keysOfTile)
	all := t.get("p", "setp.le.u32", "%s, %s", end, g.all[1])
	if g.Plain.Sliding {
		t.add("setp.ge.and.u32 %s, %s, %s, %s", all, first, g.all[0], all)
	}
	return all
}

// hide makes the scores of keys that a query does not see minus infinity.
func (g *attending) hide(number, col string) {
	t, x := g.text, g.Plain
	first := t.get("r", "shl.b32", "%s, 6", number)
	t.add("add.u32 %s, %s, %s", first, first, col)
	for j := range keysOfTile / 8 {
		for e := range 2 {
			key := t.get("r", "add.u32", "%s, %d", first, 8*j+e)
			for i, r := range g.row {
				hidden := t.get("p", "setp.ge.u32", "%s, %s", key, r.span[1])
				if x.Sliding {
					t.add("setp.lt.or.u32 %s, %s, %s, %s", hidden, key, r.span[0], hidden)
				}
				t.add("@%s mov.f32 %s, 0fFF800000", hidden, g.scores[4*j+2*i+e])
			}
		}
	}
}
