package main

import (
	"fmt"
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Convolutions with channels last. A tile is a few pixels by a few vectors of output channels, whose sums stay in
// registers. A list says for each tap where the weights are and where each pixel reads x, so no image is copied.

// Fields of conv.lastTiles, each of 8 bytes.
const (
	lastX = 8 * iota
	lastZeros
	lastList
	lastTaps
	lastCount
	lastListStep
	lastXStep
	lastK
	lastW
	lastLdw
	lastBias
	lastDst
	lastLdd
	lastAddend
	lastResidual
	lastDoes
	lastMask
	lastLines
	lastEach // tiles of a line
	lastListBack
	lastXLine
	lastDstLine
	lastLeft   // taps of the tile that are left
	lastCursor // where the list goes on
)

// Bits of lastDoes.
const (
	doesAddend = 1 << iota
	doesRelu
	doesResidual
)

const lastMost = 12 // pixels of a tile; so many registers hold pointers

var lastPointers = []GPPhysical{RAX, RBX, RCX, RDX, RSI, RDI, R8, R9, R10, R11, R12, R13}

// lastSums returns how many vectors of sums a tile has at most, and how many vectors of channels.
func lastSums(v vec) (sums, vectors int) {
	if v.wide() {
		return 24, 4
	}
	return 12, 3
}

func genLast(v vec) {
	_, vectors := lastSums(v)
	for n := 1; n <= vectors; n++ {
		lastTile(v, n, false)
	}
	for n := 1; n <= vectors; n++ {
		lastTile(v, n, true)
	}
}

// lastRoutine has the registers of a routine for tiles of so many pixels.
type lastRoutine struct {
	v          vec
	each       bool // depthwise
	rows       int
	sums       [][]VecPhysical
	w          []VecPhysical
	x          []VecPhysical // elements of x
	k, at, ldw GPPhysical
	pointers   []GPPhysical
	mask       Register
}

// lastTile writes the routine for tiles of n vectors of channels. If each is set, every channel has weights of its own
// (a depthwise convolution).
func lastTile(v vec, n int, each bool) {
	name, doc := "last", "the sums of w[t][c][o] * x[pixel+at][c] over taps t and channels c of x"
	if each {
		name, doc = "lastEach", "the sums of w[t][o] * x[pixel+at][o] over taps t"
	}
	name += strconv.Itoa(n) + v.name
	TEXT(name, NOSPLIT, "func(t *byte, pixels int)")
	Doc(fmt.Sprintf("%s stores tiles of so many pixels and %d vectors of channels o: %s. See lastTile in _asm/last.go.",
		name, n, doc))
	Pragma("noescape")
	most, _ := lastSums(v)
	most = min(lastMost, most/n)
	MOVQ(arg("t"), R15)
	MOVQ(arg("pixels"), R14)
	for rows := most; rows > 0; rows-- {
		if rows > 1 {
			CMPQ(R14, Imm(uint64(rows)))
			JNE(LabelRef("not" + strconv.Itoa(rows)))
		}
		r := newLastRoutine(v, n, rows, each)
		r.write()
		if rows > 1 {
			Label("not" + strconv.Itoa(rows))
		}
	}
}

func newLastRoutine(v vec, n, rows int, each bool) *lastRoutine {
	r := &lastRoutine{v: v, each: each, rows: rows, k: R14, at: R15, pointers: lastPointers[:rows], ldw: RBP}
	if rows < lastMost {
		r.ldw = lastPointers[rows]
	}
	for i := range rows {
		var s []VecPhysical
		for j := range n {
			s = append(s, v.phys(i*n+j))
		}
		r.sums = append(r.sums, s)
	}
	last := 16
	if v.wide() {
		last, r.mask = 32, K1
	}
	switch {
	case each && v.wide():
		for j := range n {
			r.w = append(r.w, v.phys(last-1-j))
		}
	case each:
		r.w, r.x, r.mask = []VecPhysical{v.phys(15)}, []VecPhysical{v.phys(14)}, v.phys(13)
	default:
		for j := range n {
			r.w = append(r.w, v.phys(last-1-j))
		}
		r.x = []VecPhysical{v.phys(last - 1 - n)}
		if last-2-n >= rows*n {
			r.x = append(r.x, v.phys(last-2-n))
		}
		if !v.wide() {
			r.mask = r.w[0] // only when sums are stored
		}
	}
	return r
}

// label returns a label of the part for a number of pixels.
func (r *lastRoutine) label(s string) string { return s + strconv.Itoa(r.rows) }

func (r *lastRoutine) write() {
	v, tiles := r.v, R15
	if v.wide() {
		KMOVW(Mem{Base: tiles, Disp: lastMask}, K1)
	} else if r.each {
		MOVQ(Mem{Base: tiles, Disp: lastMask}, R14)
		VMOVUPS(Mem{Base: R14}, r.mask)
	}
	Label(r.label("tile"))
	MOVQ(Mem{Base: tiles, Disp: lastBias}, R14)
	for j := range r.sums[0] {
		VMOVUPS(Mem{Base: R14, Disp: j * v.bytes()}, r.sums[0][j])
	}
	for _, s := range r.sums[1:] {
		for j := range s {
			VMOVAPS(r.sums[0][j], s[j])
		}
	}
	MOVQ(Mem{Base: tiles, Disp: lastTaps}, R14)
	MOVQ(R14, Mem{Base: tiles, Disp: lastLeft})
	MOVQ(Mem{Base: tiles, Disp: lastList}, R14)
	Label(r.label("tap"))
	r.point()
	if r.each {
		r.multiplyEach()
	} else {
		r.multiply()
	}
	MOVQ(arg("t"), tiles)
	MOVQ(Mem{Base: tiles, Disp: lastCursor}, R14)
	DECQ(Mem{Base: tiles, Disp: lastLeft})
	JNE(LabelRef(r.label("tap")))
	r.finish()
	MOVQ(Mem{Base: tiles, Disp: lastListStep}, R14)
	ADDQ(R14, Mem{Base: tiles, Disp: lastList})
	MOVQ(Mem{Base: tiles, Disp: lastXStep}, R14)
	ADDQ(R14, Mem{Base: tiles, Disp: lastX})
	DECQ(Mem{Base: tiles, Disp: lastCount})
	JNE(LabelRef(r.label("tile")))
	DECQ(Mem{Base: tiles, Disp: lastLines})
	JEQ(LabelRef(r.label("end")))
	for _, f := range [][2]int{{lastListBack, lastList}, {lastXLine, lastX}, {lastEach, lastCount}} {
		MOVQ(Mem{Base: tiles, Disp: f[0]}, R14)
		ADDQ(R14, Mem{Base: tiles, Disp: f[1]})
	}
	MOVQ(Mem{Base: tiles, Disp: lastDstLine}, R14)
	for _, f := range []int{lastDst, lastAddend, lastResidual} {
		ADDQ(R14, Mem{Base: tiles, Disp: f})
	}
	JMP(LabelRef(r.label("tile")))
	Label(r.label("end"))
	VZEROUPPER()
	RET()
}

// point sets the pointers to what the pixels read for a tap. R14 points to the list.
func (r *lastRoutine) point() {
	x, zeros, list := r.ldw, R15, R14
	LEAQ(Mem{Base: list, Disp: 8 * (r.rows + 1)}, x)
	MOVQ(x, Mem{Base: R15, Disp: lastCursor})
	MOVQ(Mem{Base: R15, Disp: lastX}, x)
	MOVQ(Mem{Base: R15, Disp: lastZeros}, zeros)
	if !r.each { // the ends of the channels
		MOVQ(arg("t"), RAX)
		MOVQ(Mem{Base: RAX, Disp: lastK}, RAX)
		LEAQ(Mem{Base: x, Index: RAX, Scale: 4}, x)
		LEAQ(Mem{Base: zeros, Index: RAX, Scale: 4}, zeros)
	}
	for i, p := range r.pointers {
		at := 8 * (i + 1)
		macroUse("LAST_POINTER", "LAST_POINTER sets p to where a pixel reads x. The sum is negative for padding.",
			[]param{{"p", p}, {"x", x}, {"at", at}}, func() {
				MOVQ(Mem{Base: list, Disp: at}, p)
				ADDQ(x, p)
				CMOVQMI(zeros, p)
			})
	}
	MOVQ(Mem{Base: list}, zeros) // now where the weights are
	MOVQ(arg("t"), list)
	ADDQ(Mem{Base: list, Disp: lastW}, zeros)
}

// multiply adds the products of a tap.
func (r *lastRoutine) multiply() {
	v := r.v
	MOVQ(Mem{Base: R14, Disp: lastLdw}, r.ldw)
	MOVQ(Mem{Base: R14, Disp: lastK}, r.k)
	triple := GPPhysical(nil)
	if len(r.w) == 4 {
		triple = lastPointers[r.rows+1]
		LEAQ(Mem{Base: r.ldw, Index: r.ldw, Scale: 2}, triple)
	}
	NEGQ(r.k)
	Label(r.label("k"))
	weights := []Mem{{Base: r.at}, {Base: r.at, Index: r.ldw, Scale: 1}, {Base: r.at, Index: r.ldw, Scale: 2},
		{Base: r.at, Index: triple, Scale: 1}}
	for j, w := range r.w {
		VMOVUPS(weights[j], w)
		if len(r.w) > 1 {
			m := weights[j]
			m.Disp = 8 * v.bytes()
			PREFETCHT0(m)
		}
	}
	for i, p := range r.pointers {
		m := Mem{Base: p, Index: r.k, Scale: 4}
		if v.wide() && len(r.w) == 1 {
			VFMADD231PS_BCST(m, r.w[0], r.sums[i][0])
			continue
		}
		x := r.x[i%len(r.x)]
		params := []param{{"p", p}, {"x", x}}
		for j := range r.w {
			params = append(params, param{fmt.Sprint("w", j), r.w[j]}, param{fmt.Sprint("s", j), r.sums[i][j]})
		}
		name := fmt.Sprint("LAST_FMA", len(r.w))
		macroUse(name, name+" adds the products of an element of x.", params, func() {
			VBROADCASTSS(m, x)
			for j := range r.w {
				VFMADD231PS(x, r.w[j], r.sums[i][j])
			}
		})
	}
	ADDQ(Imm(uint64(v.bytes())), r.at)
	INCQ(r.k)
	JNE(LabelRef(r.label("k")))
}

// multiplyEach adds the products of a tap of a depthwise convolution.
func (r *lastRoutine) multiplyEach() {
	v, n := r.v, len(r.sums[0])
	for j := range n {
		w := r.w[j%len(r.w)]
		VMOVUPS(Mem{Base: r.at, Disp: j * v.bytes()}, w)
		for i, p := range r.pointers {
			m := Mem{Base: p, Disp: j * v.bytes()}
			switch {
			case j < n-1:
				VFMADD231PS(m, w, r.sums[i][j])
			case v.wide():
				VFMADD231PS(m, w, r.mask, r.sums[i][j])
			default:
				VMASKMOVPS(m, r.mask, r.x[0])
				VFMADD231PS(r.x[0], w, r.sums[i][j])
			}
		}
	}
}

// finish adds the operands of the epilogue and stores the sums.
func (r *lastRoutine) finish() {
	v, tiles, step, at := r.v, R15, R14, lastPointers[0]
	free := VecPhysical(v.phys(15))
	if v.wide() {
		free = v.phys(31)
	}
	if !v.wide() && !r.each {
		r.mask, free = v.phys(15), v.phys(14)
		MOVQ(Mem{Base: tiles, Disp: lastMask}, at)
		VMOVUPS(Mem{Base: at}, r.mask)
	}
	MOVQ(Mem{Base: tiles, Disp: lastLdd}, step)
	add := func(field, bit int, label string) {
		MOVQ(Mem{Base: tiles, Disp: field}, at)
		TESTQ(U32(uint32(bit)), Mem{Base: tiles, Disp: lastDoes})
		JEQ(LabelRef(r.label(label)))
		for _, s := range r.sums {
			more := []param{{"free", free}}
			r.useRow("LAST_ADD", "adds a row of an operand to sums, and goes to the next", s, more, func() {
				for j := range s {
					m := Mem{Base: at, Disp: j * v.bytes()}
					switch {
					case j < len(s)-1:
						VADDPS(m, s[j], s[j])
					case v.wide():
						VADDPS(m, s[j], r.mask, s[j])
					default:
						VMASKMOVPS(m, r.mask, free)
						VADDPS(free, s[j], s[j])
					}
				}
				ADDQ(step, at)
			})
		}
		MOVQ(at, Mem{Base: tiles, Disp: field})
		Label(r.label(label))
	}
	add(lastAddend, doesAddend, "sum")
	TESTQ(U32(doesRelu), Mem{Base: tiles, Disp: lastDoes})
	JEQ(LabelRef(r.label("linear")))
	v.clear(free)
	for _, s := range r.sums {
		r.useRow("LAST_RELU", "applies relu to sums", s, []param{{"zero", free}}, func() {
			for j := range s {
				VMAXPS(s[j], free, s[j]) // keeps NaN
			}
		})
	}
	Label(r.label("linear"))
	add(lastResidual, doesResidual, "store")
	MOVQ(Mem{Base: tiles, Disp: lastDst}, at)
	for _, s := range r.sums {
		r.useRow("LAST_STORE", "stores a row of sums, and goes to the next", s, nil, func() {
			for j := range s {
				m := Mem{Base: at, Disp: j * v.bytes()}
				switch {
				case j < len(s)-1:
					VMOVUPS(s[j], m)
				case v.wide():
					VMOVUPS(s[j], r.mask, m)
				default:
					VMASKMOVPS(s[j], r.mask, m)
				}
			}
			ADDQ(step, at)
		})
	}
	MOVQ(at, Mem{Base: tiles, Disp: lastDst})
}

// useRow writes a use of a macro for a row of sums.
func (r *lastRoutine) useRow(name, doc string, s []VecPhysical, more []param, body func()) {
	name = fmt.Sprint(name, len(s), "_", r.v.name)
	for j := range s {
		more = append(more, param{fmt.Sprint("s", j), s[j]})
	}
	if m, ok := r.mask.(VecPhysical); ok {
		more = append(more, param{"mask", m})
	}
	macroUse(name, name+" "+doc+".", more, body)
}
