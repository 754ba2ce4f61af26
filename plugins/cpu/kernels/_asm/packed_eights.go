package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Products of packed weights with eight rows of activations in bytes. Four weights of a column are broadcast and
// multiplied by four activations of each row, so weights need no transposition. Each broadcast is a load, and two loads
// start in a cycle, as do two products.

// Distances in unpacked weights, in bytes: a column has 512 values and 64 bytes more, because at 512 or 1024 bytes
// columns would share cache sets. Scales have room for 32 groups, and lows follow those of 16 columns.
const (
	eightsDepth  = 512
	eightsScales = 128
	eightsLows   = 16 * eightsScales
	eightsLines  = 9 // of 64 bytes: those of 512 values in q8_0
)

// genPackedEights writes the products, for AVX2 and for AVX-512 with VNNI. With AVX2, sums of a run of quads have 16
// bits: VPMADDUBSW adds pairs of products in 16 bits, and saturates. A sum of four times as many products still fits,
// if the weights have few bits, so a group needs one VPMADDWD instead of one for every quad. Weights of 8 bits are
// split into nibbles.
func genPackedEights(v vec) {
	if v.wide() {
		for _, p := range []eightsProduct{{"16", 16, false, nil}, {"16Low", 16, true, nil}, {"32", 32, false, nil},
			{"32Low", 32, true, nil}} {
			p.writeVNNI()
		}
		return
	}
	for _, p := range []eightsProduct{
		{"16", 16, false, []wordRun{{quads: 4, excess: true, weight: 1}}},
		{"16Low", 16, true, []wordRun{{quads: 4, weight: 1}}},
		{"32", 32, false, []wordRun{{quads: 8, excess: true, weight: 1}}},
		{"32Low", 32, true, []wordRun{{quads: 8, weight: 1}}},
		{"32Fives", 32, true, []wordRun{{quads: 4, weight: 1}, {quads: 4, weight: 1}}},
		{"32Nibbles", 32, false, []wordRun{{quads: 8, weight: 1}, {quads: 8, excess: true, weight: 16}}},
	} {
		p.writeAVX2()
	}
}

// wordRun is a run of quads whose products are added in 16 bits.
type wordRun struct {
	quads  int
	excess bool // the weights have an excess
	weight int  // factor of the sum
}

// eightsProduct is a product of eight rows and 16 columns.
type eightsProduct struct {
	name  string
	group int
	lows  bool
	runs  []wordRun // with AVX2: the sum of products of a group is the weighted sum of these
}

// width returns the bytes of a column of a group.
func (p eightsProduct) width() (n int) {
	for _, r := range p.runs {
		n += 4 * r.quads
	}
	return max(n, p.group)
}

// column returns the distance between columns of weights.
func (p eightsProduct) column() int { return eightsDepth*p.width()/p.group + 80 }

// eightsPointers are the registers of the loops.
type eightsPointers struct {
	x, w, scale, c, n, sets, ahead, stride, third Register
}

// loops writes the loops over sets of columns and over groups. group writes the code for a group, constants what
// precedes all.
func (p eightsProduct) loops(name string, columns int, acc []Register, constants func(),
	group func(r eightsPointers)) {
	TEXT(name, NOSPLIT,
		"func(x *float32, w *int8, scale, c *float32, groups, sets int, "+
			"ahead *byte, stride, step, resume int)")
	minus, last := "", "-excess*sum(a): 8 pairs of int16, see quadExcess"
	ahead := "With each group, 4 columns of ahead, stride bytes apart, are prefetched, step bytes further each time."
	if p.runs == nil {
		last = "-excess*sum(a): 8 int32"
		ahead = "With each group, a column of ahead is prefetched. Columns are stride bytes apart."
	}
	if p.lows {
		minus, last = " - xs*low", "xs: 8 floats"
	}
	Doc(fmt.Sprintf("%s sets C, of %d*sets columns and 8 rows, to the sum over groups of dx*dw*(a·b)%s.", name, columns,
		minus),
		fmt.Sprintf("x is [groups] of a: [%d][8 rows][4] bytes, dx: 8 floats, %s.", p.group/4, last),
		fmt.Sprintf(
			"w is [columns][groups][%d], columns %d bytes apart; scale is [columns][%d] of dw, and low is %d bytes later.",
			p.width(), p.column(), eightsScales/4, eightsLows),
		ahead+" C is [columns][8].", "With resume, the result is added to C. ahead may be nil. groups, sets > 0.")
	Pragma("noescape")
	r := eightsPointers{GP64(), GP64(), GP64(), Load(Param("c"), GP64()), GP64(), Load(Param("sets"), GP64()), GP64(),
		Load(Param("stride"), GP64()), GP64()}
	from, scales, next := Load(Param("w"), GP64()), Load(Param("scale"), GP64()), Load(Param("ahead"), GP64())
	LEAQ(Mem{Base: r.stride, Index: r.stride, Scale: 2}, r.third)
	step := Load(Param("step"), GP64())
	constants()
	Label("set")
	MOVQ(arg("x"), r.x)
	MOVQ(arg("groups"), r.n)
	MOVQ(from, r.w)
	MOVQ(scales, r.scale)
	MOVQ(next, r.ahead)
	CMPQ(arg("resume"), Imm(0))
	JEQ(LabelRef("fresh"))
	for i, a := range acc {
		VMOVUPS(Mem{Base: r.c, Disp: 32 * i}, a)
	}
	JMP(LabelRef("group"))
	Label("fresh")
	for _, a := range acc {
		VXORPS(a, a, a)
	}
	Label("group")
	group(r)
	TESTQ(r.ahead, r.ahead)
	JEQ(LabelRef("prefetched"))
	if p.runs == nil {
		for i := range eightsLines {
			PREFETCHT0(Mem{Base: r.ahead, Disp: 64 * i})
		}
		ADDQ(r.stride, r.ahead)
	} else {
		PREFETCHT0(Mem{Base: r.ahead})
		PREFETCHT0(Mem{Base: r.ahead, Index: r.stride, Scale: 1})
		PREFETCHT0(Mem{Base: r.ahead, Index: r.stride, Scale: 2})
		PREFETCHT0(Mem{Base: r.ahead, Index: r.third, Scale: 1})
		ADDQ(step, r.ahead)
	}
	Label("prefetched")
	ADDQ(U32(uint32(8*p.group+64)), r.x)
	ADDQ(U32(uint32(p.width())), r.w)
	ADDQ(Imm(4), r.scale)
	DECQ(r.n)
	JNE(LabelRef("group"))
	for i, a := range acc {
		VMOVUPS(a, Mem{Base: r.c, Disp: 32 * i})
	}
	ADDQ(U32(uint32(32*columns)), r.c)
	ADDQ(U32(uint32(columns*p.column())), from)
	ADDQ(U32(uint32(columns*eightsScales)), scales)
	TESTQ(next, next)
	JEQ(LabelRef("last"))
	for range columns / 4 {
		LEAQ(Mem{Base: next, Index: r.stride, Scale: 4}, next)
	}
	Label("last")
	DECQ(r.sets)
	JNE(LabelRef("set"))
	VZEROUPPER()
	RET()
}

// writeAVX2 writes a product of four columns at a time.
func (p eightsProduct) writeAVX2() {
	var acc [4]Register
	for i := range acc {
		acc[i] = YMM()
	}
	var weights []VecVirtual // of runs, as words
	p.loops("eights"+p.name+"AVX2", len(acc), acc[:], func() {
		for _, run := range p.runs {
			weights = append(weights, vectorOf(bitsConst(uint32(run.weight)*0x00010001)))
		}
	}, func(at eightsPointers) {
		var total [4]VecVirtual
		first, column := 0, 0 // quads of x and of w
		last := Mem{Base: at.x, Disp: 8*p.group + 32}
		for i, run := range p.runs {
			if first*4 == p.group { // high nibbles, for the same activations
				first = 0
			}
			var words [4]VecVirtual
			for r := range words {
				words[r] = YMM()
				if run.excess && r == 0 {
					VMOVDQU(last, words[r])
				} else if run.excess {
					VMOVDQA(words[0], words[r])
				}
			}
			for q := range run.quads {
				x := vectorOf(Mem{Base: at.x, Disp: 32 * (first + q)})
				for r := range words {
					w := YMM()
					VPBROADCASTD(Mem{Base: at.w, Disp: r*p.column() + 4*(column+q)}, w)
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
				VPMADDWD(weights[i], words[r], words[r])
				if i > 0 {
					VPADDD(total[r], words[r], words[r])
				}
				total[r] = words[r]
			}
		}
		dx := vectorOf(Mem{Base: at.x, Disp: 8 * p.group})
		for r, x := range total {
			d := YMM()
			VBROADCASTSS(Mem{Base: at.scale, Disp: eightsScales * r}, d)
			VCVTDQ2PS(x, x)
			VMULPS(dx, d, d)
			VFMADD231PS(d, x, acc[r])
		}
		if p.lows {
			xs := vectorOf(last)
			for r := range acc {
				d := YMM()
				VBROADCASTSS(Mem{Base: at.scale, Disp: eightsScales*r + eightsLows}, d)
				VFNMADD231PS(xs, d, acc[r])
			}
		}
	})
}

// writeVNNI writes a product of eight columns at a time: VPDPBUSD takes four cycles, and two of them start in one. The
// activations of a group stay in registers.
func (p eightsProduct) writeVNNI() {
	const columns = 8
	y := func(i int) Register { return v16.phys(i).AsY() }
	var acc, x []Register
	for i := range columns {
		acc = append(acc, y(i))
	}
	for q := range p.group / 4 {
		x = append(x, y(16+q))
	}
	sums := func(r int) Register { return y(8 + r) }
	w, dx, last := []Register{y(24), y(25), y(26), y(27)}, y(28), y(29)
	p.loops("eights"+p.name+"VNNI", columns, acc, func() {}, func(at eightsPointers) {
		for q, x := range x {
			VMOVDQU32(Mem{Base: at.x, Disp: 32 * q}, x)
		}
		VMOVUPS(Mem{Base: at.x, Disp: 8*p.group + 32}, last)
		for q, x := range x {
			for r := range columns {
				VPBROADCASTD(Mem{Base: at.w, Disp: r*p.column() + 4*q}, w[r%4])
				if q == 0 && p.lows {
					VPXOR(sums(r), sums(r), sums(r))
				} else if q == 0 {
					VMOVDQA32(last, sums(r))
				}
				vpdpbusd(x, w[r%4], sums(r))
			}
		}
		VMOVUPS(Mem{Base: at.x, Disp: 8 * p.group}, dx)
		for r := range columns {
			t, scale, d := sums(r), Mem{Base: at.scale, Disp: eightsScales * r}, w[r%4]
			VCVTDQ2PS(t, t)
			VMULPS_BCST(scale, dx, d)
			VFMADD231PS(d, t, acc[r])
			if p.lows {
				VFNMADD231PS_BCST(scale.Offset(eightsLows), last, acc[r])
			}
		}
	})
}
