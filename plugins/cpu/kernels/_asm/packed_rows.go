package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// fewRowsQ8 writes the product of pairs of rows of weights in q8_0 and some rows of bytes, for AVX2: the weights are
// loaded, and their signs removed, once for all of these. Additions have the order of the product with one row, so the
// bits are the same.
func fewRowsQ8(rows int) {
	const bytes = 34 // of a block
	name := fmt.Sprintf("dotRows%dQ8_0", rows)
	TEXT(name, NOSPLIT, "func(dst *float32, ldc int, w *byte, stride, pairs int, x *int8, dx *float32, blocks int)")
	Doc(fmt.Sprintf("%s sets dst[m*ldc+r] to the dot product of row m of x and the row at w+r*stride, for m < %d and r < 2*pairs.",
		name, rows),
		fmt.Sprintf("x is [blocks][%d][32], and dx [blocks][%d] has their scales. blocks is the number of blocks in a row. stride counts",
			rows, rows), "bytes. pairs and blocks > 0.")
	Pragma("noescape")
	dst, ldc, w, stride := Load(Param("dst"), GP64()), Load(Param("ldc"), GP64()), GP64(), Load(Param("stride"), GP64())
	pairs, x, dx, n, row := Load(Param("pairs"), GP64()), GP64(), GP64(), GP64(), Load(Param("w"), GP64())
	SHLQ(Imm(2), ldc)
	third := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, third)
	Label("pair")
	MOVQ(row, w)
	MOVQ(arg("x"), x)
	MOVQ(arg("dx"), dx)
	MOVQ(arg("blocks"), n)
	acc := make([][2]VecVirtual, rows)
	for m := range acc {
		for i := range acc[m] {
			acc[m][i] = YMM()
			VXORPS(acc[m][i], acc[m][i], acc[m][i])
		}
	}
	at := func(i, disp int) Mem {
		if i == 0 {
			return Mem{Base: w, Disp: disp}
		}
		return Mem{Base: w, Index: stride, Scale: 1, Disp: disp}
	}
	Label("block")
	var magnitude, scale [2]VecVirtual
	for i := range magnitude {
		magnitude[i], scale[i] = YMM(), YMM()
		VPABSB(at(i, 2), magnitude[i])
		half := XMM()
		VPBROADCASTW(at(i, 0), half)
		VCVTPH2PS(half, scale[i])
	}
	for m := range rows {
		q, d := vectorOf(Mem{Base: x, Disp: 32 * m}), YMM()
		VBROADCASTSS(Mem{Base: dx, Disp: 4 * m}, d)
		for i := range magnitude {
			t, s := YMM(), d
			if i == 0 {
				s = YMM()
			}
			VPSIGNB(at(i, 2), q, t)
			VPMADDUBSW(t, magnitude[i], t)
			VPMADDWD(wordOnes(), t, t)
			VCVTDQ2PS(t, t)
			VMULPS(d, scale[i], s)
			VFMADD231PS(s, t, acc[m][i])
		}
	}
	// the next pair, which may be in memory
	PREFETCHT0(Mem{Base: w, Index: stride, Scale: 2})
	PREFETCHT0(Mem{Base: w, Index: third, Scale: 1})
	ADDQ(U32(bytes), w)
	ADDQ(U32(uint32(32*rows)), x)
	ADDQ(U32(uint32(4*rows)), dx)
	DECQ(n)
	JNE(LabelRef("block"))
	MOVQ(dst, x)
	for m := range acc {
		for i := range acc[m] {
			VMOVSS(vec{8, ""}.lane(acc[m][i]).AsX(), Mem{Base: x, Disp: 4 * i})
		}
		ADDQ(ldc, x)
	}
	ADDQ(Imm(8), dst)
	LEAQ(Mem{Base: row, Index: stride, Scale: 2}, row)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	VZEROUPPER()
	RET()
}
