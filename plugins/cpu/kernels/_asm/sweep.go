package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A sweep is a loop over elements of some arrays at the same offset: whole vectors, and the last elements under a mask.
type sweep struct {
	v    vec
	at   GPVirtual // offset in bytes
	mask Register  // nil: all lanes
}

// sweep writes a loop over n elements. It changes n. name makes labels unique in the routine.
func (v vec) sweep(name string, n, at Register, body func(s *sweep)) {
	s := &sweep{v: v, at: at.(GPVirtual)}
	SUBQ(Imm(uint64(v.lanes)), n)
	JLT(LabelRef(name + "Rest"))
	Label(name + "Whole")
	body(s)
	ADDQ(Imm(uint64(v.bytes())), at)
	SUBQ(Imm(uint64(v.lanes)), n)
	JGE(LabelRef(name + "Whole"))
	Label(name + "Rest")
	ADDQ(Imm(uint64(v.lanes)), n)
	JEQ(LabelRef(name + "End"))
	s.mask = v.first(n)
	body(s)
	Label(name + "End")
}

// first returns a mask of the first n lanes; n < lanes.
func (v vec) first(n Register) Register {
	if v.wide() {
		bits, k := GP64(), K()
		MOVQ(I32(1), bits)
		SHLXQ(n, bits, bits)
		DECQ(bits)
		KMOVW(bits.As32(), k)
		return k
	}
	if firstLanes == (Mem{}) {
		firstLanes = GLOBL("firstLanes", 8|16) // RODATA|NOPTR
		for i := range 16 {
			DATA(4*i, U32([]uint32{0xffffffff, 0}[i/8]))
		}
	}
	p, m := GP64(), YMM()
	LEAQ(firstLanes.Offset(32), p)
	back := GP64()
	MOVQ(n, back)
	SHLQ(U8(2), back)
	SUBQ(back, p)
	VMOVDQU(Mem{Base: p}, m)
	return m
}

// firstLanes is eight lanes of ones and eight of zeros.
var firstLanes Mem

// load loads a vector. Lanes that are masked out get the value of other, a constant or a register; nil means 0.
func (s *sweep) load(base Register, other Op) VecVirtual {
	m, x := Mem{Base: base, Index: s.at, Scale: 1}, s.v.reg()
	switch {
	case s.mask == nil:
		VMOVUPS(m, x)
	case s.v.wide() && other == nil:
		VMOVUPS_Z(m, s.mask, x)
	case s.v.wide():
		VMOVUPS(other, x)
		VMOVUPS(m, s.mask, x)
	default:
		VMASKMOVPS(m, s.mask, x)
		if other != nil {
			y := s.v.reg()
			VMOVUPS(other, y)
			VBLENDVPS(s.mask, x, y, x)
		}
	}
	return x
}

func (s *sweep) store(x VecVirtual, base Register) {
	m := Mem{Base: base, Index: s.at, Scale: 1}
	switch {
	case s.mask == nil:
		VMOVUPS(x, m)
	case s.v.wide():
		VMOVUPS(x, s.mask, m)
	default:
		VMASKMOVPS(x, s.mask, m)
	}
}
