package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPackedWords writes products of packed weights with activations in bytes, for processors without VNNI. VPMADDUBSW
// adds pairs of products in 16 bits, and saturates. A sum of four times as many products still fits, if the weights
// have few bits, so a group needs one VPMADDWD instead of one for every quad. Weights of 8 bits are split into nibbles.
func genPackedWords(v vec) {
	if v.wide() {
		return
	}
	for _, f := range integerFormats {
		if f.excess() > 0 || f.nibbles() {
			unpackUnsigned(f)
		}
	}
	for _, p := range []wordProduct{
		{"integerWords16", 16, false, []wordRun{{quads: 4, excess: true, weight: 1}}},
		{"integerWords16Low", 16, true, []wordRun{{quads: 4, weight: 1}}},
		{"integerWords32", 32, false, []wordRun{{quads: 8, excess: true, weight: 1}}},
		{"integerWords32Low", 32, true, []wordRun{{quads: 8, weight: 1}}},
		{"integerWords32Fives", 32, true, []wordRun{{quads: 4, weight: 1}, {quads: 4, weight: 1}}},
		{"integerWords32Nibbles", 32, false, []wordRun{{quads: 8, weight: 1}, {quads: 8, excess: true, weight: 16}}},
	} {
		p.write()
		p.few()
	}
	for rows := 2; rows <= 4; rows++ {
		fewRowsQ8(rows)
	}
}

// excess returns what is added to the integers of a format so that none is negative. Sums of products with the original
// integers fit into 16 bits.
func (f integerFormat) excess() uint32 {
	return map[string]uint32{"Q4_0": 8, "Q5_0": 16, "Q3_K": 4, "Q6_K": 32, "MXFP4": 12}[f.name]
}

// nibbles reports whether the integers of a format have 8 bits.
func (f integerFormat) nibbles() bool {
	switch f.name {
	case "Q8_0", "Q8_K", "IQ4_NL", "IQ4_XS":
		return true
	}
	return false
}

// unpackUnsigned is unpackIntegers for integers without a sign.
func unpackUnsigned(f integerFormat) {
	name := "unpackUnsigned" + f.name
	last := fmt.Sprintf("It adds %d to the integers. blocks > 0.", f.excess())
	width := 1
	put := func(b *integerBlock, i int, x VecVirtual) {
		VPADDB(bytesConst(f.excess()), x, x)
		VMOVDQU(x, Mem{Base: b.q, Disp: i})
	}
	if f.nibbles() {
		last, width = "An integer is split into nibbles: 32 low ones are followed by 32 high ones, to which it adds 8. blocks > 0.",
			2
		put = func(b *integerBlock, i int, x VecVirtual) {
			VMOVDQU(masked(x, 15), Mem{Base: b.q, Disp: 2 * i})
			high := masked(shiftRight(x, 4), 15)
			VPXOR(bytesConst(8), high, high)
			VMOVDQU(high, Mem{Base: b.q, Disp: 2*i + 32})
		}
	}
	writeUnpack(
		f, name, width, put,
		name+" unpacks blocks: q to integers, scale and low to one number for each group (see integerFormat).", last)
}

// wordRun is a run of quads whose products are added in 16 bits.
type wordRun struct {
	quads  int
	excess bool // the weights have an excess
	weight int  // factor of the sum
}

// wordProduct is a product of up to 16 rows and 16 columns. The sum of products of a group is the weighted sum of its
// runs.
type wordProduct struct {
	name  string
	group int
	lows  bool
	runs  []wordRun
}

func (p wordProduct) write() {
	TEXT(
		p.name, NOSPLIT,
		"func(room *byte, sums *int32, fours, groups int, a, b *int8, dx, xs, dw, low, c *float32, ldc, resume int)")
	minus, width := "", 0
	if p.lows {
		minus = " - xs*low"
	}
	for _, r := range p.runs {
		width += 4 * r.quads
	}
	Doc(p.name+" sets C, of 4*fours rows and 16 columns, to the sum over groups of dx*dw*(a·b)"+minus+".",
		fmt.Sprintf(
			"a is [groups][16 rows][%d], b [groups][%d][16 columns][4]. dx and xs are [groups][16 rows], dw and low [groups][16 columns].",
			p.group, width/4),
		"sums is [groups][16 rows]: two int16, see quadExcess. room has 2048 bytes. With resume, the result is added to C. groups > 0, 0 < fours <= 4.")
	Pragma("noescape")
	a, b, dx, dw, sums, room, n := RSI, RDX, R8, R9, R10, RBX, R11
	at, end, to := RCX, R12, RAX // at and end are 16 times a number of rows/4
	xs, low := R13, RDI
	acc := func(r, h int) VecPhysical { return vec{8, ""}.phys(2*r + h) }
	MOVQ(arg("room"), room)
	MOVQ(arg("fours"), end)
	p.copyRows(true)
	MOVQ(arg("a"), a)
	MOVQ(arg("b"), b)
	MOVQ(arg("dx"), dx)
	MOVQ(arg("dw"), dw)
	MOVQ(arg("groups"), n)
	if p.lows {
		MOVQ(arg("xs"), xs)
		MOVQ(arg("low"), low)
	} else {
		MOVQ(arg("sums"), sums)
	}
	SHLQ(Imm(4), end)
	Label("group")
	XORQ(at, at)
	MOVQ(room, to)
	Label("rows")
	first, column := 0, 0 // quads of a and of b
	for i, run := range p.runs {
		if first*4 == p.group { // high nibbles, for the same activations
			first = 0
		}
		for r := 0; r < 4 && run.excess; r++ {
			VPBROADCASTD(Mem{Base: sums, Index: at, Scale: 1, Disp: 4 * r}, acc(r, 0))
			VMOVDQA(acc(r, 0), acc(r, 1))
		}
		for q := range run.quads {
			VMOVDQU(Mem{Base: b, Disp: 64 * (column + q)}, Y12)
			VMOVDQU(Mem{Base: b, Disp: 64*(column+q) + 32}, Y13)
			// two rows at a time, so that additions are further from the products that they need
			for r := 0; r < 4; r += 2 {
				p.quad(r, 4*(first+q), q == 0 && !run.excess, acc)
			}
		}
		first, column = first+run.quads, column+run.quads
		for v := range 8 {
			x, kept := acc(0, v), Mem{Base: room, Disp: 1024 + 32*v}
			macro := fmt.Sprintf("%s_SUM%d", strings.ToUpper(p.name), i)
			macroUse(macro, macro+" adds up pairs of sums of a run.", []param{{"x", x}, {"v", v}}, func() {
				VPMADDWD(bitsConst(uint32(run.weight)*0x00010001), x, x)
				if i > 0 {
					VPADDD(kept, x, x)
				}
				if i < len(p.runs)-1 {
					VMOVDQU(x, kept)
				}
			})
		}
	}
	for r := range 4 {
		VBROADCASTSS(Mem{Base: dx, Index: at, Scale: 1, Disp: 4 * r}, Y12)
		if p.lows {
			VBROADCASTSS(Mem{Base: xs, Index: at, Scale: 1, Disp: 4 * r}, Y13)
		}
		for h := range 2 {
			x, sum := acc(r, h), Mem{Base: to, Disp: 64*r + 32*h}
			macro := "SCALE_HALF"
			if p.lows {
				macro += "_LOW"
			}
			macroUse(macro, macro+" adds the scaled sums x of half h of a row of a group to the sums of the row.",
				[]param{{"x", x}, {"row", r}, {"h", h}}, func() {
					VCVTDQ2PS(x, x)
					VMULPS(Mem{Base: dw, Disp: 32 * h}, Y12, Y14)
					VFMADD213PS(sum, Y14, x)
					if p.lows {
						VFNMADD231PS(Mem{Base: low, Disp: 32 * h}, Y13, x)
					}
					VMOVUPS(x, sum)
				})
		}
	}
	ADDQ(Imm(16), at)
	ADDQ(U32(256), to)
	CMPQ(at, end)
	JNE(LabelRef("rows"))
	ADDQ(U32(uint32(16*p.group)), a)
	ADDQ(U32(uint32(16*width)), b)
	for _, r := range []Register{dx, dw} {
		ADDQ(Imm(64), r)
	}
	if p.lows {
		ADDQ(Imm(64), xs)
		ADDQ(Imm(64), low)
	} else {
		ADDQ(Imm(64), sums)
	}
	DECQ(n)
	JNE(LabelRef("group"))
	SHRQ(Imm(4), end)
	p.copyRows(false)
	VZEROUPPER()
	RET()
}

// quad adds the products of a quad and rows r and r+1, or sets sums to them. The activations of a row are at an offset.
func (p wordProduct) quad(r, offset int, set bool, acc func(r, h int) VecPhysical) {
	a, at := RSI, RCX
	macro := fmt.Sprintf("ADD_QUAD%d", p.group)
	if set {
		macro = fmt.Sprintf("SET_QUAD%d", p.group)
	}
	all := []VecPhysical{acc(r, 0), acc(r, 1), acc(r+1, 0), acc(r+1, 1)}
	params := []param{{"row", r}, {"at", offset}}
	for i, s := range all {
		params = append(params, param{fmt.Sprint("sum", i), s})
	}
	macroUse(macro, macro+" multiplies a quad and two rows.", params, func() {
		x := []VecPhysical{Y14, Y15}
		for i := range x {
			VPBROADCASTD(Mem{Base: a, Index: at, Scale: uint8(p.group / 4), Disp: (r+i)*p.group + offset}, x[i])
		}
		sums := []VecPhysical{Y10, Y14, Y11, Y15}
		if set {
			sums = all
		}
		for i := range sums {
			VPMADDUBSW(x[i/2], []VecPhysical{Y12, Y13}[i%2], sums[i])
		}
		for i := 0; i < 4 && !set; i++ {
			VPADDW(sums[i], all[i], all[i])
		}
	})
}

// copyRows copies C to room, or zeros if the product does not resume, or room to C. R12 holds the number of fours of
// rows. Rows of C may be 4096 bytes apart, and the first-level cache would not hold 16 of these.
func (p wordProduct) copyRows(in bool) {
	c, ldc, to, left := RSI, R8, RAX, RCX
	MOVQ(arg("c"), c)
	MOVQ(arg("ldc"), ldc)
	SHLQ(Imm(2), ldc)
	MOVQ(RBX, to)
	MOVQ(R12, left)
	SHLQ(Imm(2), left)
	step := func(label string, do func(h int)) {
		Label(label)
		for h := range 2 {
			do(h)
		}
		ADDQ(ldc, c)
		ADDQ(Imm(64), to)
		DECQ(left)
		JNE(LabelRef(label))
	}
	if !in {
		step("out", func(h int) {
			VMOVUPS(Mem{Base: to, Disp: 32 * h}, Y0)
			VMOVUPS(Y0, Mem{Base: c, Disp: 32 * h})
		})
		return
	}
	VXORPS(Y0, Y0, Y0)
	CMPQ(arg("resume"), Imm(0))
	JEQ(LabelRef("fresh"))
	step("in", func(h int) {
		VMOVUPS(Mem{Base: c, Disp: 32 * h}, Y0)
		VMOVUPS(Y0, Mem{Base: to, Disp: 32 * h})
	})
	JMP(LabelRef("begin"))
	step("fresh", func(h int) { VMOVUPS(Y0, Mem{Base: to, Disp: 32 * h}) })
	Label("begin")
}
