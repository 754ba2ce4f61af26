package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genBinary writes the binary elementwise functions, the comparisons and where, for whole vectors only.
func genBinary(v vec) {
	for _, op := range v.arithmetic() {
		v.binary(op.name, func(a VecVirtual, b Mem) VecVirtual { return op.f(a, b) })
		v.binaryRest(op)
	}
	for i, name := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
		v.compare(name, []uint8{0, 4, 17, 18, 30, 29}[i]) // quiet; false for NaN but ne
	}
	v.choose()
	v.mulAddRows()
	v.bits()
	genDoubles(v)
	genHalves(v)
}

// floatFunction is a function of two vectors of floats; f may overwrite a.
type floatFunction struct {
	name string
	f    func(a VecVirtual, b Op) VecVirtual
}

// arithmetic returns the functions that take an instruction or two.
func (v vec) arithmetic() (list []floatFunction) {
	for _, op := range []struct {
		name string
		f    func(...Op)
	}{{"add", VADDPS}, {"sub", VSUBPS}, {"mul", VMULPS}, {"div", VDIVPS}} {
		list = append(list, floatFunction{op.name, func(a VecVirtual, b Op) VecVirtual {
			op.f(b, a, a)
			return a
		}})
	}
	// VMAXPS and VMINPS return the second operand if either is NaN, so a NaN in the first must be put back.
	for _, op := range []struct {
		name string
		f    func(...Op)
	}{{"max", VMAXPS}, {"min", VMINPS}} {
		list = append(list, floatFunction{op.name, func(a VecVirtual, b Op) VecVirtual {
			m := v.reg()
			op.f(b, a, m)
			return v.pick(cmpUnordered, a, a, a, m)
		}})
	}
	return list
}

// cmpUnordered is true if either operand is NaN.
const cmpUnordered = 3

func (v vec) binary(name string, f func(a VecVirtual, b Mem) VecVirtual) {
	v.each("binary", name, "Into", "float32", "blocks*lanes floats", f)
}

// binaryRest writes the routine for the last elements of a row, which do not fill a vector.
func (v vec) binaryRest(op floatFunction) {
	name := symbol(op.name) + "Rest" + v.name
	entries = append(entries, entry{"binaryRest", v.name, op.name, name})
	TEXT(name, NOSPLIT, "func(dst, a, b *float32, n int)")
	Doc(name + " is dst = f(a, b) over n < lanes floats; n > 0, dst may be a or b.")
	Pragma("noescape")
	dst, a, b := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	at := GP64()
	XORQ(at, at)
	s := &sweep{v, at, v.first(Load(Param("n"), GP64()))}
	s.store(op.f(s.load(a, nil), s.load(b, nil)), dst)
	VZEROUPPER()
	RET()
}

// mulAddRows writes the routine that multiplies and adds a number for each row. There is no call for a row, which takes
// longer than a short row.
func (v vec) mulAddRows() {
	name := "mulAddRows" + v.name
	TEXT(name, NOSPLIT, "func(dst, x *float32, n, rows int, by *float32, byStep int, add *float32, addStep int)")
	Doc(name + " is dst = x*by[r*byStep] + add[r*addStep] for rows r of n elements, rounded once; n, rows > 0, dst " +
		"may be x.")
	Pragma("noescape")
	dst, x, rows := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("rows"), GP64())
	by, add := Load(Param("by"), GP64()), Load(Param("add"), GP64())
	byStep, addStep := Load(Param("byStep"), GP64()), Load(Param("addStep"), GP64())
	SHLQ(U8(2), byStep)
	SHLQ(U8(2), addStep)
	n, at := GP64(), GP64()
	Label("row")
	a, b := v.reg(), v.reg()
	VBROADCASTSS(Mem{Base: by}, a)
	VBROADCASTSS(Mem{Base: add}, b)
	Load(Param("n"), n)
	XORQ(at, at)
	v.sweep("row", n, at, func(s *sweep) {
		y := s.load(x, nil)
		VFMADD213PS(b, a, y)
		s.store(y, dst)
	})
	Load(Param("n"), n)
	LEAQ(Mem{Base: x, Index: n, Scale: 4}, x)
	LEAQ(Mem{Base: dst, Index: n, Scale: 4}, dst)
	ADDQ(byStep, by)
	ADDQ(addStep, add)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// each writes a routine that computes dst = f(a, b) for whole vectors.
func (v vec) each(kind, function, suffix, element, over string, f func(a VecVirtual, b Mem) VecVirtual) {
	name := symbol(function) + suffix + v.name
	entries = append(entries, entry{kind, v.name, function, name})
	TEXT(name, NOSPLIT, "func(dst, a, b *"+element+", blocks int)")
	Doc(name + " is dst = f(a, b) over " + over + "; blocks > 0, dst may be a or b.")
	Pragma("noescape")
	dst, a, b := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	n := Load(Param("blocks"), GP64())
	i := GP64()
	XORQ(i, i)
	Label("loop")
	x := v.reg()
	VMOVUPS(Mem{Base: a, Index: i, Scale: 1}, x)
	VMOVUPS(f(x, Mem{Base: b, Index: i, Scale: 1}), Mem{Base: dst, Index: i, Scale: 1})
	ADDQ(Imm(uint64(v.bytes())), i)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// compare stores a byte of 1 or 0 for each lane.
func (v vec) compare(name string, predicate uint8) {
	function := name
	name += "Bytes" + v.name
	entries = append(entries, entry{"compare", v.name, function, name})
	TEXT(name, NOSPLIT, "func(dst *uint8, a, b *float32, blocks int)")
	Doc(name + " is dst = 1 where the comparison of a and b is true, else 0, over blocks*lanes elements; blocks > 0.")
	Pragma("noescape")
	dst, a, b := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64())
	n := Load(Param("blocks"), GP64())
	ones := XMM()
	VMOVUPS(bitsConst(0x01010101), ones)
	Label("loop")
	x := v.reg()
	VMOVUPS(Mem{Base: a}, x)
	v.storeTruth(predicate, x, Mem{Base: b}, ones, dst)
	ADDQ(Imm(uint64(v.bytes())), a)
	ADDQ(Imm(uint64(v.bytes())), b)
	ADDQ(Imm(uint64(v.lanes)), dst)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func (v vec) choose() {
	name := "choose" + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, cond *uint8, t, f *float32, blocks int)")
	Doc(
		name + " is dst = t where cond is not 0, f elsewhere, over blocks*lanes elements; blocks > 0, dst may be t or f.")
	Pragma("noescape")
	dst, cond := Load(Param("dst"), GP64()), Load(Param("cond"), GP64())
	t, f := Load(Param("t"), GP64()), Load(Param("f"), GP64())
	n := Load(Param("blocks"), GP64())
	zero := v.zero()
	i := GP64()
	XORQ(i, i)
	Label("loop")
	c, x := v.reg(), v.reg()
	VPMOVZXBD(Mem{Base: cond}, c)
	VMOVUPS(Mem{Base: f, Index: i, Scale: 1}, x)
	if v.wide() {
		k := K()
		VPTESTMD(c, c, k)
		VBLENDMPS(Mem{Base: t, Index: i, Scale: 1}, x, k, x)
	} else {
		yes := v.reg()
		VPCMPEQD(zero, c, c)
		VMOVUPS(Mem{Base: t, Index: i, Scale: 1}, yes)
		VBLENDVPS(c, x, yes, x)
	}
	VMOVUPS(x, Mem{Base: dst, Index: i, Scale: 1})
	ADDQ(Imm(uint64(v.bytes())), i)
	ADDQ(Imm(uint64(v.lanes)), cond)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// bits writes the functions of bits, and those of bools, where any byte but 0 is true.
func (v vec) bits() {
	ones := bitsConst(0x01010101)
	truth := func(x Op) VecVirtual {
		r := v.load(ones)
		VPMINUB(x, r, r)
		return r
	}
	for _, op := range []struct {
		name string
		f    func(a VecVirtual, b Mem) VecVirtual
	}{
		{"and", func(a VecVirtual, b Mem) VecVirtual { v.and(b, a, a); return a }},
		{"or", func(a VecVirtual, b Mem) VecVirtual { v.or(b, a, a); return a }},
		{"xor", func(a VecVirtual, b Mem) VecVirtual { v.xor(b, a, a); return a }},
		{"not", func(a VecVirtual, _ Mem) VecVirtual { v.xor(bitsConst(0xffffffff), a, a); return a }},
		{"and_bool", func(a VecVirtual, b Mem) VecVirtual { r := truth(a); v.and(truth(b), r, r); return r }},
		{"or_bool", func(a VecVirtual, b Mem) VecVirtual { v.or(b, a, a); return truth(a) }},
		{"xor_bool", func(a VecVirtual, b Mem) VecVirtual { r := truth(a); v.xor(truth(b), r, r); return r }},
		{"not_bool", func(a VecVirtual, _ Mem) VecVirtual { r := truth(a); v.xor(ones, r, r); return r }},
	} {
		v.each("bits", op.name, "Bits", "uint8", "vectors of bytes", op.f)
	}
}
