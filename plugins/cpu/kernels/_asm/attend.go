package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Attention of a panel of 32 queries in tiles. Blocks of 32 keys follow each other in a pipeline: beside the powers of two of one
// block, which keep the vector units busy, run the products of the next block's scores and those of the last block's values.
// Matrices lie in tiles of 16 rows by 64 bytes, 1024 bytes each, so that one stride serves all loads.

const (
	tileSize = 1024
	// attendSlack is by how many powers of two scores may exceed the maximum that is subtracted from them, before the sums are
	// scaled down for a new one. It is far below what would overflow, and scaling is rare: most new maxima exceed the old one by little.
	attendSlack = 16
	// attendDegree is that of the polynomial for the powers of two: its relative error is 2^-13, of the rounding to bfloat16 2^-8.
	attendDegree = 3
)

// Offsets in the work space: scores of two blocks, weights of two, the thresholds and what is subtracted.
const (
	workScores  = 0
	workWeights = workScores + 2*4*tileSize
	workLimit   = workWeights + 2*4*2*tileSize
	workBase    = workLimit + 128
	workEnd     = workBase + 128 // where O ends
)

// attendParam is an argument in its place on the stack.
func attendParam(name string) Mem {
	at, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return at.Addr
}

// What the general registers hold; those that say Next, Now and Last belong to the blocks of keys whose scores, powers and values are
// computed.
var (
	attendQReg                        = RSI
	attendKNext, attendVLast          = R8, R9
	attendTab                         = R10
	attendSNext, attendSNow           = RBX, RDX
	attendPNow, attendPLast           = R11, R12
	attendLeft, attendSpace, attendOR = R13, R14, RDI
	attendFree                        = R15 // not 0: no maximum is looked for any more
)

func genAttend(v vec) {
	if !v.wide() {
		return
	}
	attendRows(false)
	attendRows(true)
	attendPairs()
	attendTerms()
	attendOut(v)
	for steps := 1; steps <= 4; steps++ {
		attend(steps)
	}
}

// attendTile is one instruction, or a few that belong together, of those that run beside the powers.
type attendTile func()

func tileLoadAt(t tile, base GPPhysical, disp int) attendTile {
	return func() { tileLoad(t, base, RCX, disp) }
}

func tileStoreAt(t tile, base GPPhysical, disp int) attendTile {
	return func() { tileStore(base, RCX, disp, t) }
}

func tileProductOf(sum, a, b tile) attendTile {
	return func() { tileProduct(sum, a, b) }
}

// scoreTiles are the products of the next block's keys with the queries, on top of the position terms.
func scoreTiles(steps int) []attendTile {
	var out []attendTile
	for group := range 2 {
		out = append(out, func() {
			MOVLQSX(Mem{Base: attendTab, Disp: 8 * group}, RAX)
			ADDQ(attendParam("init"), RAX)
			tileLoad(tile(2*group), RAX, RCX, 0)
			ADDQ(attendParam("initHalf"), RAX)
			tileLoad(tile(2*group+1), RAX, RCX, 0)
		})
	}
	for step := range steps {
		for half := range 2 {
			out = append(out, tileLoadAt(tile(6+half), attendQReg, (half*steps+step)*tileSize))
			if half == 0 {
				out = append(out, tileLoadAt(4, attendKNext, step*tileSize))
			}
		}
		out = append(out, tileProductOf(0, 4, 6), tileProductOf(1, 4, 7),
			tileLoadAt(5, attendKNext, (steps+step)*tileSize),
			tileProductOf(2, 5, 6), tileProductOf(3, 5, 7))
	}
	for t := range tile(4) {
		out = append(out, tileStoreAt(t, attendSNext, int(t)*tileSize))
	}
	return out
}

// valueTiles are the products of the values of some blocks with their weights, added to the sums so far, for 32 elements of a value:
// the pair of tiles with that number. v is the distance of the first block from attendVLast.
func valueTiles(steps, pair, blocks int, weights GPPhysical, v int) []attendTile {
	var out []attendTile
	place := func(t tile) int { return (int(t&1)*2*steps + 2*pair + int(t>>1)) * tileSize }
	for t := range tile(4) {
		out = append(out, tileLoadAt(t, attendOR, place(t)))
	}
	for b := range blocks {
		at := v + (2*steps*b+2*pair)*tileSize
		out = append(out, tileLoadAt(6, weights, 2*b*tileSize), tileLoadAt(4, attendVLast, at), tileProductOf(0, 4, 6),
			tileLoadAt(7, weights, (2*b+1)*tileSize), tileProductOf(1, 4, 7),
			tileLoadAt(5, attendVLast, at+tileSize), tileProductOf(2, 5, 6), tileProductOf(3, 5, 7))
	}
	for t := range tile(4) {
		out = append(out, tileStoreAt(t, attendOR, place(t)))
	}
	return out
}

// Vector registers that live through the loop: the scale, the polynomial, what a bfloat16 keeps of a float, the sums, the
// terms of the keys' row.
var (
	attendC    = Z0
	attendPoly = []VecPhysical{Z1, Z2, Z3, Z4}
	attendHigh = Z5
	attendSum  = []VecPhysical{Z6, Z7}
	attendRow  = []VecPhysical{Z9, Z10, Z11, Z12} // by group and half
)

// powers turns the scores of keys 2*pair and 2*pair+1 by 16 queries into weights.
func powers(block, group, pair, half int, temp []VecPhysical) {
	row := attendRow[2*group+half].Asm()
	macro(fmt.Sprint("POWERS", half), (2*group+half)*tileSize+pair*128, (2*block+half)*tileSize+(8*group+pair)*64, row)
}

// attendBlock is the powers of a block of keys, the block-th of those whose weights lie together, beside some tile instructions.
func attendBlock(steps, block int, tiles []attendTile) {
	temps := [][]VecPhysical{{Z13, Z14, Z15, Z16, Z17, Z18}, {Z19, Z20, Z21, Z22, Z23, Z24}}
	done := 0
	n := 0
	for group := range 2 {
		for pair := range 8 {
			for half := range 2 {
				powers(block, group, pair, half, temps[n%2])
				n++
				for ; done < len(tiles)*n/32; done++ {
					tiles[done]()
				}
			}
		}
	}
}

func attend(steps int) {
	name := fmt.Sprint("attend", 32*steps)
	TEXT(name, NOSPLIT, "func(config *byte, q, k, v *float32, table *int32, init *float32, initHalf int, row *float32, rowHalf int, "+
		"work, o, m, l *float32, blocks int, scale float32, free, fresh int)")
	Doc(name+fmt.Sprintf(" is isa.attend for queries, keys and values of %d elements.", 32*steps),
		"If fresh is not 0, o and l are 0 and m is -Inf. If free is not 0, m is not raised after the first block.")
	Pragma("noescape")
	work := func(disp int) Mem { return Mem{Base: attendSpace, Disp: disp} }
	MOVQ(attendParam("config"), RAX)
	tileConfig(RAX)
	MOVQ(U32(64), RCX)
	MOVQ(attendParam("q"), attendQReg)
	MOVQ(attendParam("k"), attendKNext)
	MOVQ(attendParam("v"), attendVLast)
	MOVQ(attendParam("table"), attendTab)
	MOVQ(attendParam("o"), attendOR)
	MOVQ(attendParam("blocks"), attendLeft)
	MOVQ(attendParam("work"), attendSpace)
	LEAQ(work(workScores), attendSNext)
	LEAQ(work(workScores+4*tileSize), attendSNow)
	LEAQ(work(workWeights), attendPNow)
	LEAQ(work(workWeights+8*tileSize), attendPLast)
	VBROADCASTSS(attendParam("scale"), attendC)
	for i, x := range fit(math.Exp2, 0, 1, attendDegree) {
		if i == 0 {
			x += 1.0 / 256 // half a unit in the last place of a bfloat16 in [1, 2), which makes truncating rounding
		}
		VMOVUPS(f32(x), attendPoly[i])
	}
	VMOVUPS(bitsConst(0xffff0000), attendHigh)
	low := f32(-3.4028234e38)
	setBase := func(half int, max, tmp VecPhysical) {
		VADDPS(f32(attendSlack), max, tmp)
		VMOVUPS(tmp, work(workLimit+64*half))
		VMAXPS(low, max, tmp) // -Inf - -Inf would be NaN
		VMOVUPS(tmp, work(workBase+64*half))
	}
	MOVQ(attendParam("m"), RAX)
	MOVQ(attendParam("l"), attendFree)
	for half := range 2 {
		VMOVUPS(Mem{Base: RAX, Disp: 64 * half}, Z13)
		setBase(half, Z13, Z14)
		VMOVUPS(Mem{Base: attendFree, Disp: 64 * half}, attendSum[half])
	}
	XORQ(attendFree, attendFree)
	for _, t := range scoreTiles(steps) {
		t()
	}

	best := []VecPhysical{Z13, Z14, Z15, Z16}
	chunk := 2 * steps * tileSize * steps // bytes of the keys, or values, of as many blocks as a value has pairs of tiles
	at := func(steady bool, block int, what string) string {
		return fmt.Sprint(what, map[bool]string{false: "First", true: "Steady"}[steady], block)
	}
	for _, steady := range []bool{false, true} {
		for block := range steps {
			label := func(what string) string { return at(steady, block, what) }
			Label(label("block"))
			TESTQ(attendLeft, attendLeft)
			JEQ(LabelRef(label("flush")))
			for group := range 2 {
				MOVLQSX(Mem{Base: attendTab, Disp: 8*group + 4}, RAX)
				ADDQ(attendParam("row"), RAX)
				VMOVUPS(Mem{Base: RAX}, attendRow[2*group])
				ADDQ(attendParam("rowHalf"), RAX)
				VMOVUPS(Mem{Base: RAX}, attendRow[2*group+1])
			}
			TESTQ(attendFree, attendFree)
			JNE(LabelRef(label("powers")))
			for t, acc := range best {
				VMOVUPS(Mem{Base: attendSNext, Disp: t * tileSize}, acc)
			}
			for row := 1; row < 16; row++ {
				for t, acc := range best {
					VMAXPS(Mem{Base: attendSNext, Disp: t*tileSize + 64*row}, acc, acc)
				}
			}
			for t, acc := range best {
				VFMADD213PS(attendRow[t], attendC, acc)
			}
			for half := range 2 {
				VMAXPS(best[2+half], best[half], best[half])
				VCMPPS(Imm(30), work(workLimit+64*half), best[half], []Op{K1, K2}[half]) // greater, false for NaN
			}
			KORTESTW(K1, K2)
			JNE(LabelRef(label("flush")))
			if !steady && block == 0 {
				Label("raised")
				MOVQ(attendParam("free"), attendFree)
			}
			Label(label("powers"))
			for i, r := range attendRow {
				VSUBPS(work(workBase+64*(i&1)), r, r)
			}
			XCHGQ(attendSNext, attendSNow)
			DECQ(attendLeft)
			JEQ(LabelRef(label("stay")))
			ADDQ(U32(2*steps*tileSize), attendKNext)
			ADDQ(U8(16), attendTab)
			Label(label("stay")) // the last block has no next: its own scores are computed again, for nothing
			tiles := scoreTiles(steps)
			if steady {
				tiles = append(tiles, valueTiles(steps, block, steps, attendPLast, 0)...)
			}
			attendBlock(steps, block, tiles)
		}
		if steady {
			ADDQ(U32(chunk), attendVLast)
		}
		XCHGQ(attendPNow, attendPLast)
		if steady {
			JMP(LabelRef(at(true, 0, "block")))
		}
	}
	// Where the keys end, or a new maximum has come: the weights so far are relative to the old one, and their values are added first.
	for _, steady := range []bool{false, true} {
		for block := range steps {
			Label(at(steady, block, "flush"))
			v := 0
			if steady {
				for pair := block; pair < steps; pair++ {
					for _, t := range valueTiles(steps, pair, steps, attendPLast, 0) {
						t()
					}
				}
				v = chunk
			}
			if block > 0 {
				for pair := range steps {
					for _, t := range valueTiles(steps, pair, block, attendPNow, v) {
						t()
					}
				}
			}
			if v += 2 * steps * tileSize * block; v > 0 {
				ADDQ(U32(v), attendVLast)
			}
			JMP(LabelRef("flushed"))
		}
	}
	Label("flushed")
	TESTQ(attendLeft, attendLeft)
	JEQ(LabelRef("end"))
	MOVQ(attendParam("m"), RAX)
	for half := range 2 {
		old, max := []VecPhysical{Z15, Z16}[half], best[half]
		VMOVUPS(Mem{Base: RAX, Disp: 64 * half}, old)
		VMAXPS(old, max, max)
		VMOVUPS(max, Mem{Base: RAX, Disp: 64 * half})
	}
	for half := range 2 {
		x, n, p := []VecPhysical{Z15, Z16}[half], Z18, []VecPhysical{Z19, Z20}[half]
		setBase(half, best[half], Z17)
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
	CMPQ(attendParam("fresh"), Imm(0))
	MOVQ(U32(0), attendParam("fresh"))
	JNE(LabelRef("raised"))
	LEAQ(Mem{Base: attendOR, Disp: 2 * steps * tileSize}, RAX)
	MOVQ(RAX, work(workEnd))
	MOVQ(attendOR, RAX)
	Label("scale")
	for half := range 2 {
		row := Mem{Base: RAX, Disp: half * 2 * steps * tileSize}
		VMULPS(row, []VecPhysical{Z19, Z20}[half], Z17)
		VMOVUPS(Z17, row)
	}
	ADDQ(U8(64), RAX)
	CMPQ(RAX, work(workEnd))
	JLT(LabelRef("scale"))
	JMP(LabelRef("raised"))

	Label("end")
	MOVQ(attendParam("l"), RAX)
	for half := range 2 {
		VMOVUPS(attendSum[half], Mem{Base: RAX, Disp: 64 * half})
	}
	tileRelease()
	VZEROUPPER()
	RET()
}
