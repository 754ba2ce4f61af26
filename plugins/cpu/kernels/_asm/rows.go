package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genRows writes the passes of norms over one row, for whole vectors only. Go code computes the last elements.
func genRows(v vec) {
	rowReduce(v, "sum", false)
	rowReduce(v, "deviations", true)
	normalize(v)
}

// rowReduce writes the sum of x, or of mean-x and of its square, with four accumulators per lane.
func rowReduce(v vec, what string, center bool) {
	name := what + v.name
	sig, doc := "func(x *float32, blocks int) float32", " is the sum of blocks*lanes floats; blocks > 0."
	if center {
		sig = "func(x *float32, blocks int, mean float32, distance *float32) float32"
		doc = " is the sum of (x-mean)^2 over blocks*lanes floats; blocks > 0. distance becomes the sum of mean-x."
	}
	TEXT(name, NOSPLIT, sig)
	Doc(name + doc)
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	n := Load(Param("blocks"), GP64())
	var mean VecVirtual
	if center {
		mean = v.broadcast("mean")
	}
	acc, distances := [4]VecVirtual{}, [4]VecVirtual{}
	for i := range acc {
		acc[i] = v.zero()
		if center {
			distances[i] = v.zero()
		}
	}
	step := func(i int) {
		m := Mem{Base: x, Disp: i * v.bytes()}
		if !center {
			VADDPS(m, acc[i], acc[i])
			return
		}
		t := v.reg()
		VSUBPS(m, mean, t)
		VADDPS(t, distances[i], distances[i])
		VFMADD231PS(t, t, acc[i])
	}
	SUBQ(Imm(4), n)
	JLT(LabelRef("rest"))
	Label("four")
	for i := range acc {
		step(i)
	}
	ADDQ(U32(uint32(4*v.bytes())), x)
	SUBQ(Imm(4), n)
	JGE(LabelRef("four"))
	Label("rest")
	ADDQ(Imm(4), n)
	JEQ(LabelRef("sum"))
	Label("one")
	step(0)
	ADDQ(Imm(uint64(v.bytes())), x)
	DECQ(n)
	JNE(LabelRef("one"))
	Label("sum")
	total := func(acc [4]VecVirtual) Register {
		VADDPS(acc[1], acc[0], acc[0])
		VADDPS(acc[3], acc[2], acc[2])
		VADDPS(acc[2], acc[0], acc[0])
		return v.lane(acc[0])
	}
	VMOVSS(total(acc), result())
	if center {
		VMOVSS(total(distances), Mem{Base: Load(Param("distance"), GP64())})
	}
	VZEROUPPER()
	RET()
}

func normalize(v vec) {
	name := "normalize" + v.name
	TEXT(name, NOSPLIT, "func(dst, x, gamma, beta *float32, blocks int, mean, scale, shift float32)")
	Doc(name + " is dst = ((x-mean)*scale + shift)*gamma + beta over blocks*lanes floats; blocks > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	x := Load(Param("x"), GP64())
	gamma := Load(Param("gamma"), GP64())
	beta := Load(Param("beta"), GP64())
	n := Load(Param("blocks"), GP64())
	mean, scale, shift := v.broadcast("mean"), v.broadcast("scale"), v.broadcast("shift")
	i := GP64()
	XORQ(i, i)
	Label("loop")
	t := v.reg()
	VMOVUPS(Mem{Base: x, Index: i, Scale: 1}, t)
	VSUBPS(mean, t, t)
	VFMADD213PS(shift, scale, t)
	b := v.reg()
	VMOVUPS(Mem{Base: beta, Index: i, Scale: 1}, b)
	VFMADD231PS(Mem{Base: gamma, Index: i, Scale: 1}, t, b)
	VMOVUPS(b, Mem{Base: dst, Index: i, Scale: 1})
	ADDQ(Imm(uint64(v.bytes())), i)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
