package matrix

// An f32 is the exact sum of three terms in bf16. The second is kept multiplied by 2^8 and the third by 2^16, so that
// those of small values are no less precise. A product of two values is the sum of nine products of terms. The three
// smallest, of terms two and three, are at most 2^-24 of it and are left out. This is how BF16x9 of cuBLAS works; see
// also Henry, Tang and Heinecke, Leveraging the bfloat16 artificial intelligence datatype for higher-precision
// computations (2019).
//
// Matrix units truncate when they add, so sums of many products would be less precise than with fma. Therefore the
// products of first terms, which matter most, are summed over a part of K at a time, and these sums are added in f32.

// termSteps is how many steps of first terms are added before their sum is added in f32. With all four, the largest
// error is that of fma or 1 % more if the exponents spread over 2^±60.
const termSteps = 2

// turn is a pass over K with a term of each operand.
type turn struct{ a, b int }

// turnsOf returns the passes in groups of the same scale: 2^-16, 2^-8 and 1. The last group is that of the first terms.
func turnsOf(terms [2]int) (groups [][]turn) {
	for scale := 2; scale >= 0; scale-- {
		var list []turn
		for a := range terms[0] {
			if b := scale - a; b >= 0 && b < terms[1] {
				list = append(list, turn{a, b})
			}
		}
		if list != nil {
			groups = append(groups, list)
		}
	}
	return groups
}

// passes returns the number of passes over K.
func passes(terms [2]int) (n int) {
	for _, list := range turnsOf(terms) {
		n += len(list)
	}
	return n
}

// turns is the state of loading in passes.
type turns struct {
	list   []turn
	all    string    // parts of all passes
	left   string    // parts of this pass that are not loaded yet
	number string    // of the next pass
	rewind [2]string // bytes from the beginning of a row to its end, by operand
}

// sumTerms is loop for operands of several terms.
func (g *generated) sumTerms() {
	t := g.text
	groups := turnsOf(g.Terms)
	s := &turns{}
	for _, list := range groups {
		s.list = append(s.list, list...)
	}
	s.all = t.get("r", "mul.lo.u32", "%s, %d", g.p["parts"], len(s.list))
	s.left, s.number = t.get("r", "mov.u32", "%s", g.p["parts"]), t.get("r", "mov.u32", "1")
	for i, terms := range g.Terms {
		if g.Patch.Operand == i+1 {
			s.rewind[i] = t.get("d", "mul.wide.u32", "%s, 16", g.p["way"])
		} else {
			s.rewind[i] = t.get("d", "mul.wide.u32", "%s, %d", g.p["parts"], 2*depth*terms)
		}
		first := []int{s.list[0].a, s.list[0].b}[i]
		for _, from := range g.from[i] {
			if first > 0 {
				t.add("add.u64 %s, %s, %d", from, from, 2*depth*first)
			}
		}
	}
	g.turns = s
	ahead := g.Stages - 2
	for range ahead {
		g.load()
	}
	multiply := g.warpgroups()
	for _, list := range groups[:len(groups)-1] {
		count := t.get("r", "mul.lo.u32", "%s, %d", g.p["parts"], len(list))
		g.each(count, ahead, func() {
			multiply(g.acc, false, 0, steps)
			t.add("wgmma.wait_group.sync.aligned 1")
			g.load()
		})
		t.add("wgmma.wait_group.sync.aligned 0")
		for _, r := range g.acc {
			t.add("mul.f32 %s, %s, 0f3B800000", r, r) // 2^-8
		}
	}
	part := t.regs("f", len(g.acc))
	for _, r := range part {
		t.add("mov.f32 %s, 0f00000000", r)
	}
	g.each(g.p["parts"], ahead, func() {
		for from := 0; from < steps; from += termSteps {
			multiply(part, true, from, from+termSteps)
			t.add("wgmma.wait_group.sync.aligned 0")
			if from+termSteps == steps {
				g.load()
			}
			for i, r := range g.acc {
				t.add("add.f32 %s, %s, %s", r, r, part[i])
			}
		}
	})
	t.add("cp.async.wait_all")
}

// turn begins the next pass over K after the last load of one.
func (g *generated) turn() {
	t, s := g.text, g.turns
	t.add("sub.u32 %s, %s, 1", s.left, s.left)
	in := t.get("p", "setp.ne.u32", "%s, 0", s.left)
	skip := t.label()
	t.add("@%s bra.uni %s", in, skip)
	t.add("mov.u32 %s, %s", s.left, g.p["parts"])
	for i, list := range g.from {
		back := t.get("d", "sub.u64", "%s, 0", s.rewind[i])
		for n := 1; n < len(s.list); n++ {
			by, change := []int{s.list[n-1].a - s.list[n].a, s.list[n-1].b - s.list[n].b}[i], "add"
			if by < 0 {
				by, change = -by, "sub"
			}
			if by > 0 {
				now := t.get("p", "setp.eq.u32", "%s, %d", s.number, n)
				t.add("@%s %s.u64 %s, %s, %d", now, change, back, back, 2*depth*by)
			}
		}
		for _, from := range list {
			t.add("sub.u64 %s, %s, %s", from, from, back)
		}
	}
	t.add("add.u32 %s, %s, 1", s.number, s.number)
	t.place(skip)
}

// repair computes sums that are not finite again, with fma. As products of terms, an infinite value times a finite one
// would be NaN, and large terms could overflow where their sum does not. The sums lie in shared memory meanwhile,
// because a loop cannot choose among registers.
func (g *generated) repair() {
	t := g.text
	t.add("bar.sync 0") // the stages are free
	check := t.get("f", "mov.f32", "0f00000000")
	for _, r := range g.acc {
		t.add("fma.rn.f32 %s, %s, 0f00000000, %s", check, r, check)
	}
	fine := t.get("p", "setp.eq.f32", "%s, 0f00000000", check)
	end := t.label()
	t.add("@%s bra %s", fine, end)
	mine := t.get("r", "mad.lo.u32", "%s, 4, %s", g.tid, g.base)
	for i, r := range g.acc {
		t.add("st.shared.f32 [%s+%d], %s", mine, 4*i*g.threads(), r)
	}
	row, col := g.warp()
	t.add("add.u32 %s, %s, %s", row, row, g.row)
	inRow, inCol := t.get("r", "shr.u32", "%s, 2", g.lane), t.get("r", "and.b32", "%s, 3", g.lane)
	t.add("add.u32 %s, %s, %s", row, row, inRow)
	t.add("mad.lo.u32 %s, %s, 2, %s", col, inCol, col)
	t.add("add.u32 %s, %s, %s", col, col, g.col)
	i, at := t.get("r", "mov.u32", "0"), t.get("r", "mov.u32", "%s", mine)
	again, next := t.label(), t.label()
	t.place(again)
	sum := t.get("f", "ld.shared.f32", "[%s]", at)
	t.add("fma.rn.f32 %s, %s, 0f00000000, 0f00000000", check, sum)
	t.add("setp.eq.f32 %s, %s, 0f00000000", fine, check)
	t.add("@%s bra %s", fine, next)
	// sum i is that of fragment i / 4: row 8 of it if bit 1 is set, and the second column if bit 0 is
	half, odd := t.get("r", "and.b32", "%s, 2", i), t.get("r", "and.b32", "%s, 1", i)
	r := t.get("r", "mad.lo.u32", "%s, 4, %s", half, row)
	c := t.get("r", "shr.u32", "%s, 2", i)
	t.add("mad.lo.u32 %s, %s, 8, %s", c, c, odd)
	t.add("add.u32 %s, %s, %s", c, c, col)
	g.dot(sum, r, c)
	t.add("st.shared.f32 [%s], %s", at, sum)
	t.place(next)
	t.add("add.u32 %s, %s, 1", i, i)
	t.add("add.u32 %s, %s, %d", at, at, 4*g.threads())
	more := t.get("p", "setp.lt.u32", "%s, %d", i, len(g.acc))
	t.add("@%s bra %s", more, again)
	for i, r := range g.acc {
		t.add("ld.shared.f32 %s, [%s+%d]", r, mine, 4*i*g.threads())
	}
	t.place(end)
}

// dot sets sum to the product of a row of the left operand and a row of the right one.
func (g *generated) dot(sum, row, col string) {
	t := g.text
	t.add("mov.f32 %s, 0f00000000", sum)
	var at [2]string
	for i, o := range []struct{ row, size, stride string }{{row, "m", "a_row"}, {col, "n", "b_row"}} {
		last := t.get("r", "sub.u32", "%s, 1", g.p[o.size])
		t.add("min.u32 %s, %s, %s", last, last, o.row)
		d := t.get("d", "mul.wide.u32", "%s, %s", last, g.p[o.stride])
		t.add("shl.b64 %s, %s, 4", d, d)
		t.add("add.u64 %s, %s, %s", d, d, g.begin[i])
		at[i] = d
	}
	// a step has two values of K; 32 of them are adjacent, then come those of other terms
	steps := t.get("r", "mul.lo.u32", "%s, %d", g.p["parts"], depth/2)
	done := t.get("r", "mov.u32", "0")
	again := t.label()
	t.place(again)
	t.add("add.u32 %s, %s, 1", done, done)
	in := t.get("r", "and.b32", "%s, %d", done, depth/2-1)
	whole := t.get("p", "setp.eq.u32", "%s, 0", in)
	var values [2][2]string
	for i, terms := range g.Terms {
		for term := terms - 1; term >= 0; term-- {
			word := t.get("r", "ld.global.u32", "[%s+%d]", at[i], 2*depth*term)
			high := t.get("r", "and.b32", "%s, 0xffff0000", word)
			t.add("shl.b32 %s, %s, 16", word, word)
			for k, bits := range []string{word, high} {
				v := t.get("f", "mov.b32", "%s", bits)
				if term < terms-1 {
					t.add("fma.rn.f32 %s, %s, 0f3B800000, %s", v, values[i][k], v)
				}
				values[i][k] = v
			}
		}
		t.add("add.u64 %s, %s, 4", at[i], at[i])
		if terms > 1 {
			t.add("@%s add.u64 %s, %s, %d", whole, at[i], at[i], 2*depth*(terms-1))
		}
	}
	for k := range 2 {
		t.add("fma.rn.f32 %s, %s, %s, %s", sum, values[0][k], values[1][k], sum)
	}
	more := t.get("p", "setp.lt.u32", "%s, %s", done, steps)
	t.add("@%s bra %s", more, again)
}
