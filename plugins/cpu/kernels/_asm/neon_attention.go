package main

// neonAttention writes the passes over one panel of scores that genAttention describes, for panels of 16 queries and
// of 8.
func neonAttention(file *neonFile) {
	for _, vecs := range []int{2, 1} {
		neonScoreMax(file, vecs, false)
		neonScoreMax(file, vecs, true)
		neonExpSum(file, vecs)
		neonScaleRows(file, vecs)
	}
}

func neonPanelName(name string, vecs int) string {
	if vecs == 1 {
		return name + "Narrow"
	}
	return name
}

func (f *neonFunc) loadPairs(base gpr, n int) []vec8 {
	v := f.pairs(n)
	f.load(base, 0, flat(v...)...)
	return v
}

func neonScoreMax(file *neonFile, vecs int, biased bool) {
	name, signature := neonPanelName("scoreMax", vecs), "s *float32, keys int, scale float32, max *float32"
	doc := "multiplies the scores by scale in place and raises max to the largest of each column. It ignores NaN."
	if biased {
		name, signature = neonPanelName("scoreBiasMax", vecs),
			"s *float32, keys int, scale float32, row *float32, each *float32, max *float32"
		doc = "is s[j] = s[j]*scale + row + each[j] for the rows s[j] of the panel, and raises max as scoreMax does."
	}
	f := file.add(name, signature, "", doc)
	s, keys, max := f.param("s"), f.param("keys"), f.param("max")
	scale := f.scalar("scale")
	m := f.loadPairs(max, vecs)
	var row []vec8
	var each gpr
	if biased {
		row, each = f.loadPairs(f.param("row"), vecs), f.param("each")
	}
	f.label("key")
	for i, x := range f.loadPairs(s, vecs) {
		if biased {
			t := f.loadPair(each, 32*i)
			f.fma(t, x, scale)
			x = f.add(t, row[i])
		} else {
			x = f.mul(x, scale)
		}
		f.store(s, 32*i, x[:]...)
		f.op3("fmaxnm", m[i], m[i], x)
	}
	f.ins("ADD $%v, %v, %v", 32*vecs, s, s)
	if biased {
		f.ins("ADD $%v, %v, %v", 32*vecs, each, each)
	}
	f.count(keys, "key")
	f.store(max, 0, flat(m...)...)
	f.ret()
}

func neonExpSum(file *neonFile, vecs int) {
	f := file.add(neonPanelName("expSum", vecs), "s *float32, keys int, max *float32, sum *float32", "",
		"is s[j] = 2^(s[j] - max) in place, and adds the results to sum. Below 2^-126 it may give 0.")
	s, keys, max, sum := f.param("s"), f.param("keys"), f.param("max"), f.param("sum")
	f.useConstants()
	m, acc := f.loadPairs(max, vecs), f.loadPairs(sum, vecs)
	low, bias := f.float(-127), f.bits(127)
	f.label("key")
	for i, x := range f.loadPairs(s, vecs) {
		e := f.exp2(f.sub(x, m[i]), low, bias)
		f.store(s, 32*i, e[:]...)
		f.op3("fadd", acc[i], acc[i], e)
	}
	f.ins("ADD $%v, %v, %v", 32*vecs, s, s)
	f.count(keys, "key")
	f.store(sum, 0, flat(acc...)...)
	f.ret()
}

// exp2 is 2^x for x <= 1, and 0 below low = -127. NaN stays NaN. bias is the exponent bias of float32.
func (f *neonFunc) exp2(x vec8, low, bias vreg) vec8 {
	x = f.op2("fmax", x, low)
	n := f.nearest(x)
	p := f.horner(f.sub(x, n), exp2Poly())
	return f.mul(p, f.shift("shl", f.op2("add", f.integer(n), bias), 23)) // -127 becomes the bits of 0
}

func neonScaleRows(file *neonFile, vecs int) {
	f := file.add(neonPanelName("scaleRows", vecs), "x *float32, rows int, by *float32", "",
		"is x[i] *= by, both rows of a panel, for i < rows.")
	x, rows, by := f.param("x"), f.param("rows"), f.param("by")
	factor := f.loadPairs(by, vecs)
	f.label("row")
	for i, v := range f.loadPairs(x, vecs) {
		y := f.mul(v, factor[i])
		f.store(x, 32*i, y[:]...)
	}
	f.ins("ADD $%v, %v, %v", 32*vecs, x, x)
	f.count(rows, "row")
	f.ret()
}
