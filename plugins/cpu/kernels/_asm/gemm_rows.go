package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rowsProduct writes the product of rows of A as they are stored and packed panels of B, of so many vectors: C[rows,
// n*panels] = A·B (+ C). The distances between rows of A and of C are in floats. During panel i, the kernel prefetches
// memory from ahead + i*aheadRow on, aheadStep bytes further after every 32 elements of k.
func rowsProduct(v vec, rows, vecs int) {
	width := vecs * v.bytes() // bytes of a row of a panel
	name := fmt.Sprintf("gemmRows%dx%d%s", rows, vecs*v.lanes, v.name)
	TEXT(
		name, NOSPLIT,
		"func(k int, a *float32, lda int, b, c *float32, ldc, panels, accumulate int, ahead uintptr, aheadStep, aheadRow int)")
	Doc(
		fmt.Sprintf(
			"%s is the kernel for %d rows of A as they are stored, see rowsProduct in _asm/gemm_rows.go. k, panels > 0.",
			name, rows))
	Pragma("noescape")
	lda, ahead := R9, R13
	starts := []GPPhysical{productA, R8} // of rows 0 and 3 of A
	MOVQ(arg("lda"), lda)
	SHLQ(U8(2), lda)
	MOVQ(arg("b"), productB)
	MOVQ(arg("ldc"), productLdc)
	SHLQ(U8(2), productLdc)
	const last = 16 // number of registers, which are used as in productSums
	var sums [][]VecPhysical
	for i := range rows {
		sums = append(sums, []VecPhysical{v.phys(vecs * i), v.phys(vecs*i + vecs - 1)}[:vecs])
	}
	bs := []VecPhysical{v.phys(last - 1), v.phys(last - 2)}[:vecs]
	tmp := []VecPhysical{v.phys(last - 3), v.phys(last - 4)}
	Label("panel")
	MOVQ(arg("ahead"), ahead)
	MOVQ(arg("a"), starts[0])
	LEAQ(Mem{Base: starts[0], Index: lda, Scale: 2}, starts[1])
	ADDQ(lda, starts[1])
	MOVQ(arg("c"), productC)
	MOVQ(productC, productCursor)
	for _, s := range sums { // C is needed after the loop
		macro(fmt.Sprint("BEGIN_ROW", vecs, "_", v.name), append([]any{width - 4}, names(s)...)...)
	}
	step := func(u int) {
		for j := range bs {
			VMOVUPS(Mem{Base: productB, Disp: u*width + j*v.bytes()}, bs[j])
		}
		for line := 0; line < width; line += 64 {
			PREFETCHT0(Mem{Base: productB, Disp: (u+8)*width + line})
		}
		for i := range rows {
			at := fmt.Sprintf("%d(%s)", 4*u, starts[i/3].Asm())
			if i%3 > 0 {
				at += fmt.Sprintf("(%s*%d)", lda.Asm(), i%3)
			}
			macro(fmt.Sprint("FMA_ROW", vecs), append([]any{at, tmp[i%2].Asm()}, names(bs, sums[i])...)...)
		}
	}
	advance := func(n int) {
		for _, s := range starts {
			ADDQ(Imm(uint64(4*n)), s)
		}
		ADDQ(U32(uint32(n*width)), productB)
	}
	MOVQ(arg("k"), productK)
	const unroll = 4
	SUBQ(Imm(unroll), productK)
	JLT(LabelRef("rest"))
	Label("loop")
	TESTQ(U32(32-unroll), productK)
	JNE(LabelRef("within"))
	PREFETCHT1(Mem{Base: ahead})
	ADDQ(arg("aheadStep"), ahead)
	Label("within")
	for u := range unroll {
		step(u)
	}
	advance(unroll)
	SUBQ(Imm(unroll), productK)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), productK)
	JEQ(LabelRef("done"))
	Label("single")
	step(0)
	advance(1)
	DECQ(productK)
	JNE(LabelRef("single"))
	Label("done")
	CMPQ(arg("accumulate"), Imm(0))
	JEQ(LabelRef("store"))
	MOVQ(productC, productCursor)
	for _, s := range sums {
		macro(fmt.Sprint("ADD_ROW", vecs), append([]any{productLdc.Asm(), v.bytes()}, names(s)...)...)
	}
	Label("store")
	for _, s := range sums {
		macro(fmt.Sprint("STORE_ROW", vecs), append([]any{v.bytes()}, names(s)...)...)
	}
	MOVQ(arg("aheadRow"), ahead)
	ADDQ(ahead, arg("ahead"))
	ADDQ(U32(uint32(width)), arg("c"))
	DECQ(arg("panels"))
	JNE(LabelRef("panel"))
	VZEROUPPER()
	RET()
}
