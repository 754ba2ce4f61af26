package main

// neonRows writes the routines of genRows.
func neonRows(file *neonFile) {
	neonReduce(file, "sum", "x *float32, blocks int", "is the sum of blocks*lanes floats; blocks > 0.", false)
	neonReduce(file, "deviations", "x *float32, blocks int, mean float32, distance *float32",
		"is the sum of (x-mean)^2 over blocks*lanes floats; blocks > 0. distance becomes the sum of mean-x.", true)
	neonNormalize(file)
}

func neonReduce(file *neonFile, name, signature, doc string, center bool) {
	f := file.add(name, signature, "float32", doc)
	x, n := f.param("x"), f.param("blocks")
	var mean vreg
	if center {
		mean = f.scalar("mean")
	}
	acc, distances := f.pairs(4), f.pairs(4)
	for _, r := range flat(acc...) {
		f.clear(r)
	}
	if center {
		for _, r := range flat(distances...) {
			f.clear(r)
		}
	}
	step := func(acc ...vec8) {
		for i, v := range f.loadPairs(x, len(acc)) {
			if center {
				d := f.sub(mean, v)
				f.op3("fadd", distances[i], distances[i], d)
				f.fma(acc[i], d, d)
			} else {
				f.op3("fadd", acc[i], acc[i], v)
			}
		}
		f.ins("ADD $%v, %v, %v", 32*len(acc), x, x)
	}
	f.ins("SUBS $4, %v, %v", n, n)
	f.ins("BLT rest")
	f.label("four")
	step(acc...)
	f.ins("SUBS $4, %v, %v", n, n)
	f.back("BGE", "four")
	f.label("rest")
	f.ins("ADDS $4, %v, %v", n, n)
	f.ins("BEQ sum")
	f.label("one")
	step(acc[0])
	f.count(n, "one")
	f.label("sum")
	total := func(acc []vec8) vreg {
		f.op3("fadd", acc[0], acc[0], acc[1])
		f.op3("fadd", acc[2], acc[2], acc[3])
		f.op3("fadd", acc[0], acc[0], acc[2])
		return f.total(acc[0])
	}
	f.ins("FMOVS F%v, %v", total(acc), f.place("ret"))
	if center {
		f.ins("FMOVS F%v, (%v)", total(distances), f.param("distance"))
	}
	f.ret()
}

func neonNormalize(file *neonFile) {
	f := file.add(
		"normalize",
		"dst *float32, x *float32, gamma *float32, beta *float32, blocks int, mean float32, scale float32, shift float32",
		"",
		"is dst = ((x-mean)*scale + shift)*gamma + beta over blocks*lanes floats; blocks > 0.")
	dst, x, gamma, beta, n := f.param("dst"), f.param("x"), f.param("gamma"), f.param("beta"), f.param("blocks")
	mean, scale, shift := f.scalar("mean"), f.scalar("scale"), f.scalar("shift")
	f.label("loop")
	t := f.op2("orr", shift, shift)
	f.fma(t, f.sub(f.loadPair(x, 0), mean), scale)
	y := f.loadPair(beta, 0)
	f.fma(y, t, f.loadPair(gamma, 0))
	f.store(dst, 0, y[:]...)
	for _, p := range []gpr{dst, x, gamma, beta} {
		f.ins("ADD $32, %v, %v", p, p)
	}
	f.count(n, "loop")
	f.ret()
}

// roundBF16 rounds x to bfloat16, ties to even. NaN stays NaN.
func (f *neonFunc) roundBF16(x vec8) vec8 {
	odd := f.op2("and", f.shift("ushr", x, 16), f.bits(1))
	r := f.op2("add", f.op2("add", odd, f.bits(0x7fff)), x)
	quiet := f.op2("orr", x, f.bits(0x00400000))
	number := f.op2("fcmeq", x, x)
	return f.op2("and", f.pick(number, r, quiet), f.bits(0xffff0000))
}

// neonBinary writes the routines of genBinary.
func neonBinary(file *neonFile) {
	for _, name := range []string{"add", "sub", "mul", "div", "max", "min"} {
		f := file.add(name+"Into", "dst *float32, a *float32, b *float32, blocks int", "",
			"is dst = f(a, b) over blocks*lanes floats; blocks > 0, dst may be a or b.")
		file.list("binary", name, "")
		f.eachBlock(func(a, b vec8) vec8 { return f.op2("f"+name, a, b) })
	}
	for _, r := range []struct {
		name, op     string
		swap, negate bool
	}{{"eq", "fcmeq", false, false}, {"ne", "fcmeq", false, true}, {"lt", "fcmgt", true, false},
		{"le", "fcmge", true, false},
		{"gt", "fcmgt", false, false}, {"ge", "fcmge", false, false}} {
		f := file.add(r.name+"Bytes", "dst *uint8, a *float32, b *float32, blocks int", "",
			"is dst = 1 where the relation of a and b holds, else 0, over blocks*lanes elements; blocks > 0.")
		file.list("compare", r.name, "")
		f.compare(r.op, r.swap, r.negate)
	}
	neonChoose(file)
	neonBits(file)
}

// eachBlock writes the body of a binary function.
func (f *neonFunc) eachBlock(do func(a, b vec8) vec8) {
	dst, a, b, n := f.param("dst"), f.param("a"), f.param("b"), f.param("blocks")
	f.label("loop")
	y := do(f.loadPair(a, 0), f.loadPair(b, 0))
	f.store(dst, 0, y[:]...)
	for _, p := range []gpr{dst, a, b} {
		f.ins("ADD $32, %v, %v", p, p)
	}
	f.count(n, "loop")
	f.ret()
}

// compare writes the body of a comparison, which stores a byte 1 or 0 for each lane.
func (f *neonFunc) compare(op string, swap, negate bool) {
	dst, a, b, n := f.param("dst"), f.param("a"), f.param("b"), f.param("blocks")
	f.useConstants()
	ones := f.bits(0x01010101)
	f.label("loop")
	x, y := f.loadPair(a, 0), f.loadPair(b, 0)
	if swap {
		x, y = y, x
	}
	f.storeTruth(f.op2(op, x, y), ones, negate, dst)
	f.ins("ADD $8, %v, %v", dst, dst)
	f.ins("ADD $32, %v, %v", a, a)
	f.ins("ADD $32, %v, %v", b, b)
	f.count(n, "loop")
	f.ret()
}

// storeTruth stores a byte 1 or 0 for each lane of a mask.
func (f *neonFunc) storeTruth(m vec8, ones vreg, negate bool, dst gpr) {
	bytes := f.reg()
	f.into("uzp1h", bytes, m[0], m[1])
	f.word(0x0e212800, "xtn v%d.8b, v%d.8h", bytes, bytes)
	f.into("and", bytes, bytes, ones)
	if negate {
		f.into("eor", bytes, bytes, ones)
	}
	f.ins("FMOVD F%v, (%v)", bytes, dst)
}

func neonChoose(file *neonFile) {
	f := file.add("choose", "dst *float32, cond *uint8, t *float32, f *float32, blocks int", "",
		"is dst = t where cond is not 0, f elsewhere, over blocks*lanes elements; blocks > 0, dst may be t or f.")
	dst, cond, yes, no, n := f.param("dst"), f.param("cond"), f.param("t"), f.param("f"), f.param("blocks")
	f.label("loop")
	c, words, m := f.reg(), f.reg(), f.pair()
	f.ins("FMOVD (%v), F%v", cond, c)
	f.ins("VUSHLL $0, V%v.B8, V%v.H8", c, words)
	f.ins("VUSHLL2 $0, V%v.H8, V%v.S4", words, m[1])
	f.ins("VUSHLL $0, V%v.H4, V%v.S4", words, m[0])
	f.op3("cmtst", m, m, m)
	y := f.pick(m, f.loadPair(yes, 0), f.loadPair(no, 0))
	f.store(dst, 0, y[:]...)
	f.ins("ADD $8, %v, %v", cond, cond)
	for _, p := range []gpr{dst, yes, no} {
		f.ins("ADD $32, %v, %v", p, p)
	}
	f.count(n, "loop")
	f.ret()
}

// neonBits writes the routines of vec.bits.
func neonBits(file *neonFile) {
	for _, op := range []struct {
		name, combine string // not: none, and ones
		truths        bool
	}{{"and", "and", false}, {"or", "orr", false}, {"xor", "eor", false}, {"not", "", false},
		{"and_bool", "and", true}, {"or_bool", "orr", true}, {"xor_bool", "eor", true}, {"not_bool", "", true}} {
		f := file.add(symbol(op.name)+"Bits", "dst *uint8, a *uint8, b *uint8, blocks int", "",
			"is dst = f(a, b) over blocks of 32 bytes; blocks > 0, dst may be a or b.")
		file.list("bits", op.name, "")
		constant := op.truths || op.combine == ""
		if constant {
			f.useConstants()
		}
		f.eachBlock(func(a, b vec8) vec8 {
			truth := func(x vec8) vec8 {
				ones := f.bits(0x01010101)
				for _, r := range x {
					f.word(0x6e206c00, "umin v%d.16b, v%d.16b, v%d.16b", r, r, ones)
				}
				return x
			}
			switch {
			case op.combine == "" && op.truths:
				return f.op2("eor", truth(a), f.bits(0x01010101))
			case op.combine == "":
				return f.op2("eor", a, f.bits(0xffffffff))
			case op.truths:
				return f.op2(op.combine, truth(a), truth(b))
			}
			return f.op2(op.combine, a, b)
		})
	}
}
