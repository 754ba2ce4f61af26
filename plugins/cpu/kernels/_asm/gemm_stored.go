package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genGemmStored writes the kernels of genGemm for rows of A as they are stored, lda floats apart. Sums are added in the
// same order. For every four elements of k, a kernel prefetches four cache lines of the panel of B that comes next, and
// advances by aheadStep bytes. It prefetches nothing if aheadStep is 0.
func genGemmStored(v vec) {
	products(v, "gemmStored",
		"func(k int, a *float32, lda int, b, c *float32, ldc int, accumulate int, bias, residual *float32, ldr int, ahead uintptr, aheadStep int)",
		leftRows{what: "%d rows of A as they are stored", begin: beginStored, prefetch: func(int, int) {},
			row: storedRow, advance: advanceStored, unrolled: true})
}

// storedThirds are the addresses of rows 0, 3, 6, 9 and 12 of A, and storedLda is the distance between rows in bytes.
// The rows between them are one and two distances further.
var (
	storedThirds = []GPPhysical{productA, R8, R10, R11, R12}
	storedLda    = R9
	storedAhead  = R13
	storedStep   = R15
)

func beginStored(rows int) {
	MOVQ(arg("ahead"), storedAhead)
	MOVQ(arg("aheadStep"), storedStep)
	MOVQ(arg("lda"), storedLda)
	SHLQ(U8(2), storedLda)
	for i := 3; i < rows; i += 3 {
		before, at := storedThirds[i/3-1], storedThirds[i/3]
		LEAQ(Mem{Base: before, Index: storedLda, Scale: 2}, at)
		ADDQ(storedLda, at)
	}
}

// storedRow is fmaRow for element u of row i.
func storedRow(_, i, u int, x VecPhysical, b, sums []VecPhysical) {
	at := fmt.Sprintf("%d(%s)", 4*u, storedThirds[i/3].Asm())
	if i%3 > 0 {
		at += fmt.Sprintf("(%s*%d)", storedLda.Asm(), i%3)
	}
	macro(fmt.Sprint("FMA_AT", len(b)), append([]any{at, x.Asm()}, names(b, sums)...)...)
}

func advanceStored(rows, steps int) {
	if steps > 1 {
		TESTQ(storedStep, storedStep)
		JEQ(LabelRef("near"))
		for line := range 4 {
			PREFETCHT1(Mem{Base: storedAhead, Disp: 64 * line})
		}
		ADDQ(storedStep, storedAhead)
		Label("near")
	}
	for i := 0; i < rows; i += 3 {
		ADDQ(Imm(uint64(4*steps)), storedThirds[i/3])
	}
}
