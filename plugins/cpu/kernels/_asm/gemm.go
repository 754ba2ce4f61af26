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
	maxRows := 6
	if v.wide() {
		maxRows = 14
	}
	for _, vecs := range []int{2, 1} {
		for rows := 1; rows <= maxRows; rows++ {
			product(v, rows, vecs, fmt.Sprintf("gemm%dx%d%s", rows, vecs*v.lanes, v.name),
				"func(k int, a, b, c *float32, ldc int, accumulate int, bias, residual *float32, ldr int)",
				func(a, b, dst VecPhysical) { VFMADD231PS(a, b, dst) })
		}
	}
	fmaLoop(v)
}

// product writes one kernel; multiply adds the product of two registers to a third.
func product(v vec, rows, vecs int, name, sig string, multiply func(a, b, dst VecPhysical)) {
	width := vecs * v.bytes() // of a row of the panel
	TEXT(name, NOSPLIT, sig)
	Doc(fmt.Sprintf("%s is the kernel for %d rows, as genGemm describes.", name, rows))
	Pragma("noescape")
	k := Load(Param("k"), GP64())
	a := Load(Param("a"), GP64())
	b := Load(Param("b"), GP64())
	c := Load(Param("c"), GP64())
	ldc := Load(Param("ldc"), GP64())
	SHLQ(U8(2), ldc)

	last := 16 // registers: accumulators from 0, then two for B and up to two for broadcasts from the end
	if v.wide() {
		last = 32
	}
	acc := func(i, j int) VecPhysical { return v.phys(vecs*i + j) }
	bs := []VecPhysical{v.phys(last - 1), v.phys(last - 2)}[:vecs]
	tmp := []VecPhysical{v.phys(last - 3), v.phys(last - 4)}
	for i := 0; i < rows; i++ {
		for j := range bs {
			v.clear(acc(i, j))
		}
	}
	// C is needed when the loop is over; by then these lines are here.
	p := GP64()
	MOVQ(c, p)
	for i := 0; i < rows; i++ {
		PREFETCHT0(Mem{Base: p})
		PREFETCHT0(Mem{Base: p, Disp: width - 4})
		if i < rows-1 {
			ADDQ(ldc, p)
		}
	}

	step := func(u int) {
		for j := range bs {
			VMOVUPS(Mem{Base: b, Disp: u*width + j*v.bytes()}, bs[j])
		}
		for line := 0; line < width; line += 64 {
			PREFETCHT0(Mem{Base: b, Disp: (u+8)*width + line})
		}
		for i := 0; i < rows; i++ {
			t := tmp[i%2]
			VBROADCASTSS(Mem{Base: a, Disp: (u*rows + i) * 4}, t)
			for j := range bs {
				multiply(bs[j], t, acc(i, j))
			}
		}
	}
	const unroll = 4
	SUBQ(Imm(unroll), k)
	JLT(LabelRef("rest"))
	Label("loop")
	for u := 0; u < unroll; u++ {
		step(u)
	}
	ADDQ(Imm(uint64(unroll*rows*4)), a)
	ADDQ(U32(uint32(unroll*width)), b)
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), k)
	JEQ(LabelRef("done"))
	Label("single")
	step(0)
	ADDQ(Imm(uint64(rows*4)), a)
	ADDQ(Imm(uint64(width)), b)
	DECQ(k)
	JNE(LabelRef("single"))
	Label("done")

	// The order of the additions is fixed: product, earlier blocks of k, bias, residual.
	flag := Load(Param("accumulate"), GP64())
	TESTQ(flag, flag)
	JEQ(LabelRef("fresh"))
	MOVQ(c, p)
	for i := 0; i < rows; i++ {
		for j := range bs {
			VADDPS(Mem{Base: p, Disp: j * v.bytes()}, acc(i, j), acc(i, j))
		}
		if i < rows-1 {
			ADDQ(ldc, p)
		}
	}
	Label("fresh")
	Load(Param("bias"), p)
	TESTQ(p, p)
	JEQ(LabelRef("nobias"))
	for j := range bs {
		VMOVUPS(Mem{Base: p, Disp: j * v.bytes()}, bs[j])
		for i := 0; i < rows; i++ {
			VADDPS(bs[j], acc(i, j), acc(i, j))
		}
	}
	Label("nobias")
	Load(Param("residual"), p)
	TESTQ(p, p)
	JEQ(LabelRef("store"))
	ldr := Load(Param("ldr"), GP64())
	SHLQ(U8(2), ldr)
	for i := 0; i < rows; i++ {
		for j := range bs {
			VADDPS(Mem{Base: p, Disp: j * v.bytes()}, acc(i, j), acc(i, j))
		}
		if i < rows-1 {
			ADDQ(ldr, p)
		}
	}
	Label("store")
	for i := 0; i < rows; i++ {
		for j := range bs {
			VMOVUPS(acc(i, j), Mem{Base: c, Disp: j * v.bytes()})
		}
		if i < rows-1 {
			ADDQ(ldc, c)
		}
	}
	VZEROUPPER()
	RET()
}

// fmaLoop does nothing but fused multiply-adds: the peak that the kernels are measured against.
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
