package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genRecurrence writes the routines for one token of a recurrence, on a strip of columns; see strips in package
// kernels.
func genRecurrence(v vec) {
	deltaStep(v)
	scanDecay(v)
	scanStep(v)
	taps(v)
}

// deltaVectors is the number of vectors in a row of a strip of deltaStep.
const deltaVectors = 4

// deltaStep writes a token of the gated delta rule. The sum over the rows has two accumulators for each vector.
func deltaStep(v vec) {
	name := "deltaStep" + v.name
	TEXT(name, NOSPLIT, "func(s *float32, n int, q, k, v, o *float32, decay, beta, scale float32)")
	Doc(
		name + " is a token of the gated delta rule on a strip s[n, 4*lanes] of a state: e = decay*(k s), d = beta*(v-e), s = decay*s + k^T d, o = scale*(q s); n > 0.")
	Pragma("noescape")
	s, n := Load(Param("s"), GP64()), Load(Param("n"), GP64())
	q, k := Load(Param("q"), GP64()), Load(Param("k"), GP64())
	stride := deltaVectors * v.bytes()
	row := func(p Register, c int) Mem { return Mem{Base: p, Disp: c * v.bytes()} }
	var sums [2 * deltaVectors]VecVirtual
	for i := range sums {
		sums[i] = v.zero()
	}
	p, i := GP64(), GP64()
	MOVQ(s, p)
	XORQ(i, i)
	rows, kk := GP64(), v.reg()
	MOVQ(n, rows)
	add := func(half int) {
		VBROADCASTSS(Mem{Base: k, Index: i, Scale: 4, Disp: 4 * half}, kk)
		for c := range deltaVectors {
			VFMADD231PS(Mem{Base: p, Disp: half*stride + c*v.bytes()}, kk, sums[half*deltaVectors+c])
		}
	}
	SUBQ(Imm(2), rows)
	JLT(LabelRef("odd"))
	Label("two")
	add(0)
	add(1)
	ADDQ(U32(uint32(2*stride)), p)
	ADDQ(Imm(2), i)
	SUBQ(Imm(2), rows)
	JGE(LabelRef("two"))
	Label("odd")
	ADDQ(Imm(2), rows)
	JEQ(LabelRef("folded"))
	add(0)
	Label("folded")
	for c := range deltaVectors {
		VADDPS(sums[deltaVectors+c], sums[c], sums[c])
	}
	decay, beta, value := v.broadcast("decay"), v.broadcast("beta"), Load(Param("v"), GP64())
	d := sums[:deltaVectors]
	for c := range d {
		// beta * (v - decay*e)
		t := v.reg()
		VMOVUPS(row(value, c), t)
		VFNMADD231PS(decay, d[c], t)
		VMULPS(beta, t, d[c])
	}
	var o [deltaVectors]VecVirtual
	for c := range o {
		o[c] = v.zero()
	}
	XORQ(i, i)
	qq := v.reg()
	Label("rows")
	VBROADCASTSS(Mem{Base: k, Index: i, Scale: 4}, kk)
	VBROADCASTSS(Mem{Base: q, Index: i, Scale: 4}, qq)
	for c := range o {
		t := v.reg()
		VMULPS(row(s, c), decay, t)
		VFMADD231PS(kk, d[c], t)
		VMOVUPS(t, row(s, c))
		VFMADD231PS(qq, t, o[c])
	}
	ADDQ(U32(uint32(stride)), s)
	INCQ(i)
	CMPQ(i, n)
	JNE(LabelRef("rows"))
	scale, out := v.broadcast("scale"), Load(Param("o"), GP64())
	for c := range o {
		VMULPS(scale, o[c], o[c])
		VMOVUPS(o[c], row(out, c))
	}
	VZEROUPPER()
	RET()
}

// scanDecay writes the exponents of a token of the selective scan.
func scanDecay(v vec) {
	name := "scanDecay" + v.name
	TEXT(name, NOSPLIT, "func(dst, a, delta *float32, rows, vectors int)")
	Doc(name + " is dst[j, i] = a[j, i] * delta[i], j < rows, i < vectors*lanes; rows and vectors > 0.")
	Pragma("noescape")
	dst, a, delta := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("delta"), GP64())
	rows, vectors := Load(Param("rows"), GP64()), Load(Param("vectors"), GP64())
	p, n, t := GP64(), GP64(), v.reg()
	Label("rows")
	MOVQ(delta, p)
	MOVQ(vectors, n)
	Label("row")
	VMOVUPS(Mem{Base: p}, t)
	VMULPS(Mem{Base: a}, t, t)
	VMOVUPS(t, Mem{Base: dst})
	for _, r := range []Register{p, a, dst} {
		ADDQ(Imm(uint64(v.bytes())), r)
	}
	DECQ(n)
	JNE(LabelRef("row"))
	DECQ(rows)
	JNE(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// scanStep writes a token of the selective scan, one vector of channels at a time.
func scanStep(v vec) {
	name := "scanStep" + v.name
	TEXT(name, NOSPLIT, "func(s, decay, dx, b, c, y *float32, rows, vectors int)")
	Doc(
		name + " is s[j, i] = decay[j, i]*s[j, i] + b[j]*dx[i] and y[i] = sum of c[j]*s[j, i], j < rows, i < vectors*lanes; rows and vectors > 0.")
	Pragma("noescape")
	s, decay, dx := Load(Param("s"), GP64()), Load(Param("decay"), GP64()), Load(Param("dx"), GP64())
	b, c, y := Load(Param("b"), GP64()), Load(Param("c"), GP64()), Load(Param("y"), GP64())
	rows, vectors := Load(Param("rows"), GP64()), Load(Param("vectors"), GP64())
	stride, left := GP64(), GP64()
	MOVQ(vectors, stride)
	SHLQ(Imm(uint64(bits.Len(uint(v.bytes()))-1)), stride)
	MOVQ(vectors, left)
	ps, pd, j := GP64(), GP64(), GP64()
	x, t, w, sum := v.reg(), v.reg(), v.reg(), v.reg()
	Label("vectors")
	MOVQ(s, ps)
	MOVQ(decay, pd)
	XORQ(j, j)
	VMOVUPS(Mem{Base: dx}, x)
	v.clear(sum)
	Label("rows")
	VBROADCASTSS(Mem{Base: b, Index: j, Scale: 4}, w)
	VMULPS(x, w, t)
	VMOVUPS(Mem{Base: pd}, w)
	VFMADD231PS(Mem{Base: ps}, w, t)
	VMOVUPS(t, Mem{Base: ps})
	VBROADCASTSS(Mem{Base: c, Index: j, Scale: 4}, w)
	VFMADD231PS(t, w, sum)
	ADDQ(stride, ps)
	ADDQ(stride, pd)
	INCQ(j)
	CMPQ(j, rows)
	JNE(LabelRef("rows"))
	VMOVUPS(sum, Mem{Base: y})
	for _, r := range []Register{s, decay, dx, y} {
		ADDQ(Imm(uint64(v.bytes())), r)
	}
	DECQ(left)
	JNE(LabelRef("vectors"))
	VZEROUPPER()
	RET()
}

// taps writes a token of a short convolution along each channel.
func taps(v vec) {
	name := "taps" + v.name
	TEXT(name, NOSPLIT, "func(dst, bias, x *float32, ldx int, w *float32, ldw, k, vectors int)")
	Doc(name + " is dst[i] = bias[i] + sum of x[j*ldx+i]*w[j*ldw+i], j < k, i < vectors*lanes; k and vectors > 0.")
	Pragma("noescape")
	dst, bias, x, w := Load(Param("dst"), GP64()), Load(Param("bias"), GP64()), Load(Param("x"), GP64()),
		Load(Param("w"), GP64())
	ldx, ldw := Load(Param("ldx"), GP64()), Load(Param("ldw"), GP64())
	k, vectors := Load(Param("k"), GP64()), Load(Param("vectors"), GP64())
	px, pw, j := GP64(), GP64(), GP64()
	SHLQ(Imm(2), ldx)
	SHLQ(Imm(2), ldw)
	t, sum := v.reg(), v.reg()
	Label("vectors")
	MOVQ(x, px)
	MOVQ(w, pw)
	MOVQ(k, j)
	VMOVUPS(Mem{Base: bias}, sum)
	Label("taps")
	VMOVUPS(Mem{Base: px}, t)
	VFMADD231PS(Mem{Base: pw}, t, sum)
	ADDQ(ldx, px)
	ADDQ(ldw, pw)
	DECQ(j)
	JNE(LabelRef("taps"))
	VMOVUPS(sum, Mem{Base: dst})
	for _, r := range []Register{x, w, dst, bias} {
		ADDQ(Imm(uint64(v.bytes())), r)
	}
	DECQ(vectors)
	JNE(LabelRef("vectors"))
	VZEROUPPER()
	RET()
}
