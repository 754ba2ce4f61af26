package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// attendFlush multiplies all weights that are not multiplied yet by their values. It runs at the end of the keys, and
// before m is raised, since these weights are relative to the old m. The next block then starts a chunk.
func attendFlush(steps int) {
	size := attendSize(steps)
	Label("flush")
	Comment(
		"The remaining products: some pairs of tiles of the last chunk's values, and all of this chunk's blocks so far.")
	MOVQ(attendOR, RAX)
	SUBQ(arg("o"), RAX)
	MOVQ(RAX, attendWork(workDone))
	SUBQ(RAX, attendPNow)
	CMPQ(attendWork(workSkip), Imm(0))
	JGE(LabelRef("lastChunk"))
	SUBQ(RAX, attendVLast)
	JMP(LabelRef("thisChunk"))
	Label("lastChunk")
	emit(valueTiles(steps))
	attendForward(attendVLast, attendOR)
	CMPQ(attendOR, attendWork(workEnd))
	JNE(LabelRef("lastChunk"))
	ADDQ(attendWork(workSkip), attendVLast)
	Label("thisChunk")
	MOVQ(arg("o"), attendOR)
	CMPQ(attendWork(workDone), Imm(0))
	JEQ(LabelRef("flushed"))
	Label("pair")
	emit(sumTiles(steps, tileLoadAt))
	MOVQ(attendWork(workDone), RAX)
	MOVQ(attendPNow, attendPLast)
	Label("done")
	emit(valueProducts(0, 0))
	attendForward(attendPLast)
	ADDQ(U32(uint32(size)), attendVLast)
	SUBQ(U32(attendPair), RAX)
	JNE(LabelRef("done"))
	emit(sumTiles(steps, tileStoreAt))
	IMUL3Q(Imm(uint64(steps)), attendWork(workDone), RAX)
	SUBQ(RAX, attendVLast)
	attendForward(attendVLast, attendOR)
	CMPQ(attendOR, attendWork(workEnd))
	JNE(LabelRef("pair"))
	SUBQ(U32(uint32(size)), attendVLast)
	ADDQ(RAX, attendVLast)
	MOVQ(arg("o"), attendOR)
	Label("flushed")
	LEAQ(attendWork(workWeights), attendPNow)
	LEAQ(attendWork(workWeights+8*tileSize), attendPLast)
	MOVQ(I32(-size), attendWork(workSkip))
}

// attendRaise stores the new maxima and scales the sums to them. Sums without keys stay 0.
func attendRaise(steps int) {
	Comment("New maxima.")
	MOVQ(arg("m"), RAX)
	for half := range 2 {
		old, max := []VecPhysical{Z15, Z16}[half], attendBest[half]
		VMOVUPS(Mem{Base: RAX, Disp: 64 * half}, old)
		VMAXPS(old, max, max)
		VMOVUPS(max, Mem{Base: RAX, Disp: 64 * half})
	}
	for half := range 2 {
		x, n, p := []VecPhysical{Z15, Z16}[half], Z18, []VecPhysical{Z19, Z20}[half]
		attendBase(half, attendBest[half], Z17)
		VSUBPS(Z17, x, x)
		VMAXPS(f32(-160), x, x)
		VREDUCEPS(Imm(1), x, n)
		c := fit(math.Exp2, 0, 1, 5)
		VMOVUPS(f32(c[5]), p)
		for k := 4; k >= 0; k-- {
			VFMADD213PS(f32(c[k]), n, p)
		}
		VSCALEFPS(x, p, p)
		VMULPS(p, attendSum[half], attendSum[half])
	}
	CMPQ(arg("fresh"), Imm(0))
	MOVQ(U32(0), arg("fresh"))
	JNE(LabelRef("raised"))
	MOVQ(attendOR, RAX)
	Label("scale")
	for half := range 2 {
		row := Mem{Base: RAX, Disp: half * attendSize(steps)}
		VMULPS(row, []VecPhysical{Z19, Z20}[half], Z17)
		VMOVUPS(Z17, row)
	}
	ADDQ(U8(64), RAX)
	CMPQ(RAX, attendWork(workEnd))
	JLT(LabelRef("scale"))
}

// attendBase makes max the m of a half: it stores the limit for the next m, and what is subtracted from scores.
func attendBase(half int, max, tmp VecPhysical) {
	VADDPS(f32(attendSlack), max, tmp)
	VMOVUPS(tmp, attendWork(workLimit+64*half))
	VMAXPS(f32(-3.4028234e38), max, tmp) // -Inf - -Inf would be NaN
	VMOVUPS(tmp, attendWork(workBase+64*half))
}
