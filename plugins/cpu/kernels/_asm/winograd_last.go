package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Fields of conv.winogradTile, each of 8 bytes.
const (
	squareX = 8 * iota
	squareLines
	squareColumns
	squareOut
	squareInside
	squareBytes
)

// Fields of conv.winogradIn, each of 8 bytes.
const (
	inTiles = 8 * iota
	inCount
	inX
	inZeros
	inDst
	inApart
	inLdd
	inVectors
	inMask
	inAt // 16 pointers
)

// Fields of conv.winogradOut, each of 8 bytes.
const (
	outTiles = 8 * iota
	outCount
	outSrc
	outApart
	outLds
	outVectors
	outMask
	outBias
	outDst
	outAddend
	outResidual
	outLine
	outPixel
	outDoes
)

// genWinogradLast writes the routines of convolutions by Winograd's algorithm F(2x2, 3x3) with channels last. A vector
// has channels of one pixel.
func genWinogradLast(v vec) {
	winogradLastIn(v)
	winogradLastOut(v)
	winogradLastSeen(v)
}

// maskedVectors has the mask of the vector that a loop over vectors of channels has come to.
type maskedVectors struct {
	v    vec
	mask Register
}

func newMaskedVectors(v vec) *maskedVectors {
	if v.wide() {
		return &maskedVectors{v, K()}
	}
	return &maskedVectors{v, v.reg()}
}

// set sets the mask: that of the last vector is in memory, where AVX2 has a pointer. It writes labels with the suffix.
func (m *maskedVectors) set(left Register, last Mem, suffix string) {
	if m.v.wide() {
		KXNORW(m.mask, m.mask, m.mask)
	} else {
		VPCMPEQD(m.mask, m.mask, m.mask)
	}
	CMPQ(left, Imm(1))
	JNE(LabelRef("inner" + suffix))
	if m.v.wide() {
		KMOVQ(last, m.mask)
	} else {
		p := GP64()
		MOVQ(last, p)
		VMOVUPS(Mem{Base: p}, m.mask)
	}
	Label("inner" + suffix)
}

// load loads a vector. Lanes beyond the mask are 0.
func (m *maskedVectors) load(from Mem, r VecVirtual) {
	if m.v.wide() {
		VMOVUPS_Z(from, m.mask, r)
	} else {
		VMASKMOVPS(from, m.mask, r)
	}
}

// winogradLastIn writes the routine that transforms tiles of 4x4 pixels.
func winogradLastIn(v vec) {
	name := "winogradLastIn" + v.name
	TEXT(name, NOSPLIT, "func(t *byte)")
	Doc(name + " stores element (i, j) of B^T d B of each tile d at dst + (4*i+j)*apart, and ldd further for the" +
		" next tile. The channels of a tile are vectors, the last one with a mask. See winogradLastIn in" +
		" _asm/winograd_last.go.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	tile, count, apart := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: t, Disp: inTiles}, tile)
	MOVQ(Mem{Base: t, Disp: inCount}, count)
	MOVQ(Mem{Base: t, Disp: inApart}, apart)
	threeApart := GP64()
	LEAQ(Mem{Base: apart, Index: apart, Scale: 2}, threeApart)
	mask := newMaskedVectors(v)
	Label("tile")
	point(t, tile)
	c, left := GP64(), GP64()
	XORQ(c, c)
	MOVQ(Mem{Base: t, Disp: inVectors}, left)
	Label("vector")
	mask.set(left, Mem{Base: t, Disp: inMask}, "")
	to := GP64()
	MOVQ(Mem{Base: t, Disp: inDst}, to)
	ADDQ(c, to)
	at := GP64()
	pixel := func(y, x int) VecVirtual {
		r := v.reg()
		MOVQ(Mem{Base: t, Disp: inAt + 8*(4*y+x)}, at)
		mask.load(Mem{Base: at, Index: c, Scale: 1}, r)
		return r
	}
	var d [4][4]VecVirtual
	if v.wide() { // there are registers for all pixels
		for y := range d {
			for x := range d[y] {
				d[y][x] = pixel(y, x)
			}
		}
	}
	for i, rows := range [4][2]int{{0, 2}, {1, 2}, {2, 1}, {1, 3}} {
		var s [4]VecVirtual
		for x := range s {
			var a, b VecVirtual
			s[x] = v.reg()
			if v.wide() {
				a, b = d[rows[0]][x], d[rows[1]][x]
			} else {
				a, b = pixel(rows[0], x), pixel(rows[1], x)
			}
			if i == 1 {
				VADDPS(b, a, s[x])
			} else {
				VSUBPS(b, a, s[x])
			}
		}
		r := v.reg()
		VSUBPS(s[2], s[0], s[0])
		VADDPS(s[2], s[1], r)
		VSUBPS(s[1], s[2], s[2])
		VSUBPS(s[3], s[1], s[1])
		VMOVUPS(s[0], Mem{Base: to})
		VMOVUPS(r, Mem{Base: to, Index: apart, Scale: 1})
		VMOVUPS(s[2], Mem{Base: to, Index: apart, Scale: 2})
		VMOVUPS(s[1], Mem{Base: to, Index: threeApart, Scale: 1})
		if i < 3 {
			LEAQ(Mem{Base: to, Index: apart, Scale: 4}, to)
		}
	}
	ADDQ(Imm(uint64(v.bytes())), c)
	DECQ(left)
	JNE(LabelRef("vector"))
	MOVQ(Mem{Base: t, Disp: inLdd}, c)
	ADDQ(c, Mem{Base: t, Disp: inDst})
	ADDQ(Imm(squareBytes), tile)
	DECQ(count)
	JNE(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// point stores where the pixels of a tile are. The sum of a place and an address is negative for padding.
func point(t, tile Register) {
	base, lines, columns, zeros, line, p := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: tile, Disp: squareX}, base)
	ADDQ(Mem{Base: t, Disp: inX}, base)
	MOVQ(Mem{Base: tile, Disp: squareLines}, lines)
	MOVQ(Mem{Base: tile, Disp: squareColumns}, columns)
	MOVQ(Mem{Base: t, Disp: inZeros}, zeros)
	for y := range 4 {
		MOVQ(Mem{Base: lines, Disp: 8 * y}, line)
		ADDQ(base, line)
		for x := range 4 {
			MOVQ(Mem{Base: columns, Disp: 8 * x}, p)
			ADDQ(line, p)
			CMOVQMI(zeros, p)
			MOVQ(p, Mem{Base: t, Disp: inAt + 8*(4*y+x)})
		}
	}
}

// winogradLastOut writes the routine that transforms products back and applies the epilogue.
func winogradLastOut(v vec) {
	name := "winogradLastOut" + v.name
	TEXT(name, NOSPLIT, "func(t *byte)")
	Doc(name + " stores the elements of bias + A^T m A of each tile that are inside of the result, after the" +
		" epilogue. Element (i, j) of m is at src + (4*i+j)*apart, and lds further for the next tile. The channels of" +
		" a tile are vectors, the last one with a mask. See winogradLastOut in _asm/winograd_last.go.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	tile, apart, threeApart := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: t, Disp: outTiles}, tile)
	MOVQ(Mem{Base: t, Disp: outApart}, apart)
	LEAQ(Mem{Base: apart, Index: apart, Scale: 2}, threeApart)
	mask := newMaskedVectors(v)
	zero := v.reg()
	v.clear(zero)
	Label("tile")
	to, from, bias, left := GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: tile, Disp: squareOut}, to)
	MOVQ(Mem{Base: t, Disp: outSrc}, from)
	MOVQ(Mem{Base: t, Disp: outBias}, bias)
	MOVQ(Mem{Base: t, Disp: outVectors}, left)
	Label("vector")
	mask.set(left, Mem{Base: t, Disp: outMask}, "")
	var s [2][4]VecVirtual
	row := [4]GPVirtual{from, GP64(), GP64(), GP64()}
	for i := range row[1:] {
		LEAQ(Mem{Base: row[i], Index: apart, Scale: 4}, row[i+1])
	}
	for j := range 4 {
		m := func(i int) Mem {
			switch j {
			case 0:
				return Mem{Base: row[i]}
			case 3:
				return Mem{Base: row[i], Index: threeApart, Scale: 1}
			}
			return Mem{Base: row[i], Index: apart, Scale: uint8(j)}
		}
		a, b := v.reg(), v.reg()
		VMOVUPS(m(1), a)
		VSUBPS(m(2), a, b)
		VADDPS(m(2), a, a)
		VADDPS(m(0), a, a)
		VSUBPS(m(3), b, b)
		s[0][j], s[1][j] = a, b
	}
	offset := v.load(Mem{Base: bias})
	var y [2][2]VecVirtual
	for i, r := range s {
		y[i] = [2]VecVirtual{v.reg(), v.reg()}
		VADDPS(r[2], r[1], y[i][0])
		VSUBPS(r[2], r[1], y[i][1])
		VADDPS(r[0], y[i][0], y[i][0])
		VSUBPS(r[3], y[i][1], y[i][1])
		VADDPS(offset, y[i][0], y[i][0])
		VADDPS(offset, y[i][1], y[i][1])
	}
	for i := range y {
		for j, r := range y[i] {
			winogradStore(t, tile, to, i, j, r, zero, mask)
		}
	}
	for _, p := range []GPVirtual{to, from, bias} {
		ADDQ(Imm(uint64(v.bytes())), p)
	}
	DECQ(left)
	JNE(LabelRef("vector"))
	MOVQ(Mem{Base: t, Disp: outLds}, from)
	ADDQ(from, Mem{Base: t, Disp: outSrc})
	ADDQ(Imm(squareBytes), tile)
	DECQ(Mem{Base: t, Disp: outCount})
	JNE(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// winogradStore applies the epilogue to element (i, j) of a tile, and stores it if it is inside of the result. to is
// the place of element (0, 0).
func winogradStore(t, tile, to Register, i, j int, r, zero VecVirtual, mask *maskedVectors) {
	v := mask.v
	suffix := string('0'+rune(i)) + string('0'+rune(j))
	if i+j > 0 {
		TESTQ(U32(uint32(1<<(2*i+j))), Mem{Base: tile, Disp: squareInside})
		JEQ(LabelRef("outside" + suffix))
	}
	at, p := GP64(), GP64()
	MOVQ(to, at)
	if i > 0 {
		ADDQ(Mem{Base: t, Disp: outLine}, at)
	}
	if j > 0 {
		ADDQ(Mem{Base: t, Disp: outPixel}, at)
	}
	add := func(bit, field int, label string) {
		TESTQ(U32(uint32(bit)), Mem{Base: t, Disp: outDoes})
		JEQ(LabelRef(label + suffix))
		x := v.reg()
		MOVQ(Mem{Base: t, Disp: field}, p)
		mask.load(Mem{Base: p, Index: at, Scale: 1}, x)
		VADDPS(x, r, r)
		Label(label + suffix)
	}
	add(doesAddend, outAddend, "sum")
	TESTQ(U32(doesRelu), Mem{Base: t, Disp: outDoes})
	JEQ(LabelRef("linear" + suffix))
	VMAXPS(r, zero, r) // keeps NaN
	Label("linear" + suffix)
	add(doesResidual, outResidual, "store")
	MOVQ(Mem{Base: t, Disp: outDst}, p)
	to = p
	if v.wide() {
		VMOVUPS(r, mask.mask, Mem{Base: to, Index: at, Scale: 1})
	} else {
		VMASKMOVPS(r, mask.mask, Mem{Base: to, Index: at, Scale: 1})
	}
	Label("outside" + suffix)
}

// winogradLastSeen writes the routine that finds the magnitudes of pixels.
func winogradLastSeen(v vec) {
	name := "winogradLastSeen" + v.name
	TEXT(name, NOSPLIT, "func(x *float32, ldx, pixels, vectors int, mask uintptr, most *float32)")
	Doc(name + " is most[c] = the largest magnitude of x[p*ldx+c] and most[vectors*lanes+c] = the sum of magnitudes," +
		" for p < pixels and c < vectors*lanes; the mask is of the last vector. A NaN makes a sum NaN. pixels and" +
		" vectors > 0.")
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	ldx := Load(Param("ldx"), GP64())
	left := Load(Param("vectors"), GP64())
	most := Load(Param("most"), GP64())
	sum := GP64()
	SHLQ(U8(2), ldx)
	MOVQ(left, sum)
	SHLQ(U8(uint8(map[int]int{8: 5, 16: 6}[v.lanes])), sum)
	ADDQ(most, sum)
	mask, sign := newMaskedVectors(v), v.load(bitsConst(0x7fffffff))
	Label("vector")
	mask.set(left, arg("mask"), "")
	from, pixels := GP64(), GP64()
	MOVQ(x, from)
	Load(Param("pixels"), pixels)
	var largest, total [2]VecVirtual // of even and of odd pixels
	for i := range largest {
		largest[i], total[i] = v.zero(), v.zero()
	}
	add := func(i int) {
		r := v.reg()
		mask.load(Mem{Base: from}, r)
		v.and(r, sign, r)
		VMAXPS(r, largest[i], largest[i])
		VADDPS(r, total[i], total[i])
		ADDQ(ldx, from)
	}
	SUBQ(Imm(2), pixels)
	JLT(LabelRef("last"))
	Label("pair")
	add(0)
	add(1)
	SUBQ(Imm(2), pixels)
	JGE(LabelRef("pair"))
	Label("last")
	ADDQ(Imm(2), pixels)
	JEQ(LabelRef("store"))
	add(0)
	Label("store")
	VMAXPS(largest[1], largest[0], largest[0])
	VADDPS(total[1], total[0], total[0])
	VMOVUPS(largest[0], Mem{Base: most})
	VMOVUPS(total[0], Mem{Base: sum})
	for _, p := range []Register{x, most, sum} {
		ADDQ(Imm(uint64(v.bytes())), p)
	}
	DECQ(left)
	JNE(LabelRef("vector"))
	VZEROUPPER()
	RET()
}
