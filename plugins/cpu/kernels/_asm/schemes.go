package main

import (
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genSchemes writes products with weights [k, n] whose scales are separate, and decoders of such weights; see
// SchemeWeights in package product. Lanes are columns.
func genSchemes(v vec) {
	for _, s := range []scheme{
		{"int8", 8, vec.signedBytes, false}, {"int8_asym", 8, vec.signedBytes, true},
		{"int4", 4, vec.signedNibbles, false}, {"e2m1", 4, vec.e2m1, false},
		{"e4m3", 8, vec.e4m3, false}, {"e5m2", 8, vec.e5m2, false},
	} {
		v.schemeDot(s)
		v.schemeDecode(s)
	}
}

type scheme struct {
	name string
	bits int
	load func(v vec, m Mem) VecVirtual // a vector of weights
	zero bool                          // weights have zero points
}

func (s scheme) bytes(v vec) int { return v.lanes * s.bits / 8 }

func (v vec) signedBytes(m Mem) VecVirtual {
	x := v.reg()
	VPMOVSXBD(m, x)
	VCVTDQ2PS(x, x)
	return x
}

// spreadNibbles puts the halves of each byte into the lowest four bits of two lanes. The other bits are arbitrary.
func (v vec) spreadNibbles(m Mem) VecVirtual {
	x, high := v.reg(), v.reg()
	VPMOVZXBQ(m, x)
	VPSLLQ(Imm(28), x, high)
	v.or(high, x, x)
	return x
}

func (v vec) signedNibbles(m Mem) VecVirtual {
	x := v.spreadNibbles(m)
	VPSLLD(Imm(28), x, x)
	VPSRAD(Imm(28), x, x)
	VCVTDQ2PS(x, x)
	return x
}

// e2m1 looks up four bits. For AVX2 it looks up three; the fourth is the sign.
func (v vec) e2m1(m Mem) VecVirtual {
	x, y := v.spreadNibbles(m), v.reg()
	VPERMPS(e2m1Table(), x, y)
	if v.wide() {
		return y
	}
	VPSLLD(Imm(28), x, x)
	v.and(bitsConst(1<<31), x, x)
	v.or(x, y, y)
	return y
}

var e2m1Values Mem

func e2m1Table() Mem {
	if e2m1Values.Base == nil {
		e2m1Values = GLOBL("e2m1", 8|16)
		for i := range 16 {
			x := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}[i%8]
			DATA(4*i, U32(math.Float32bits(x)|uint32(i/8)<<31))
		}
	}
	return e2m1Values
}

// halfReg returns a register of half the size.
func (v vec) halfReg() VecVirtual {
	if v.wide() {
		return YMM()
	}
	return XMM()
}

// words loads bytes as 16-bit words.
func (v vec) words(m Mem) VecVirtual {
	h := v.halfReg()
	VPMOVZXBW(m, h)
	return h
}

// e5m2 widens e5m2, which is the upper half of an f16.
func (v vec) e5m2(m Mem) VecVirtual {
	h, x := v.words(m), v.reg()
	VPSLLW(Imm(8), h, h)
	VCVTPH2PS(h, x)
	return x
}

// e4m3 widens e4m3, which has one exponent bit less than f16 and a bias that is 8 less. All values but NaN are finite.
func (v vec) e4m3(m Mem) VecVirtual {
	h, x := v.words(m), v.reg()
	nan, s := v.halfReg(), v.halfReg()
	VPAND(bitsConst(0x007f007f), h, nan)
	VPCMPEQW(bitsConst(0x007f007f), nan, nan)
	VPSLLW(Imm(8), h, s)
	VPSRAW(Imm(1), s, s) // sign, sign, exponent, mantissa
	VPAND(bitsConst(0xbfffbfff), s, s)
	VPOR(nan, s, s)
	VCVTPH2PS(s, x)
	VMULPS(f32(256), x, x)
	return x
}

// columns calls do for four vectors of columns at a time, then for single ones. It ends the routine.
func (v vec) columns(n Register, do func(count int, label string)) {
	SUBQ(Imm(4), n)
	JLT(LabelRef("rest"))
	Label("four")
	do(4, "rowsOfFour")
	SUBQ(Imm(4), n)
	JGE(LabelRef("four"))
	Label("rest")
	ADDQ(Imm(4), n)
	JEQ(LabelRef("end"))
	Label("one")
	do(1, "rowsOfOne")
	DECQ(n)
	JNE(LabelRef("one"))
	Label("end")
	VZEROUPPER()
	RET()
}

// start begins a routine that goes through the columns. at is their offset in bytes in arrays of floats; w advances
// through the weights.
func (s scheme) start(v vec, kind, parameters, doc string) (w, ld, scale, zero, at, n Register) {
	name := kind + s.routine() + v.name
	entries = append(entries, entry{"scheme" + kind, v.name, s.name, "scheme" + name})
	TEXT("scheme"+name, NOSPLIT, "func("+parameters+")")
	Doc("scheme" + name + doc)
	Pragma("noescape")
	w, ld, scale, n = Load(Param("w"), GP64()), Load(Param("ld"), GP64()), Load(Param("scale"), GP64()),
		Load(Param("vectors"), GP64())
	if s.zero {
		zero = Load(Param("zero"), GP64())
	}
	at = GP64()
	XORQ(at, at)
	return w, ld, scale, zero, at, n
}

func (s scheme) routine() string {
	return map[string]string{"int8": "Int8", "int8_asym": "Int8Asym", "int4": "Int4", "e2m1": "E2M1", "e4m3": "E4M3",
		"e5m2": "E5M2"}[s.name]
}

// zeros loads the zero points of count vectors.
func (s scheme) zeros(v vec, zero, at Register, count int) (all []VecVirtual) {
	for i := range count {
		if s.zero {
			all = append(all, v.reg())
			VMOVUPS(Mem{Base: zero, Index: at, Scale: 1, Disp: i * v.bytes()}, all[i])
		}
	}
	return all
}

func (s scheme) value(v vec, m Mem, zeros []VecVirtual, i int) (x VecVirtual) {
	macro := strings.ToUpper(s.name + "_" + v.name)
	macroUse(macro, macro+" loads a vector of weights as floats.",
		[]param{{"w", m.Base}, {"at", m.Disp}, {"x", &x}}, func() { x = s.load(v, m) })
	if s.zero {
		VSUBPS(zeros[i], x, x)
	}
	return x
}

func (v vec) schemeDot(s scheme) {
	w, ld, scale, zero, at, n := s.start(
		v, "Dot", "dst *float32, w *byte, ld, rows int, x, scale, zero *float32, vectors int",
		" is dst[j] += scale[j] * the sum of x[r] * (w[r, j] - zero[j]) over r < rows, for vectors*lanes columns j. Rows of w are ld bytes apart; rows, vectors > 0.")
	dst, pw, px, rows := Load(Param("dst"), GP64()), GP64(), GP64(), GP64()
	ahead := GP64() // the address of later rows, to prefetch, since hardware prefetchers miss the pattern
	MOVQ(ld, ahead)
	IMULQ(arg("rows"), ahead)
	v.columns(n, func(count int, label string) {
		sums, zeros := make([]VecVirtual, count), s.zeros(v, zero, at, count)
		for i := range sums {
			sums[i] = v.zero()
		}
		MOVQ(w, pw)
		MOVQ(arg("x"), px)
		MOVQ(arg("rows"), rows)
		Label(label)
		x := v.reg()
		VBROADCASTSS(Mem{Base: px}, x)
		PREFETCHT1(Mem{Base: pw, Index: ahead, Scale: 1})
		for i := range sums {
			VFMADD231PS(x, s.value(v, Mem{Base: pw, Disp: i * s.bytes(v)}, zeros, i), sums[i])
		}
		ADDQ(ld, pw)
		ADDQ(Imm(4), px)
		DECQ(rows)
		JNE(LabelRef(label))
		for i := range sums {
			to := Mem{Base: dst, Index: at, Scale: 1, Disp: i * v.bytes()}
			y := v.reg()
			VMOVUPS(to, y)
			VFMADD231PS(Mem{Base: scale, Index: at, Scale: 1, Disp: i * v.bytes()}, sums[i], y)
			VMOVUPS(y, to)
		}
		ADDQ(U32(uint32(count*v.bytes())), at)
		ADDQ(Imm(uint64(count*s.bytes(v))), w)
	})
}

func (v vec) schemeDecode(s scheme) {
	w, ld, scale, zero, at, n := s.start(
		v, "Decode", "dst *float32, ldd int, w *byte, ld, rows int, scale, zero *float32, vectors int",
		" is dst[r, j] = scale[j] * (w[r, j] - zero[j]) for r < rows and vectors*lanes columns j. Rows of dst are ldd floats apart, those of w ld bytes; rows, vectors > 0.")
	ldd, to, pw, rows := Load(Param("ldd"), GP64()), GP64(), GP64(), GP64()
	SHLQ(Imm(2), ldd)
	v.columns(n, func(count int, label string) {
		scales, zeros := make([]VecVirtual, count), s.zeros(v, zero, at, count)
		for i := range scales {
			scales[i] = v.reg()
			VMOVUPS(Mem{Base: scale, Index: at, Scale: 1, Disp: i * v.bytes()}, scales[i])
		}
		MOVQ(arg("dst"), to)
		ADDQ(at, to)
		MOVQ(w, pw)
		MOVQ(arg("rows"), rows)
		Label(label)
		for i := range scales {
			x := s.value(v, Mem{Base: pw, Disp: i * s.bytes(v)}, zeros, i)
			VMULPS(scales[i], x, x)
			VMOVUPS(x, Mem{Base: to, Disp: i * v.bytes()})
		}
		ADDQ(ld, pw)
		ADDQ(ldd, to)
		DECQ(rows)
		JNE(LabelRef(label))
		ADDQ(U32(uint32(count*v.bytes())), at)
		ADDQ(Imm(uint64(count*s.bytes(v))), w)
	})
}
