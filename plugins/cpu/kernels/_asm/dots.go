package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// dotsFew writes the routine for the products of rows of a matrix with a few vectors. Blocks of rows and vectors have
// one vector register for each sum, so that most operands of products are in registers.
func dotsFew(v vec, few int) {
	name := fmt.Sprint("dots", few, v.name)
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, mat *float32, ld int, rows int, x *float32, ldx int, k int)")
	Doc(fmt.Sprint(name, " is dst[m*ldd+i] = sum_k mat[i*ld+k]*x[m*ldx+k] for m < ", few,
		" and i < rows; rows is a multiple of 4 and > 0, k > 0."))
	Pragma("noescape")
	wide := 4 // rows of the matrix in a block
	if few == 4 && !v.wide() {
		wide = 2 // there are 16 registers
	}
	load := func(s string) Register { return Load(Param(s), GP64()) }
	dst, ldd, mat, ld, rows, ldx := load("dst"), load("ldd"), load("mat"), load("ld"), load("rows"), load("ldx")
	for _, r := range []Register{ldd, ld, ldx} {
		SHLQ(U8(2), r)
	}
	m, x, k, ld3, ldx3, ldd3 := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, ld3)
	LEAQ(Mem{Base: ldx, Index: ldx, Scale: 2}, ldx3)
	LEAQ(Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)
	// line is where line i of an operand begins.
	line := func(base, ld, ld3 Register, i int) Mem {
		return []Mem{{Base: base}, {Base: base, Index: ld, Scale: 1}, {Base: base, Index: ld, Scale: 2},
			{Base: base, Index: ld3, Scale: 1}}[i]
	}
	Label("block")
	MOVQ(mat, m)
	Load(Param("x"), x)
	Load(Param("k"), k)
	sums := make([][]VecVirtual, few)
	for i := range sums {
		for range wide {
			sums[i] = append(sums[i], v.zero())
		}
	}
	// add adds the products of lanes elements along k. Loads of fewer lanes than a vector has make the others zero.
	add := func(lanes int) {
		get := func(at Mem) VecVirtual {
			r := v.reg()
			switch lanes {
			case 16:
				VMOVUPS(at, r)
			case 8:
				VMOVUPS(at, r.AsY())
			case 4:
				VMOVUPS(at, r.AsX())
			default:
				VMOVSS(at, r.AsX())
			}
			return r
		}
		var xs []VecVirtual
		if few < wide {
			for i := range few {
				xs = append(xs, get(line(x, ldx, ldx3, i)))
			}
			for j := range wide {
				b := get(line(m, ld, ld3, j))
				for i := range few {
					VFMADD231PS(xs[i], b, sums[i][j])
				}
			}
		} else {
			for j := range wide {
				xs = append(xs, get(line(m, ld, ld3, j)))
			}
			for i := range few {
				a := get(line(x, ldx, ldx3, i))
				for j := range wide {
					VFMADD231PS(xs[j], a, sums[i][j])
				}
			}
		}
		ADDQ(Imm(uint64(4*lanes)), m)
		ADDQ(Imm(uint64(4*lanes)), x)
	}
	for lanes := v.lanes; lanes > 0; lanes /= 2 {
		if lanes == 2 {
			continue
		}
		loop, done := fmt.Sprint("lanes", lanes), fmt.Sprint("below", lanes)
		SUBQ(Imm(uint64(lanes)), k)
		JLT(LabelRef(done))
		Label(loop)
		add(lanes)
		SUBQ(Imm(uint64(lanes)), k)
		JGE(LabelRef(loop))
		Label(done)
		ADDQ(Imm(uint64(lanes)), k)
	}
	to := func(i int) Mem { return line(dst, ldd, ldd3, i) }
	for i := 0; i < few; i += 4 / wide {
		if wide == 4 {
			VMOVUPS(v.fourSums(sums[i]).AsX(), to(i))
			continue
		}
		four := v.fourSums(append(sums[i], sums[i+1]...))
		VMOVLPS(four.AsX(), to(i))
		VMOVHPS(four.AsX(), to(i+1))
	}
	ADDQ(Imm(uint64(4*wide)), dst)
	LEAQ(Mem{Base: mat, Index: ld, Scale: uint8(wide)}, mat)
	SUBQ(Imm(uint64(wide)), rows)
	JNE(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// fourSums adds up the lanes of four vectors, which it overwrites. Lane i of the result is the sum of vector i.
func (v vec) fourSums(r []VecVirtual) VecVirtual {
	if v.wide() {
		for _, z := range r {
			y := YMM()
			VEXTRACTF64X4(Imm(1), z, y)
			VADDPS(y, z.AsY(), z.AsY())
		}
	}
	VHADDPS(r[1].AsY(), r[0].AsY(), r[0].AsY())
	VHADDPS(r[3].AsY(), r[2].AsY(), r[2].AsY())
	VHADDPS(r[2].AsY(), r[0].AsY(), r[0].AsY())
	high := r[2] // among the first 16 registers, as VHADDPS and VEXTRACTF128 require
	VEXTRACTF128(Imm(1), r[0].AsY(), high.AsX())
	VADDPS(r[0].AsX(), high.AsX(), high.AsX())
	return high
}
