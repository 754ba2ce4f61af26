package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genGemm writes one kernel per number of rows, for panels of two vectors of columns and of one:
// C[rows, n] = A·B (+ C) (+ bias) (+ residual), n = 2*lanes or lanes.
// A is packed k-major (rows floats per k), B is packed k-major (n floats per k).
func genGemm(v vec) {
	products(v, "gemm",
		"func(k int, a, b, c *float32, ldc int, accumulate int, bias, residual *float32, ldr int)", packedRows(fmaRow))
	if !v.wide() {
		rowsProduct(v, v.panelRows(), 2)
		rowsProduct(v, v.panelRows(), 1)
	}
	fmaLoop(v)
}

// panelRows is the largest number of rows of a kernel.
func (v vec) panelRows() int {
	if v.wide() {
		return 14
	}
	return 6
}

// products writes the kernels whose names begin with name; see product.
func products(v vec, name, sig string, left leftRows) {
	for _, vecs := range []int{2, 1} {
		for rows := 1; rows <= v.panelRows(); rows++ {
			product(v, rows, vecs, fmt.Sprintf("%s%dx%d%s", name, rows, vecs*v.lanes, v.name), sig, left)
		}
	}
}

// The registers of a kernel, which the macros of ../product/gemm_amd64.h use too. productCursor points to a row of C or
// of the residual.
var (
	productK      = RAX // after the loop: the distance between rows of the residual
	productA      = RCX
	productB      = RDX
	productC      = RBX
	productLdc    = RSI // in bytes
	productCursor = RDI
)

// unrolledRows is the number of rows from which on a step of AVX-512 along k is long enough that its loop costs
// nothing. A step has 2*rows multiply-adds, of which two start in a cycle, and 3*rows+7 instructions with the loop.
// AVX2 has kernels of fewer rows, for which the misprediction at the end of a loop of single steps costs 1 to 3 % at
// k = 256.
const unrolledRows = 4

// fmaRow writes what one step along k does for one row: it multiplies the element of A at offset disp by the row b of
// B.
func fmaRow(disp int, x VecPhysical, b, sums []VecPhysical) {
	macro(fmt.Sprint("FMA", len(b)), append([]any{disp, x.Asm()}, names(b, sums)...)...)
}

// names returns the names of registers in Go's assembly.
func names(groups ...[]VecPhysical) (out []any) {
	for _, g := range groups {
		for _, r := range g {
			out = append(out, r.Asm())
		}
	}
	return out
}

// leftRows is how a kernel reads the rows of A.
type leftRows struct {
	what     string // it reads, with %d for the number of rows
	begin    func(rows int)
	prefetch func(rows, u int)                                          // for step u along k
	row      func(rows, i, u int, x VecPhysical, b, sums []VecPhysical) // step u for row i; x is free
	advance  func(rows, steps int)
	unrolled bool // steps are unrolled for any number of rows
}

// packedRows are rows that are packed. row writes a step for one row, as fmaRow does.
func packedRows(row func(disp int, x VecPhysical, b, sums []VecPhysical)) leftRows {
	return leftRows{
		what:     "panels of A with %d rows",
		begin:    func(int) {},
		prefetch: func(rows, u int) { PREFETCHT0(Mem{Base: productA, Disp: u*rows*4 + 1536}) },
		row: func(rows, i, u int, x VecPhysical, b, sums []VecPhysical) {
			row((u*rows+i)*4, x, b, sums)
		},
		advance: func(rows, steps int) { ADDQ(Imm(uint64(steps*rows*4)), productA) },
	}
}

// productSums writes the first part of a kernel, which computes the sums of products. The registers bs are free
// afterwards.
func productSums(v vec, rows, vecs int, name, sig string, left leftRows) (sums [][]VecPhysical, bs []VecPhysical) {
	width := vecs * v.bytes() // bytes of a row of the panel of B
	TEXT(name, NOSPLIT, sig)
	Doc(fmt.Sprintf("%s is the kernel for "+left.what+", see genGemm in _asm/gemm.go.", name, rows))
	Pragma("noescape")
	MOVQ(arg("k"), productK)
	MOVQ(arg("a"), productA)
	left.begin(rows)
	MOVQ(arg("b"), productB)
	MOVQ(arg("c"), productC)
	MOVQ(arg("ldc"), productLdc)
	SHLQ(U8(2), productLdc)

	// number of registers. Sums are in the first ones, B in the last two, and elements of A in up to two before those
	last := 16
	if v.wide() {
		last = 32
	}
	bs = []VecPhysical{v.phys(last - 1), v.phys(last - 2)}[:vecs]
	tmp := []VecPhysical{v.phys(last - 3), v.phys(last - 4)}
	sums = make([][]VecPhysical, rows)
	MOVQ(productC, productCursor)
	for i := range sums {
		for j := range vecs {
			sums[i] = append(sums[i], v.phys(vecs*i+j))
		}
		macro(fmt.Sprint("BEGIN_ROW", vecs, "_", v.name), append([]any{width - 4}, names(sums[i])...)...)
	}

	ahead := 8
	if rows <= 10 {
		ahead = 24
	}
	// Weights may be either operand, and come from memory in each run of a network.
	step := func(u int) {
		for j := range bs {
			VMOVUPS(Mem{Base: productB, Disp: u*width + j*v.bytes()}, bs[j])
		}
		for line := 0; line < width; line += 64 {
			PREFETCHT0(Mem{Base: productB, Disp: (u+ahead)*width + line})
		}
		left.prefetch(rows, u)
		for i := range rows {
			left.row(rows, i, u, tmp[i%2], bs, sums[i])
		}
	}
	unroll := 1
	if rows < unrolledRows || !v.wide() || left.unrolled {
		unroll = 4
	} else {
		TESTQ(productK, productK)
		JEQ(LabelRef("end"))
	}
	unrolled(productK, unroll, func(steps int) {
		for u := range steps {
			step(u)
		}
		left.advance(rows, steps)
		ADDQ(U32(uint32(steps*width)), productB)
	})
	return sums, bs
}

// product writes one kernel.
func product(v vec, rows, vecs int, name, sig string, left leftRows) {
	sums, bs := productSums(v, rows, vecs, name, sig, left)
	// The order of additions is fixed: the product, earlier blocks of k, bias, residual.
	add := func(step GPPhysical) {
		for _, s := range sums {
			macro(fmt.Sprint("ADD_ROW", vecs), append([]any{step.Asm(), v.bytes()}, names(s)...)...)
		}
	}
	MOVQ(arg("accumulate"), productK)
	TESTQ(productK, productK)
	JEQ(LabelRef("fresh"))
	MOVQ(productC, productCursor)
	add(productLdc)
	Label("fresh")
	MOVQ(arg("bias"), productCursor)
	TESTQ(productCursor, productCursor)
	JEQ(LabelRef("nobias"))
	for j := range bs {
		VMOVUPS(Mem{Base: productCursor, Disp: j * v.bytes()}, bs[j])
	}
	for _, s := range sums {
		macro(fmt.Sprint("ADD_BIAS", vecs), names(bs, s)...)
	}
	Label("nobias")
	MOVQ(arg("residual"), productCursor)
	TESTQ(productCursor, productCursor)
	JEQ(LabelRef("store"))
	MOVQ(arg("ldr"), productK)
	SHLQ(U8(2), productK)
	add(productK)
	Label("store")
	for _, s := range sums {
		macro(fmt.Sprint("STORE_ROW", vecs), append([]any{v.bytes()}, names(s)...)...)
	}
	VZEROUPPER()
	RET()
}

// fmaLoop writes a loop of fused multiply-adds only, which measures the peak.
func fmaLoop(v vec) {
	name := "fmaLoop" + v.name
	TEXT(name, NOSPLIT, "func(n int)")
	Doc(name + " does 12*n vector multiply-adds on registers; n > 0.")
	n := Load(Param("n"), GP64())
	for i := range 14 {
		v.clear(v.phys(i))
	}
	Label("loop")
	for i := range 12 {
		VFMADD231PS(v.phys(12), v.phys(13), v.phys(i))
	}
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
