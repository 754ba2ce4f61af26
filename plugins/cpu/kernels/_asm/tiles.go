package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Products of many rows and a panel of 32 columns, in tiles. While tiles multiply a block of 32 rows, vector
// instructions finish the block before: they add bias and residual, apply the activation and store the results.

// tileEnd says what a routine does with a block of sums.
type tileEnd struct {
	name     string
	doc      string
	sum      bool // keep the sums, for the next block of k
	blocked  bool // store as bfloat16 in the blocked layout; otherwise as rows of float32
	residual bool // add a residual
	gelu     bool // apply gelu
	stream   bool // use non-temporal stores, which bypass the caches and need aligned memory
}

func genTiles(v vec) {
	if !v.wide() {
		return
	}
	for _, e := range []tileEnd{
		{name: "Sum", sum: true, doc: "sum = A·B over several blocks of k"},
		{name: "Rows", doc: "out = sum + bias"},
		{name: "RowsResidual", residual: true, doc: "out = sum + bias + residual"},
		{name: "RowsStream", stream: true, doc: "out = sum + bias"},
		{name: "RowsResidualStream", residual: true, stream: true, doc: "out = sum + bias + residual"},
		{name: "Blocked", blocked: true, stream: true, doc: "out = sum + bias, in blocks of bfloat16"},
		{name: "BlockedGelu", blocked: true, stream: true, gelu: true,
			doc: "out = gelu(sum + bias), in blocks of bfloat16"},
	} {
		tilePanel(e)
	}
	TEXT("misaligned", NOSPLIT, "func(p *float32) int")
	Doc("misaligned returns the distance of p from the start of its cache line of 64 bytes, in bytes.")
	Pragma("noescape")
	p := Load(Param("p"), GP64())
	ANDQ(Imm(63), p)
	Store(p, ReturnIndex(0))
	RET()
}

// The registers of these routines. The finished block is the one whose sums are complete and are being stored.
var (
	tileA, tileB        = RSI, RDX // A and B of the next step
	tileStride, bStride = RCX, RBX // distances of the rows of a tile: 64 and 128 bytes
	tileOut             = RDI      // where the next row of the finished block is stored
	tileOutStep         = R8
	tileLeft            = R9  // rows of the finished block that are not yet stored, divided by rowsPerStep
	tileAhead           = R10 // what to prefetch next
	tileDone            = R11 // sums of the next row of the finished block, in the buffer
	tileSteps           = R12
	tileBlockAhead      = R14 // distance from a row of the residual to the same row of the next block
	tileTmp             = R15
	tileRes             = RAX // the next row of the residual

	// tilesSum stores nothing but sums. It uses these registers to keep blocks and sum for the next block of k.
	tileBlocks = R8
	tileSums   = R11
)

// rowsPerStep is the number of rows of the finished block that a step stores.
const rowsPerStep = 4

func tilePanel(e tileEnd) {
	name := "tiles" + e.name
	TEXT(
		name, NOSPLIT,
		"func(config *byte, blocks, steps int, a, b, sum *float32, resume int, ahead *float32, lines int, "+
			"block, bias, out *float32, outStep int, residual *float32, residualStep, times, aStep, bStep int)")
	Doc(name + " computes " + e.doc + " for blocks of 32 rows and one panel of 32 columns. See tilePanel.")
	Pragma("noescape")
	MOVQ(arg("config"), tileTmp)
	tileConfig(tileTmp)
	MOVQ(arg("ahead"), tileAhead)
	MOVQ(U32(64), tileStride)
	MOVQ(U32(128), bStride)
	XORQ(tileLeft, tileLeft)
	if !e.sum {
		if !e.blocked {
			MOVQ(arg("out"), tileOut)
		}
		MOVQ(arg("outStep"), tileOutStep)
		MOVQ(arg("bias"), tileTmp)
		VMOVUPS(Mem{Base: tileTmp}, Z30)
		VMOVUPS(Mem{Base: tileTmp, Disp: 64}, Z31)
	}
	if e.residual {
		MOVQ(arg("residual"), tileRes)
		MOVQ(tileRes, tileTmp)
		for range tileSide {
			PREFETCHT0(Mem{Base: tileTmp})
			PREFETCHT0(Mem{Base: tileTmp, Disp: 64})
			ADDQ(arg("residualStep"), tileTmp)
		}
		MOVQ(arg("residualStep"), tileBlockAhead)
		SHLQ(U8(5), tileBlockAhead)
	}
	if e.gelu {
		loadGelu()
	}

	if e.sum {
		MOVQ(arg("blocks"), tileBlocks)
		MOVQ(arg("sum"), tileSums)
	}
	Label("begin")
	MOVQ(arg("a"), tileA)
	MOVQ(arg("b"), tileB)
	tileLoad(4, tileA, tileStride, 0)
	tileLoad(6, tileB, bStride, 0)
	tileLoad(7, tileB, bStride, 64)
	tileLoad(5, tileA, tileStride, 1024)
	MOVQ(arg("steps"), tileSteps)
	MOVQ(arg("sum"), tileTmp)
	CMPQ(arg("resume"), Imm(0))
	JEQ(LabelRef("fresh"))
	for t := range tile(4) {
		tileLoad(t, tileTmp, bStride, tilePlace(t))
	}
	JMP(LabelRef("step"))
	Label("fresh")
	for t := range tile(4) {
		tileZero(t)
	}

	Label("step")
	e.step("Next", func(tile) {})
	Label("begun")
	TESTQ(tileSteps, tileSteps)
	JNE(LabelRef("step"))

	DECQ(arg("blocks"))
	if !e.sum {
		e.rest("few")
		MOVQ(arg("block"), tileDone)
		MOVQ(U32(tileSide/rowsPerStep), tileLeft)
		if e.blocked {
			MOVQ(arg("out"), tileOut)
			ADDQ(tileOutStep, arg("out"))
		}
	}
	CMPQ(arg("blocks"), Imm(0))
	JEQ(LabelRef("done"))
	// The first step of the next block also stores the sums of this one. Each tile of sums is stored, and then set to
	// the initial sums of the next block, right before the first product that adds to it.
	MOVQ(arg("steps"), tileSteps)
	ADDQ(U32(4*tileSide*tileSide), arg("sum"))
	MOVQ(arg("sum"), tileTmp)
	CMPQ(arg("resume"), Imm(0))
	JEQ(LabelRef("anew"))
	e.step("Resumed", func(t tile) {
		e.storeSum(t, -4*tileSide*tileSide)
		tileLoad(t, tileTmp, bStride, tilePlace(t))
	})
	JMP(LabelRef("begun"))
	Label("anew")
	e.step("Anew", func(t tile) {
		e.storeSum(t, -4*tileSide*tileSide)
		tileZero(t)
	})
	JMP(LabelRef("begun"))

	Label("done")
	MOVQ(arg("sum"), tileTmp)
	for t := range tile(4) {
		e.storeSum(t, 0)
	}
	if e.sum {
		DECQ(arg("times"))
		JEQ(LabelRef("summed"))
		MOVQ(tileBlocks, arg("blocks"))
		MOVQ(tileSums, arg("sum"))
		MOVQ(U32(1), tileTmp)
		MOVQ(tileTmp, arg("resume"))
		MOVQ(arg("aStep"), tileTmp)
		ADDQ(tileTmp, arg("a"))
		MOVQ(arg("bStep"), tileTmp)
		ADDQ(tileTmp, arg("b"))
		MOVQ(arg("b"), tileAhead)
		ADDQ(tileTmp, tileAhead)
		JMP(LabelRef("begin"))
		Label("summed")
	} else {
		e.rest("last")
		VZEROUPPER()
	}
	tileRelease()
	RET()
}

// step writes the products of one step, together with the loads for the next one: a tile is loaded as soon as the last
// product that reads its register has started. It calls before(t) ahead of the product that adds to tile t. tileTmp
// then has the value that it had before the step.
func (e tileEnd) step(label string, before func(t tile)) {
	ADDQ(U32(2048), tileA)
	ADDQ(U32(2048), tileB)
	DECQ(tileSteps)
	JNE(LabelRef("within" + label))
	MOVQ(arg("b"), tileB)
	CMPQ(arg("blocks"), Imm(1))
	JNE(LabelRef("within" + label))
	MOVQ(arg("a"), tileA) // there is no next step, so these loads only have to be valid
	Label("within" + label)
	before(0)
	tileProduct(0, 4, 6)
	before(1)
	tileProduct(1, 4, 7)
	tileLoad(4, tileA, tileStride, 0)
	before(2)
	tileProduct(2, 5, 6)
	tileLoad(6, tileB, bStride, 0)
	before(3)
	if !e.sum {
		TESTQ(tileLeft, tileLeft)
		JEQ(LabelRef("out" + label))
		e.rows()
		Label("out" + label)
	}
	MOVQ(arg("lines"), tileTmp)
	TESTQ(tileTmp, tileTmp)
	JEQ(LabelRef("loaded" + label))
	Label("ahead" + label)
	PREFETCHT1(Mem{Base: tileAhead})
	ADDQ(U8(64), tileAhead)
	DECQ(tileTmp)
	JNE(LabelRef("ahead" + label))
	Label("loaded" + label)
	tileProduct(3, 5, 7)
	tileLoad(7, tileB, bStride, 64)
	tileLoad(5, tileA, tileStride, 1024)
}

// storeSum stores tile t of a finished block: for tilesSum disp bytes from the sum at tileTmp, otherwise in the buffer.
func (e tileEnd) storeSum(t tile, disp int) {
	if e.sum {
		tileStore(tileTmp, bStride, tilePlace(t)+disp, t)
	} else {
		tileStore(tileDone, bStride, tilePlace(t), t)
	}
}

// tilePlace returns the offset of tile t in a block of 32 rows of 32 floats, in bytes.
func tilePlace(t tile) int { return int(t/2)*16*128 + int(t%2)*64 }

// rest stores the rows of the finished block that the steps left over.
func (e tileEnd) rest(label string) {
	TESTQ(tileLeft, tileLeft)
	JEQ(LabelRef(label + "done"))
	Label(label)
	e.rows()
	JNE(LabelRef(label)) // the flags are those of the decrement at the end of rows
	Label(label + "done")
}

// rows finishes and stores rowsPerStep rows. Its last instruction decrements tileLeft.
func (e tileEnd) rows() {
	store := func(x, m Op) { VMOVUPS(x, m) }
	if e.stream {
		store = VMOVNTPS
	}
	name := "FINISH_ROWS_" + strings.ToUpper(e.name)
	doc := fmt.Sprintf("%s finishes and stores %d rows of a block, and counts R9 down.", name, rowsPerStep)
	macroUse(name, doc, nil, func() {
		for r := range rowsPerStep {
			e.row(r, store)
		}
		ADDQ(U32(128*rowsPerStep), tileDone)
		DECQ(tileLeft)
	})
}

// row finishes and stores row r of a step.
func (e tileEnd) row(r int, store func(x, m Op)) {
	name := "FINISH_ROW_" + strings.ToUpper(e.name)
	bias := [2]VecPhysical{Z30, Z31}
	x := [2]VecPhysical{v16.phys(8 * (r % 2)), v16.phys(8*(r%2) + 4)}
	macroUse(name, name+" finishes and stores a row of a block, from its sums at an offset.",
		[]param{{"at", 128 * r}, {"x", x[0]}, {"y", x[1]}}, func() {
			for h := range x {
				VADDPS(Mem{Base: tileDone, Disp: r*128 + 64*h}, bias[h], x[h])
				if e.gelu {
					first := 8*(r%2) + 4*h
					tileGelu(x[h], v16.phys(first+1), v16.phys(first+2), v16.phys(first+3))
				}
				if e.residual {
					VADDPS(Mem{Base: tileRes, Disp: 64 * h}, x[h], x[h])
					PREFETCHT0(Mem{Base: tileRes, Index: tileBlockAhead, Scale: 1, Disp: 64 * h})
				}
			}
			if e.residual {
				ADDQ(arg("residualStep"), tileRes)
			}
			if e.blocked {
				toBF16(x[0], x[1], x[0])
				store(x[0], Mem{Base: tileOut})
				ADDQ(U8(64), tileOut)
			} else {
				store(x[0], Mem{Base: tileOut})
				store(x[1], Mem{Base: tileOut, Disp: 64})
				ADDQ(tileOutStep, tileOut)
			}
		})
}

// The range outside which tileGelu is 0 or x, and its polynomial: see phiNear.
const geluEdge = 4.25

var geluConstants = append([]float64{geluEdge, -geluEdge, geluEdge * geluEdge, 0.5 / geluEdge, 0.5}, phiNear()...)

// geluConstant returns the register of a constant.
func geluConstant(i int) VecPhysical { return vec{16, ""}.phys(16 + i) }

func loadGelu() {
	for i, c := range geluConstants {
		VMOVUPS(f32(c), geluConstant(i))
	}
}

// tileGelu replaces x by x*Phi(x), with an error of at most 5e-5, for results that are rounded to bfloat16.
// Below -geluEdge the result is constant.
func tileGelu(x, y, z, p VecPhysical) {
	VMAXPS(x, geluConstant(1), x) // min and max return x, the last source, if it is NaN
	VMINPS(x, geluConstant(0), y)
	VMULPS(y, y, z)
	VSUBPS(geluConstant(2), z, z)
	q := geluConstants[5:]
	VMOVAPS(geluConstant(5+len(q)-1), p)
	// in z - edge^2, where the last term makes Phi 0 and 1 at the edges
	for i := len(q) - 2; i >= 0; i-- {
		VFMADD213PS(geluConstant(5+i), z, p)
	}
	VFMADD213PS(geluConstant(3), z, p)
	VFMADD213PS(geluConstant(4), y, p)
	VMULPS(p, x, x)
}

// phiNear is q with Phi(x) = 1/2 + x*(1/(2e) + w*q(w)), w = x*x - e*e, for |x| up to e = geluEdge.
func phiNear() []float64 {
	const e2 = geluEdge * geluEdge
	q := func(w float64) float64 {
		w = min(max(w, 1e-6-e2), -1e-4)
		x := math.Sqrt(w + e2)
		return (0.5*math.Erf(x/math.Sqrt2)/x - 0.5/geluEdge) / w
	}
	return fit(q, -e2, 0, 7)
}
