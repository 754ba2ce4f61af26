package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genGemm writes one kernel per number of rows: C[rows, 2*lanes] = A·B (+ C) (+ bias) (+ residual).
// A is packed k-major (rows floats per k), B is packed k-major (2*lanes floats per k).
func genGemm(v vec) {
	maxRows := 6
	if v.wide() {
		maxRows = 14
	}
	for rows := 1; rows <= maxRows; rows++ {
		gemmKernel(v, rows)
	}
	fmaLoop(v)
}

func gemmKernel(v vec, rows int) {
	name := fmt.Sprintf("gemm%dx%d%s", rows, 2*v.lanes, v.name)
	TEXT(name, NOSPLIT, "func(k int, a, b, c *float32, ldc int, accumulate int, bias, residual *float32, ldr int)")
	Doc(fmt.Sprintf("%s is the kernel of genGemm for %d rows.", name, rows))
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
	acc := func(i, j int) VecPhysical { return v.phys(2*i + j) }
	b0, b1 := v.phys(last-1), v.phys(last-2)
	tmp := []VecPhysical{v.phys(last - 3), v.phys(last - 4)}
	for i := 0; i < rows; i++ {
		v.clear(acc(i, 0))
		v.clear(acc(i, 1))
	}
	// C is needed when the loop is over; by then these lines are here.
	p := GP64()
	MOVQ(c, p)
	for i := 0; i < rows; i++ {
		PREFETCHT0(Mem{Base: p})
		PREFETCHT0(Mem{Base: p, Disp: v.bytes()*2 - 4})
		if i < rows-1 {
			ADDQ(ldc, p)
		}
	}

	step := func(u int) {
		VMOVUPS(Mem{Base: b, Disp: u * 2 * v.bytes()}, b0)
		VMOVUPS(Mem{Base: b, Disp: u*2*v.bytes() + v.bytes()}, b1)
		PREFETCHT0(Mem{Base: b, Disp: (u + 8) * 2 * v.bytes()})
		if v.wide() {
			PREFETCHT0(Mem{Base: b, Disp: (u+8)*2*v.bytes() + v.bytes()})
		}
		for i := 0; i < rows; i++ {
			t := tmp[i%2]
			VBROADCASTSS(Mem{Base: a, Disp: (u*rows + i) * 4}, t)
			VFMADD231PS(b0, t, acc(i, 0))
			VFMADD231PS(b1, t, acc(i, 1))
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
	ADDQ(U32(uint32(unroll*2*v.bytes())), b)
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), k)
	JEQ(LabelRef("done"))
	Label("single")
	step(0)
	ADDQ(Imm(uint64(rows*4)), a)
	ADDQ(Imm(uint64(2*v.bytes())), b)
	DECQ(k)
	JNE(LabelRef("single"))
	Label("done")

	// The order of the additions is fixed: product, earlier blocks of k, bias, residual.
	flag := Load(Param("accumulate"), GP64())
	TESTQ(flag, flag)
	JEQ(LabelRef("fresh"))
	MOVQ(c, p)
	for i := 0; i < rows; i++ {
		VADDPS(Mem{Base: p}, acc(i, 0), acc(i, 0))
		VADDPS(Mem{Base: p, Disp: v.bytes()}, acc(i, 1), acc(i, 1))
		if i < rows-1 {
			ADDQ(ldc, p)
		}
	}
	Label("fresh")
	Load(Param("bias"), p)
	TESTQ(p, p)
	JEQ(LabelRef("nobias"))
	VMOVUPS(Mem{Base: p}, b0)
	VMOVUPS(Mem{Base: p, Disp: v.bytes()}, b1)
	for i := 0; i < rows; i++ {
		VADDPS(b0, acc(i, 0), acc(i, 0))
		VADDPS(b1, acc(i, 1), acc(i, 1))
	}
	Label("nobias")
	Load(Param("residual"), p)
	TESTQ(p, p)
	JEQ(LabelRef("store"))
	ldr := Load(Param("ldr"), GP64())
	SHLQ(U8(2), ldr)
	for i := 0; i < rows; i++ {
		VADDPS(Mem{Base: p}, acc(i, 0), acc(i, 0))
		VADDPS(Mem{Base: p, Disp: v.bytes()}, acc(i, 1), acc(i, 1))
		if i < rows-1 {
			ADDQ(ldr, p)
		}
	}
	Label("store")
	for i := 0; i < rows; i++ {
		VMOVUPS(acc(i, 0), Mem{Base: c})
		VMOVUPS(acc(i, 1), Mem{Base: c, Disp: v.bytes()})
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
