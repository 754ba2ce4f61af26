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
			function := op.name + "_" + kind
			name := symbol(function) + v.name
			entries = append(entries, entry{"half", v.name, function, name})
			TEXT(name, NOSPLIT, "func(dst, a, b *uint16, blocks int)")
			Doc(name+" is dst = f(a, b) over blocks*lanes elements of "+kind+", rounded to the nearest, ties to even; blocks > 0, dst may be a", "or b.")
			Pragma("noescape")
			dst, a, b := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
			n := Load(Param("blocks"), GP64())
			i := GP64()
			XORQ(i, i)
			Label("loop")
			x, y := v.widened(kind, Mem{Base: a, Index: i, Scale: 1}), v.widened(kind, Mem{Base: b, Index: i, Scale: 1})
			v.storeNarrowed(kind, op.f(x, y), Mem{Base: dst, Index: i, Scale: 1})
			ADDQ(Imm(uint64(2*v.lanes)), i)
			DECQ(n)
			JNE(LabelRef("loop"))
			VZEROUPPER()
			RET()
		}
	}
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
