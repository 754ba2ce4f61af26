package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genAttention writes the passes over one panel of scores s[keys, n], with a row per key and a column per query, so
// that the softmax over keys goes down the columns and needs no shuffles. A panel has two vectors of queries, or one
// ("Narrow").
func genAttention(v vec) {
	for _, vecs := range []int{2, 1} {
		scoreMax(v, vecs, false)
		scoreMax(v, vecs, true)
		expSum(v, vecs)
		scaleRows(v, vecs)
	}
}

// panelName returns the name of a routine for panels of the given number of vectors.
func (v vec) panelName(name string, vecs int) string {
	if vecs == 1 {
		name += "Narrow"
	}
	return name + v.name
}

func (v vec) regs(n int) []VecVirtual {
	r := make([]VecVirtual, n)
	for i := range r {
		r[i] = v.reg()
	}
	return r
}

func scoreMax(v vec, vecs int, biased bool) {
	name, sig := v.panelName("scoreMax", vecs), "func(s *float32, keys int, scale float32, max *float32)"
	doc := " multiplies the scores by scale in place and raises max to the largest of each column. It ignores NaN."
	if biased {
		name, sig = v.panelName("scoreBiasMax", vecs),
			"func(s *float32, keys int, scale float32, row, each, max *float32)"
		doc = " is s[j] = s[j]*scale + row + each[j] for the rows s[j] of the panel, and raises max as scoreMax does."
	}
	TEXT(name, NOSPLIT, sig)
	Doc(name + doc)
	Pragma("noescape")
	s := Load(Param("s"), GP64())
	keys := Load(Param("keys"), GP64())
	max := Load(Param("max"), GP64())
	scale := v.broadcast("scale")
	m := v.regs(vecs)
	add := v.regs(vecs)
	var each Register
	for i := range m {
		VMOVUPS(Mem{Base: max, Disp: i * v.bytes()}, m[i])
	}
	if biased {
		row := Load(Param("row"), GP64())
		each = Load(Param("each"), GP64())
		for i := range add {
			VMOVUPS(Mem{Base: row, Disp: i * v.bytes()}, add[i])
		}
	}
	Label("key")
	for i := range m {
		x := v.reg()
		VMOVUPS(Mem{Base: s, Disp: i * v.bytes()}, x)
		if biased {
			VFMADD213PS(add[i], scale, x)
			VADDPS(Mem{Base: each, Disp: i * v.bytes()}, x, x)
		} else {
			VMULPS(scale, x, x)
		}
		VMOVUPS(x, Mem{Base: s, Disp: i * v.bytes()})
		VMAXPS(m[i], x, m[i])
	}
	ADDQ(Imm(uint64(vecs*v.bytes())), s)
	if biased {
		ADDQ(Imm(uint64(vecs*v.bytes())), each.(GPVirtual))
	}
	DECQ(keys)
	JNE(LabelRef("key"))
	for i := range m {
		VMOVUPS(m[i], Mem{Base: max, Disp: i * v.bytes()})
	}
	VZEROUPPER()
	RET()
}

func expSum(v vec, vecs int) {
	name := v.panelName("expSum", vecs)
	TEXT(name, NOSPLIT, "func(s *float32, keys int, max, sum *float32)")
	Doc(name + " is s[j] = 2^(s[j] - max) in place, and adds the results to sum. Results below 2^-126 may become 0.")
	Pragma("noescape")
	s := Load(Param("s"), GP64())
	keys := Load(Param("keys"), GP64())
	max := Load(Param("max"), GP64())
	sum := Load(Param("sum"), GP64())
	acc, m := v.regs(vecs), make([]Op, vecs)
	for i := range acc {
		VMOVUPS(Mem{Base: sum, Disp: i * v.bytes()}, acc[i])
		m[i] = Mem{Base: max, Disp: i * v.bytes()}
	}
	low := v.load(f32(v.exp2Low()))
	var c []Op // the polynomial, in registers if there are enough
	for _, x := range exp2Poly() {
		c = append(c, f32(x))
	}
	if v.wide() {
		for i := range c {
			c[i] = v.load(c[i].(Mem))
		}
		for i := range m {
			m[i] = v.load(m[i].(Mem))
		}
	}
	Label("key")
	for i := range acc {
		x := v.reg()
		VMOVUPS(Mem{Base: s, Disp: i * v.bytes()}, x)
		VSUBPS(m[i], x, x)
		e := v.exp2(x, low, c)
		VMOVUPS(e, Mem{Base: s, Disp: i * v.bytes()})
		VADDPS(e, acc[i], acc[i])
	}
	ADDQ(Imm(uint64(vecs*v.bytes())), s)
	DECQ(keys)
	JNE(LabelRef("key"))
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: sum, Disp: i * v.bytes()})
	}
	VZEROUPPER()
	RET()
}

// exp2Low is the argument below which exp2 is 0.
func (v vec) exp2Low() float64 {
	if v.wide() {
		return -126
	}
	return -127
}

// exp2 is 2^x for x <= 1. It overwrites x. NaN stays NaN. No instruction underflows, which would take over a hundred
// cycles; that matters, since masked keys have scores of -Inf.
func (v vec) exp2(x, low VecVirtual, c []Op) VecVirtual {
	n, p := v.reg(), v.reg()
	if v.wide() {
		k := K()
		VCMPPS(Imm(cmpNotLT), low, x, k)
		VRNDSCALEPS(Imm(0), x, n)
		v.exp2Rest(x, n, p, c)
		VSCALEFPS_Z(n, p, k, p)
		return p
	}
	VMAXPS(x, low, x) // keeps NaN
	VROUNDPS(Imm(0), x, n)
	v.exp2Rest(x, n, p, c)
	VCVTPS2DQ(n, n)
	VPADDD(bitsConst(127), n, n) // -127 becomes the bits of 0
	VPSLLD(Imm(23), n, n)
	VMULPS(n, p, p)
	return p
}

// exp2Rest is p = 2^(x-n). It overwrites x.
func (v vec) exp2Rest(x, n, p VecVirtual, c []Op) {
	VSUBPS(n, x, x)
	VMOVUPS(c[len(c)-1], p)
	for i := len(c) - 2; i >= 0; i-- {
		VFMADD213PS(c[i], x, p)
	}
}

func scaleRows(v vec, vecs int) {
	name := v.panelName("scaleRows", vecs)
	TEXT(name, NOSPLIT, "func(x *float32, rows int, by *float32)")
	Doc(name + " is x[i] *= by, both rows of a panel, for i < rows.")
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	rows := Load(Param("rows"), GP64())
	by := Load(Param("by"), GP64())
	f := v.regs(vecs)
	for i := range f {
		VMOVUPS(Mem{Base: by, Disp: i * v.bytes()}, f[i])
	}
	Label("row")
	for i := range f {
		t := v.reg()
		VMULPS(Mem{Base: x, Disp: i * v.bytes()}, f[i], t)
		VMOVUPS(t, Mem{Base: x, Disp: i * v.bytes()})
	}
	ADDQ(Imm(uint64(vecs*v.bytes())), x)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}
