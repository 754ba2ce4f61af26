package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genAttention writes the passes over one panel of scores, s[keys, 2*lanes]: one row per key, one column per query, so that
// the softmax over the keys is vertical and needs no shuffles.
func genAttention(v vec) {
	scoreMax(v, false)
	scoreMax(v, true)
	expSum(v)
	scaleRows(v)
}

func scoreMax(v vec, biased bool) {
	name, sig := "scoreMax"+v.name, "func(s *float32, keys int, scale float32, max *float32)"
	doc := " scales the scores in place and raises max[2*lanes] to the largest of each column. NaN does not enter max."
	if biased {
		name, sig = "scoreBiasMax"+v.name, "func(s *float32, keys int, scale float32, row, each, max *float32)"
		doc = " is s[j] = s[j]*scale + row + each[j], all of them vectors of 2*lanes queries, and raises max as scoreMax does."
	}
	TEXT(name, NOSPLIT, sig)
	Doc(name + doc)
	Pragma("noescape")
	s := Load(Param("s"), GP64())
	keys := Load(Param("keys"), GP64())
	max := Load(Param("max"), GP64())
	scale := v.reg()
	addr, err := Param("scale").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(addr.Addr, scale)
	m := [2]VecVirtual{v.reg(), v.reg()}
	add := [2]VecVirtual{v.reg(), v.reg()}
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
	ADDQ(Imm(uint64(2*v.bytes())), s)
	if biased {
		ADDQ(Imm(uint64(2*v.bytes())), each.(GPVirtual))
	}
	DECQ(keys)
	JNE(LabelRef("key"))
	for i := range m {
		VMOVUPS(m[i], Mem{Base: max, Disp: i * v.bytes()})
	}
	VZEROUPPER()
	RET()
}

func expSum(v vec) {
	name := "expSum" + v.name
	TEXT(name, NOSPLIT, "func(s *float32, keys int, max, sum *float32)")
	Doc(name + " is s[j] = exp(s[j] - max) in place, and adds the results to sum[2*lanes].")
	Pragma("noescape")
	s := Load(Param("s"), GP64())
	keys := Load(Param("keys"), GP64())
	max := Load(Param("max"), GP64())
	sum := Load(Param("sum"), GP64())
	acc := [2]VecVirtual{v.reg(), v.reg()}
	for i := range acc {
		VMOVUPS(Mem{Base: sum, Disp: i * v.bytes()}, acc[i])
	}
	Label("key")
	for i := range acc {
		x := v.reg()
		VMOVUPS(Mem{Base: s, Disp: i * v.bytes()}, x)
		VSUBPS(Mem{Base: max, Disp: i * v.bytes()}, x, x)
		e := v.exp(x, nil)
		VMOVUPS(e, Mem{Base: s, Disp: i * v.bytes()})
		VADDPS(e, acc[i], acc[i])
	}
	ADDQ(Imm(uint64(2*v.bytes())), s)
	DECQ(keys)
	JNE(LabelRef("key"))
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: sum, Disp: i * v.bytes()})
	}
	VZEROUPPER()
	RET()
}

func scaleRows(v vec) {
	name := "scaleRows" + v.name
	TEXT(name, NOSPLIT, "func(x *float32, rows int, by *float32)")
	Doc(name + " is x[i] *= by, both vectors of 2*lanes, for i < rows.")
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	rows := Load(Param("rows"), GP64())
	by := Load(Param("by"), GP64())
	f := [2]VecVirtual{v.reg(), v.reg()}
	for i := range f {
		VMOVUPS(Mem{Base: by, Disp: i * v.bytes()}, f[i])
	}
	Label("row")
	for i := range f {
		t := v.reg()
		VMULPS(Mem{Base: x, Disp: i * v.bytes()}, f[i], t)
		VMOVUPS(t, Mem{Base: x, Disp: i * v.bytes()})
	}
	ADDQ(Imm(uint64(2*v.bytes())), x)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}
