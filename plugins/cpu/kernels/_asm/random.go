package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genRandom writes the random numbers of core/random.
func genRandom(v vec) {
	name := "threefry" + v.name
	TEXT(name, NOSPLIT, "func(dst *uint32, blocks int, counter, first, key0, key1 uint32)")
	Doc(
		name+" is the first word of threefry2x32-20 with the counters (counter, first+i), i < blocks*lanes, under a key; blocks > 0.",
		"See package random.")
	Pragma("noescape")
	dst, n := Load(Param("dst"), GP64()), Load(Param("blocks"), GP64())
	k0, k1, k2 := v.broadcast("key0"), v.broadcast("key1"), v.load(bitsConst(0x1bd11bda))
	v.xor(k0, k2, k2)
	v.xor(k1, k2, k2)
	// A pair is added to the two words after every four rounds.
	type pair struct{ first, second VecVirtual }
	plus := func(k VecVirtual, i uint32) VecVirtual {
		sum := v.reg()
		VPADDD(bitsConst(i), k, sum)
		return sum
	}
	added := []pair{{k1, plus(k2, 1)}, {k2, plus(k0, 2)}, {k0, plus(k1, 3)}, {k1, plus(k2, 4)}, {k2, nil}}
	c0, c1 := v.broadcast("counter"), v.broadcast("first")
	VPADDD(k0, c0, c0)
	VPADDD(k1, c1, c1)
	each := GLOBL("eachLane"+v.name, 8|16) // RODATA|NOPTR
	for i := range v.lanes {
		DATA(4*i, U32(uint32(i)))
	}
	VPADDD(each, c1, c1)
	Label("loop")
	x0, x1 := v.reg(), v.reg()
	VMOVUPS(c0, x0)
	VMOVUPS(c1, x1)
	for i, k := range added {
		for _, by := range [][]uint64{{13, 15, 26, 6}, {17, 29, 16, 24}}[i%2] {
			VPADDD(x1, x0, x0)
			v.rotate(x1, by)
			v.xor(x0, x1, x1)
		}
		VPADDD(k.first, x0, x0)
		if k.second != nil {
			VPADDD(k.second, x1, x1)
		}
	}
	VMOVUPS(x0, Mem{Base: dst})
	VPADDD(bitsConst(uint32(v.lanes)), c1, c1)
	ADDQ(Imm(uint64(v.bytes())), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// rotate rotates integers to the left.
func (v vec) rotate(x VecVirtual, by uint64) {
	if v.wide() {
		VPROLD(Imm(by), x, x)
		return
	}
	high := v.reg()
	VPSRLD(Imm(32-by), x, high)
	VPSLLD(Imm(by), x, x)
	VPOR(high, x, x)
}
