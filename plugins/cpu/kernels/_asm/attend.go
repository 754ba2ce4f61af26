package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Attention for a panel of 32 queries in AMX tiles; see attendPanel in package attention. Blocks of 32 keys are
// pipelined: while the vector units compute the weights of one block, the tile unit computes the scores of the next
// block and multiplies the weights of earlier ones by their values. Matrices are stored as tiles of 16 rows of 64
// bytes, so that all tile loads have stride 64.

const (
	tileSize = 1024
	// Scores may exceed the maximum m that is subtracted from them by up to attendSlack. Only beyond that, m is raised
	// and the sums are scaled down. Weights of 2^attendSlack are far from overflow, and most new maxima exceed the old
	// one by less, so scaling is rare.
	attendSlack = 16
	// attendDegree is the degree of the polynomial for powers of two. Its relative error is 2^-13; rounding to bfloat16
	// adds 2^-8.
	attendDegree = 3
)

// Offsets in the work space: scores of two blocks, weights of two chunks, the limits above which m is raised, and m,
// which is subtracted.
const (
	workScores  = 0
	workWeights = workScores + 2*4*tileSize
	workLimit   = workWeights + 2*4*2*tileSize
	workBase    = workLimit + 128
	workEnd     = workBase + 128 // address of the end of the first half of O
	workSkip    = workEnd + 8    // see attend
	workDone    = workSkip + 8   // bytes of weights in attendPNow
)

// The general registers. In a step of the pipeline, Next is the block of keys whose scores are computed, Now the block
// or chunk whose weights are computed, and Last the chunk whose values are multiplied.
var (
	attendQReg                        = RSI
	attendKNext, attendVLast          = R8, R9
	attendTab                         = R10
	attendSNext, attendSNow           = RBX, RDX
	attendPNow, attendPLast           = R11, R12
	attendLeft, attendSpace, attendOR = R13, R14, RDI
	attendFree                        = R15 // not 0: m is not raised any more
)

// attendLegend describes the registers by their names, for a comment in the assembly.
func attendLegend() []string {
	line := func(format string, at ...GPPhysical) string {
		var names []any
		for _, r := range at {
			names = append(names, r.Asm())
		}
		return fmt.Sprintf(format, names...)
	}
	return []string{
		line(
			"%s queries; %s, %s keys of the next block, values of the last chunk; %s table; %s sums of values, by pairs of tiles",
			attendQReg, attendKNext, attendVLast, attendTab, attendOR),
		line("%s, %s scores of the next block and of this one; %s, %s weights of this chunk and of the last one",
			attendSNext, attendSNow, attendPNow, attendPLast),
		line(
			"%s blocks left; %s work space; %s not 0 if m is not raised any more; %s 64, the distance of a tile's rows",
			attendLeft, attendSpace, attendFree, RCX),
	}
}

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

// attendWork returns an operand in the work space.
func attendWork(disp int) Mem { return Mem{Base: attendSpace, Disp: disp} }

// attendSize returns the size in bytes of a block's keys or values, of half of O, and of a chunk's weights. attendPair
// is that of two tiles.
func attendSize(steps int) int { return steps * attendPair }

const attendPair = 2 * tileSize

// attendForward advances pointers by a pair of tiles.
func attendForward(at ...GPPhysical) {
	for _, r := range at {
		ADDQ(U32(attendPair), r)
	}
}

// attendTile emits a tile instruction, or a few that belong together.
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

// scoreTiles computes the scores of the next block: the products of its keys and the queries, plus the position terms.
func scoreTiles(steps int) []attendTile {
	var out []attendTile
	for group := range 2 {
		out = append(out, func() {
			MOVLQSX(Mem{Base: attendTab, Disp: 8 * group}, RAX)
			ADDQ(arg("init"), RAX)
			tileLoad(tile(2*group), RAX, RCX, 0)
			ADDQ(arg("initHalf"), RAX)
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

// valueTiles multiplies the weights of the last chunk by 32 elements of its values, a pair of tiles at attendVLast, and
// adds the products to the sums, a pair of tiles at attendOR in each half.
func valueTiles(steps int) []attendTile {
	out := sumTiles(steps, tileLoadAt)
	for block := range steps {
		out = append(out, valueProducts(2*block*tileSize, 2*steps*block*tileSize)...)
	}
	return append(out, sumTiles(steps, tileStoreAt)...)
}

// sumTiles loads or stores the sums.
func sumTiles(steps int, move func(tile, GPPhysical, int) attendTile) (out []attendTile) {
	for t := range tile(4) {
		out = append(out, move(t, attendOR, (int(t&1)*2*steps+int(t>>1))*tileSize))
	}
	return out
}

// valueProducts multiplies the weights of one block, p bytes from attendPLast, by its values, v bytes from attendVLast.
func valueProducts(p, v int) []attendTile {
	return []attendTile{
		tileLoadAt(6, attendPLast, p), tileLoadAt(4, attendVLast, v), tileProductOf(0, 4, 6),
		tileLoadAt(7, attendPLast, p+tileSize), tileProductOf(1, 4, 7),
		tileLoadAt(5, attendVLast, v+tileSize), tileProductOf(2, 5, 6), tileProductOf(3, 5, 7),
	}
}

func emit(tiles []attendTile) {
	for _, t := range tiles {
		t()
	}
}

// Vector registers that are live throughout the loop, as the macros in ../attention/attend_amd64.h use them: the scale,
// the polynomial, the mask of the bits that bfloat16 keeps of a float, the sums l, and the terms for the row of the
// keys.
var (
	attendC    = Z0
	attendPoly = []VecPhysical{Z1, Z2, Z3, Z4}
	attendHigh = Z5
	attendSum  = []VecPhysical{Z6, Z7}
	attendRow  = []VecPhysical{Z9, Z10, Z11, Z12}  // by group and half
	attendBest = []VecPhysical{Z13, Z14, Z15, Z16} // the maxima of the next block by group and half, then by half
)

// attendBlock computes the weights of a block, interleaved with tile instructions.
func attendBlock(tiles []attendTile) {
	done, n := 0, 0
	for group := range 2 {
		for pair := range 8 {
			for half := range 2 {
				// keys 2*pair and 2*pair+1 of the group by 16 queries
				macro(fmt.Sprint("POWERS", half), (2*group+half)*tileSize+pair*128, half*tileSize+(8*group+pair)*64,
					attendRow[2*group+half].Asm())
				n++
				upTo := len(tiles) * n / 32
				emit(tiles[done:upTo])
				done = upTo
			}
		}
	}
}

// attend writes the routine. A chunk is steps blocks, as many as a value has pairs of tiles. While the weights of a
// block are computed, one pair of tiles of the values is multiplied by the weights of all blocks of the last chunk. So
// attendPNow, attendVLast and attendOR advance by a pair of tiles with each block, and go back when the chunk is
// complete. workSkip is then added to attendVLast; it is negative in the first chunk, which has no chunk before it.
func attend(steps int) {
	name := fmt.Sprint("attend", 32*steps)
	TEXT(
		name, NOSPLIT,
		"func(config *byte, q, k, v *float32, table *int32, init *float32, initHalf int, row *float32, rowHalf int, "+
			"work, o, m, l *float32, blocks int, scale float32, free, fresh int)")
	Doc(name+fmt.Sprintf(" is routines.attend for queries, keys and values of %d elements.", 32*steps),
		"If fresh is not 0, o and l are 0 and m is -Inf. If free is not 0, m is not raised after the first block.")
	Pragma("noescape")
	size := attendSize(steps)
	Comment(attendLegend()...)
	MOVQ(arg("config"), RAX)
	tileConfig(RAX)
	MOVQ(U32(64), RCX)
	MOVQ(arg("q"), attendQReg)
	MOVQ(arg("k"), attendKNext)
	MOVQ(arg("v"), attendVLast)
	MOVQ(arg("table"), attendTab)
	MOVQ(arg("o"), attendOR)
	MOVQ(arg("blocks"), attendLeft)
	MOVQ(arg("work"), attendSpace)
	LEAQ(attendWork(workScores), attendSNext)
	LEAQ(attendWork(workScores+4*tileSize), attendSNow)
	LEAQ(attendWork(workWeights), attendPNow)
	LEAQ(attendWork(workWeights+8*tileSize), attendPLast)
	VBROADCASTSS(arg("scale"), attendC)
	for i, x := range fit(math.Exp2, 0, 1, attendDegree) {
		if i == 0 {
			x += 1.0 / 256 // half an ulp of a bfloat16 in [1, 2), so that truncation rounds
		}
		VMOVUPS(f32(x), attendPoly[i])
	}
	VMOVUPS(bitsConst(0xffff0000), attendHigh)
	MOVQ(arg("m"), RAX)
	MOVQ(arg("l"), attendFree)
	for half := range 2 {
		VMOVUPS(Mem{Base: RAX, Disp: 64 * half}, Z13)
		attendBase(half, Z13, Z14)
		VMOVUPS(Mem{Base: attendFree, Disp: 64 * half}, attendSum[half])
	}
	XORQ(attendFree, attendFree)
	LEAQ(Mem{Base: attendOR, Disp: size}, RAX)
	MOVQ(RAX, attendWork(workEnd))
	MOVQ(I32(-size), attendWork(workSkip))
	Comment("The scores of the first block.")
	emit(scoreTiles(steps))

	Label("block")
	TESTQ(attendLeft, attendLeft)
	JEQ(LabelRef("flush"))
	for group := range 2 {
		MOVLQSX(Mem{Base: attendTab, Disp: 8*group + 4}, RAX)
		ADDQ(arg("row"), RAX)
		VMOVUPS(Mem{Base: RAX}, attendRow[2*group])
		ADDQ(arg("rowHalf"), RAX)
		VMOVUPS(Mem{Base: RAX}, attendRow[2*group+1])
	}
	TESTQ(attendFree, attendFree)
	JNE(LabelRef("powers"))
	Comment("Does a score exceed m by more than the slack?")
	for t, acc := range attendBest {
		VMOVUPS(Mem{Base: attendSNext, Disp: t * tileSize}, acc)
	}
	for row := 1; row < 16; row++ {
		macro("MAXIMA", 64*row)
	}
	for t, acc := range attendBest {
		VFMADD213PS(attendRow[t], attendC, acc)
	}
	for half := range 2 {
		VMAXPS(attendBest[2+half], attendBest[half], attendBest[half])
		VCMPPS(Imm(30), attendWork(workLimit+64*half), attendBest[half], []Op{K1, K2}[half]) // greater, false for NaN
	}
	KORTESTW(K1, K2)
	JNE(LabelRef("flush"))
	Label("raised")
	MOVQ(arg("free"), attendFree)
	Label("powers")
	for i, r := range attendRow {
		VSUBPS(attendWork(workBase+64*(i&1)), r, r)
	}
	XCHGQ(attendSNext, attendSNow)
	DECQ(attendLeft)
	JEQ(LabelRef("stay"))
	ADDQ(U32(uint32(size)), attendKNext)
	ADDQ(U8(16), attendTab)
	Label("stay") // after the last block, its scores are computed again and not used
	CMPQ(attendWork(workSkip), Imm(0))
	JGE(LabelRef("steady"))
	Comment("Weights of this block, scores of the next.")
	attendBlock(scoreTiles(steps))
	JMP(LabelRef("next"))
	Label("steady")
	Comment("The same, and products with the values of the last chunk.")
	attendBlock(append(scoreTiles(steps), valueTiles(steps)...))
	Label("next")
	attendForward(attendPNow, attendVLast, attendOR)
	CMPQ(attendOR, attendWork(workEnd))
	JNE(LabelRef("block"))
	SUBQ(U32(uint32(size)), attendPNow)
	SUBQ(U32(uint32(size)), attendOR)
	XCHGQ(attendPNow, attendPLast)
	ADDQ(attendWork(workSkip), attendVLast)
	MOVQ(U32(uint32(size*(steps-1))), attendWork(workSkip))
	JMP(LabelRef("block"))

	attendFlush(steps)
	TESTQ(attendLeft, attendLeft)
	JEQ(LabelRef("end"))
	attendRaise(steps)
	JMP(LabelRef("raised"))

	Label("end")
	MOVQ(arg("l"), RAX)
	for half := range 2 {
		VMOVUPS(attendSum[half], Mem{Base: RAX, Disp: 64 * half})
	}
	tileRelease()
	VZEROUPPER()
	RET()
}
