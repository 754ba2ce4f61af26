package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genIntegers writes the binary functions of 32-bit integers for which loops in Go are slow: shifts, by any count, and
// divisions.
func genIntegers(v vec) {
	v.integers("shift_left_i32", func(a, b VecVirtual) VecVirtual { VPSLLVD(b, a, a); return a })
	v.integers("shift_left_u32", func(a, b VecVirtual) VecVirtual { VPSLLVD(b, a, a); return a })
	v.integers("shift_right_i32", func(a, b VecVirtual) VecVirtual { VPSRAVD(b, a, a); return a })
	v.integers("shift_right_u32", func(a, b VecVirtual) VecVirtual { VPSRLVD(b, a, a); return a })
	v.integers("div_i32", v.quotient)
	v.integers("remainder_i32", v.remainder)
	v.integers("mod_i32", func(a, b VecVirtual) VecVirtual {
		r := v.remainder(a, b)
		wrong, other := v.reg(), v.zero() // wrong: r is not 0 and its sign differs from that of b
		VPSUBD(r, other, other)
		v.or(r, other, other)
		v.xor(r, b, wrong)
		v.and(other, wrong, wrong)
		VPSRAD(Imm(31), wrong, wrong)
		v.and(b, wrong, wrong)
		VPADDD(wrong, r, r)
		return r
	})
}

// integers writes a function. The routine returns whether an element of b is 0.
func (v vec) integers(function string, f func(a, b VecVirtual) VecVirtual) {
	name := symbol(function) + v.name
	entries = append(entries, entry{"integer", v.name, function, name})
	TEXT(name, NOSPLIT, "func(dst, a, b *uint8, blocks int) (zeros int)")
	Doc(
		name + " is dst = f(a, b) over blocks*lanes elements; blocks > 0, dst may be a or b. zeros is 0 if no element of b is.")
	Pragma("noescape")
	dst, a, b := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	n := Load(Param("blocks"), GP64())
	least := v.load(bitsConst(0xffffffff)) // of b, unsigned
	i := GP64()
	XORQ(i, i)
	Label("loop")
	x, y := v.reg(), v.reg()
	VMOVUPS(Mem{Base: a, Index: i, Scale: 1}, x)
	VMOVUPS(Mem{Base: b, Index: i, Scale: 1}, y)
	VPMINUD(y, least, least)
	VMOVUPS(f(x, y), Mem{Base: dst, Index: i, Scale: 1})
	ADDQ(Imm(uint64(v.bytes())), i)
	DECQ(n)
	JNE(LabelRef("loop"))
	zeros := GP64()
	if v.wide() {
		k := K()
		VPTESTNMD(least, least, k)
		KMOVW(k, zeros.As32())
	} else {
		VPCMPEQD(v.zero(), least, least)
		VMOVMSKPS(least, zeros.As32())
	}
	Store(zeros, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// quotient is a/b, rounded towards zero. It divides doubles. Their quotient is not rounded across an integer: an exact
// quotient that is not an integer is at least 1/b away from one, and the rounding error is below 2^-22/b. The
// conversion to integers wraps 2^31 as required.
func (v vec) quotient(a, b VecVirtual) VecVirtual {
	var halves [2]VecVirtual
	for h := range halves {
		x, y := v.half(a, h), v.half(b, h)
		VDIVPD(y, x, x)
		if v.wide() {
			halves[h] = YMM()
			VCVTTPD2DQ(x, halves[h])
		} else {
			halves[h] = XMM()
			VCVTTPD2DQY(x, halves[h])
		}
	}
	q := v.reg()
	if v.wide() {
		VINSERTI64X4(Imm(1), halves[1], halves[0].AsZ(), q)
	} else {
		VINSERTI128(Imm(1), halves[1], halves[0].AsY(), q)
	}
	return q
}

// half returns half of the lanes of x as doubles.
func (v vec) half(x VecVirtual, h int) VecVirtual {
	d := v.reg()
	switch {
	case v.wide() && h == 0:
		VCVTDQ2PD(x.AsY(), d)
	case v.wide():
		y := YMM()
		VEXTRACTI64X4(Imm(1), x, y)
		VCVTDQ2PD(y, d)
	case h == 0:
		VCVTDQ2PD(x.AsX(), d)
	default:
		y := XMM()
		VEXTRACTI128(Imm(1), x, y)
		VCVTDQ2PD(y, d)
	}
	return d
}

// remainder has the sign of a.
func (v vec) remainder(a, b VecVirtual) VecVirtual {
	q := v.quotient(a, b)
	VPMULLD(b, q, q)
	VPSUBD(q, a, a)
	return a
}
