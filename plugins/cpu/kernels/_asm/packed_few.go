package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// few writes the product with the weights as the left operand, for few rows of activations: these are transposed once,
// while the weights stay as they were unpacked. A quad of weights is broadcast and multiplied by eight rows of
// activations.
func (p wordProduct) few() {
	name, width := "few"+p.name[len("integer"):], 0
	for _, r := range p.runs {
		width += 4 * r.quads
	}
	TEXT(name, NOSPLIT, "func(sums *int32, halves, groups int, a, b *int8, lda, step int, dx, xs, dw, low, c *float32, resume int)")
	minus := ""
	if p.lows {
		minus = " - xs*low"
	}
	Doc(name+" sets C, of 16 rows and 8*halves columns, to the sum over groups of dx*dw*(a·b)"+minus+".",
		fmt.Sprintf("Rows of a, of weights, are lda bytes apart, and groups of %d bytes step bytes. b is [groups][%d][16 columns][4].",
			width, p.group/4),
		"dx and xs are [groups][16 rows], dw, low and sums [groups][16 columns]; sums has two int16, see quadExcess. C is [16][16]. With",
		"resume, the result is added to C. groups > 0, halves is 1 or 2.")
	Pragma("noescape")
	a, b, lda, lda3, dx, dw, n := GP64(), GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	xs, low, sums, c, row, half := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(arg("lda"), lda)
	LEAQ(Mem{Base: lda, Index: lda, Scale: 2}, lda3)
	XORQ(row, row) // four times the number of the first of four rows
	Label("rows")
	XORQ(half, half) // the offset of eight columns
	Label("half")
	// a += row/4 * lda
	MOVQ(arg("a"), a)
	MOVQ(row, b)
	SHRQ(Imm(2), b)
	IMULQ(lda, b)
	ADDQ(b, a)
	MOVQ(arg("b"), b)
	ADDQ(half, b)
	MOVQ(arg("dx"), dx)
	ADDQ(row, dx)
	MOVQ(arg("dw"), dw)
	ADDQ(half, dw)
	if p.lows {
		MOVQ(arg("xs"), xs)
		ADDQ(row, xs)
		MOVQ(arg("low"), low)
		ADDQ(half, low)
	} else {
		MOVQ(arg("sums"), sums)
		ADDQ(half, sums)
	}
	MOVQ(arg("c"), c)
	MOVQ(row, n)
	SHLQ(Imm(4), n)
	ADDQ(n, c)
	ADDQ(half, c)
	MOVQ(arg("groups"), n)
	var acc [4]VecVirtual
	for r := range acc {
		acc[r] = YMM()
		VXORPS(acc[r], acc[r], acc[r])
	}
	CMPQ(arg("resume"), Imm(0))
	JEQ(LabelRef("group"))
	for r := range acc {
		VMOVUPS(Mem{Base: c, Disp: 64 * r}, acc[r])
	}
	Label("group")
	at := func(r, disp int) Mem {
		switch r {
		case 0:
			return Mem{Base: a, Disp: disp}
		case 3:
			return Mem{Base: a, Index: lda3, Scale: 1, Disp: disp}
		}
		return Mem{Base: a, Index: lda, Scale: uint8(r), Disp: disp}
	}
	var total [4]VecVirtual
	first, column := 0, 0 // quads of b and of a
	for i, run := range p.runs {
		if first*4 == p.group { // high nibbles, for the same activations
			first = 0
		}
		var words [4]VecVirtual
		for r := range words {
			words[r] = YMM()
			if run.excess {
				VMOVDQU(Mem{Base: sums}, words[r])
			}
		}
		for q := range run.quads {
			x := YMM()
			VMOVDQU(Mem{Base: b, Disp: 64 * (first + q)}, x)
			for r := range words {
				w := YMM()
				VPBROADCASTD(at(r, 4*(column+q)), w)
				if q == 0 && !run.excess {
					VPMADDUBSW(x, w, words[r])
					continue
				}
				VPMADDUBSW(x, w, w)
				VPADDW(w, words[r], words[r])
			}
		}
		first, column = first+run.quads, column+run.quads
		for r := range words {
			VPMADDWD(bitsConst(uint32(run.weight)*0x00010001), words[r], words[r])
			if i > 0 {
				VPADDD(total[r], words[r], words[r])
			}
			total[r] = words[r]
		}
	}
	scale := vectorOf(Mem{Base: dw})
	for r, x := range total {
		d := YMM()
		VBROADCASTSS(Mem{Base: dx, Disp: 4 * r}, d)
		VCVTDQ2PS(x, x)
		VMULPS(scale, d, d)
		VFMADD231PS(d, x, acc[r])
	}
	if p.lows {
		minimum := vectorOf(Mem{Base: low})
		for r := range acc {
			d := YMM()
			VBROADCASTSS(Mem{Base: xs, Disp: 4 * r}, d)
			VFNMADD231PS(minimum, d, acc[r])
		}
	}
	ADDQ(arg("step"), a)
	ADDQ(U32(uint32(16*p.group)), b)
	each := []Register{dx, dw}
	if p.lows {
		each = append(each, xs, low)
	} else {
		each = append(each, sums)
	}
	for _, r := range each {
		ADDQ(Imm(64), r)
	}
	DECQ(n)
	JNE(LabelRef("group"))
	for r := range acc {
		VMOVUPS(acc[r], Mem{Base: c, Disp: 64 * r})
	}
	MOVQ(arg("halves"), n)
	SHLQ(Imm(5), n)
	ADDQ(Imm(32), half)
	CMPQ(half, n)
	JNE(LabelRef("half"))
	ADDQ(Imm(16), row)
	CMPQ(row, Imm(64))
	JNE(LabelRef("rows"))
	VZEROUPPER()
	RET()
}
