package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genHalves writes binary functions of f16 and bf16, which widen, compute and round in registers.
func genHalves(v vec) {
	for _, kind := range []string{"f16", "bf16"} {
		for _, op := range v.arithmetic() {
			v.halves(op, kind, kind)
			v.halves(op, kind, "f32")
			v.halves(op, "f32", kind)
		}
	}
}

// halves writes a function of operands of two types. One is f16 or bf16, the type of the result; the other is of that
// type too, or f32.
func (v vec) halves(op floatFunction, first, second string) {
	table, function, params := "half", op.name+"_"+first, "dst, a, b *uint16"
	kind, does, may := first, "dst = f(a, b) over blocks*lanes elements of "+first, "a or b"
	if first != second {
		table, function, params = "halfMixed", op.name+"_"+first+"_"+second, "dst, a *uint16, b *float32"
		does, may = "dst = f(a, b) over blocks*lanes elements, a of "+first+", b of f32", "a"
	}
	if first == "f32" {
		kind, does = second, "dst = f(b, a) over blocks*lanes elements, a of "+second+", b of f32"
	}
	name := symbol(function) + v.name
	entries = append(entries, entry{table, v.name, function, name})
	TEXT(name, NOSPLIT, "func("+params+", blocks int)")
	Doc(name+" is "+does+", rounded to the nearest, ties to even;", "blocks > 0, dst may be "+may+".")
	Pragma("noescape")
	dst, a, b := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	n := Load(Param("blocks"), GP64())
	i := GP64()
	XORQ(i, i)
	Label("loop")
	x := v.widened(kind, Mem{Base: a, Index: i, Scale: 1})
	var result VecVirtual
	switch float := (Mem{Base: b, Index: i, Scale: 2}); {
	case first == second:
		result = op.f(x, v.widened(kind, Mem{Base: b, Index: i, Scale: 1}))
	case second == "f32":
		result = op.f(x, float)
	default:
		result = op.f(v.load(float), x)
	}
	v.storeNarrowed(kind, result, Mem{Base: dst, Index: i, Scale: 1})
	ADDQ(Imm(uint64(2*v.lanes)), i)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// widened loads elements of f16 or bf16 as floats.
func (v vec) widened(kind string, src Mem) VecVirtual {
	r := v.reg()
	if kind == "f16" {
		VCVTPH2PS(src, r)
	} else {
		VPMOVZXWD(src, r)
		VPSLLD(Imm(16), r, r)
	}
	return r
}

// storeNarrowed rounds floats to f16 or bf16 and stores them.
func (v vec) storeNarrowed(kind string, x VecVirtual, dst Mem) {
	if kind == "f16" {
		VCVTPS2PH(Imm(0), x, dst)
		return
	}
	r := v.rounded(x)
	VPSRLD(Imm(16), r, r)
	if v.wide() {
		VPMOVDW(r, dst)
		return
	}
	VPACKUSDW(r, r, r)
	VPERMQ(Imm(0b1000), r, r)
	VMOVDQU(r.AsX(), dst)
}
