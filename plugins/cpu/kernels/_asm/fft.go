package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genFFT writes the inner loops of Fourier transforms. Real and imaginary parts are in separate arrays.
func genFFT(v vec) {
	for _, r := range []int{2, 3, 4, 5, 7} {
		for _, roots := range []bool{true, false} {
			fftPass(v, r, roots)
		}
	}
	fftMultiply(v)
	fftSplits(v, false)
	fftSplits(v, true)
}

// complexReg is a vector of complex numbers.
type complexReg struct{ re, im VecVirtual }

// fftArray is an array of complex numbers at two pointers. Its rows are stride bytes apart.
type fftArray struct {
	re, im           GPVirtual
	one, three, five GPVirtual // multiples of the stride
}

func (a *fftArray) strides(r int, name string) {
	a.one = Load(Param(name), GP64()).(GPVirtual)
	if r > 3 {
		a.three = GP64()
		LEAQ(Mem{Base: a.one, Index: a.one, Scale: 2}, a.three)
	}
	if r > 5 {
		a.five = GP64()
		LEAQ(Mem{Base: a.one, Index: a.one, Scale: 4}, a.five)
	}
}

// row returns the address of row j.
func (a *fftArray) row(p GPVirtual, j int) Mem {
	m := Mem{Base: p}
	switch j {
	case 0:
	case 1, 2, 4:
		m.Index, m.Scale = a.one, uint8(j)
	case 3, 6:
		m.Index, m.Scale = a.three, uint8(j/3)
	case 5:
		m.Index, m.Scale = a.five, 1
	}
	return m
}

func (a *fftArray) load(v vec, j int) complexReg {
	c := complexReg{v.reg(), v.reg()}
	VMOVUPS(a.row(a.re, j), c.re)
	VMOVUPS(a.row(a.im, j), c.im)
	return c
}

// fftPass writes fftRoutines.pass for radix r, with strides in bytes. srcNext and dstNext are the distances from the
// last vector of a run to the next run.
func fftPass(v vec, r int, roots bool) {
	name := fmt.Sprintf("fftPass%d%s", r, v.name)
	if !roots {
		name = fmt.Sprintf("fftPlain%d%s", r, v.name)
	}
	TEXT(
		name, NOSPLIT,
		"func(dre *float32, dim *float32, sre *float32, sim *float32, tw *float32, count int, run int, srcStride int, srcNext int, dstStride int, dstNext int)")
	Doc(
		name+fmt.Sprintf(
			" is a pass of radix %d over count runs of run bytes, a vector or more. If vectors do not fill a run, its last one",
			r),
		"overlaps the one before. The next run of src is srcNext bytes past the last vector of a run, that of dst dstNext bytes.")
	Pragma("noescape")
	src := &fftArray{re: Load(Param("sre"), GP64()).(GPVirtual), im: Load(Param("sim"), GP64()).(GPVirtual)}
	dst := &fftArray{re: Load(Param("dre"), GP64()).(GPVirtual), im: Load(Param("dim"), GP64()).(GPVirtual)}
	src.strides(r, "srcStride")
	dst.strides(r, "dstStride")
	var tw GPVirtual
	if roots {
		tw = Load(Param("tw"), GP64()).(GPVirtual)
	}
	count := AllocLocal(8)
	left := Load(Param("count"), GP64())
	MOVQ(left, count)
	rest := GP64()
	Label("next")
	Load(Param("run"), rest)
	Label("run")
	put := func(k int, x complexReg) {
		if roots && k > 0 {
			x = fftTimes(v, x, Mem{Base: tw, Disp: 8 * (k - 1)}, Mem{Base: tw, Disp: 8*(k-1) + 4})
		}
		VMOVUPS(x.re, dst.row(dst.re, k))
		VMOVUPS(x.im, dst.row(dst.im, k))
	}
	switch r {
	case 2:
		x, y := fftSumDiff(v, src.load(v, 0), src.load(v, 1))
		put(0, x)
		put(1, y)
	case 4:
		p, q := fftSumDiff(v, src.load(v, 0), src.load(v, 2))
		u, d := fftSumDiff(v, src.load(v, 1), src.load(v, 3))
		x, y := fftSumDiff(v, p, u)
		put(0, x)
		put(2, y)
		// Result 1 is q - id, result 3 is q + id.
		x, y = fftSumDiff(v, q, complexReg{d.im, d.re})
		put(1, complexReg{x.re, y.im})
		put(3, complexReg{y.re, x.im})
	default:
		fftOdd(v, r, src, put)
	}
	SUBQ(Imm(uint64(v.bytes())), rest)
	JLE(LabelRef("done"))
	step := GP64()
	MOVQ(U32(uint32(v.bytes())), step)
	CMPQ(rest, step)
	CMOVQLT(rest, step)
	for _, p := range []GPVirtual{src.re, src.im, dst.re, dst.im} {
		ADDQ(step, p)
	}
	JMP(LabelRef("run"))
	Label("done")
	next := GP64()
	Load(Param("srcNext"), next)
	ADDQ(next, src.re)
	ADDQ(next, src.im)
	Load(Param("dstNext"), next)
	ADDQ(next, dst.re)
	ADDQ(next, dst.im)
	if roots {
		ADDQ(Imm(uint64(8*(r-1))), tw)
	}
	DECQ(count)
	JNE(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// fftTimes returns x times the complex number at wr and wi.
func fftTimes(v vec, x complexReg, wr, wi Mem) complexReg {
	y := complexReg{v.reg(), v.reg()}
	r, i := v.reg(), v.reg()
	VBROADCASTSS(wr, r)
	VBROADCASTSS(wi, i)
	VMULPS(i, x.im, y.re)
	VMULPS(i, x.re, y.im)
	VFMSUB231PS(r, x.re, y.re)
	VFMADD231PS(r, x.im, y.im)
	return y
}

// fftSumDiff returns a+b and a-b.
func fftSumDiff(v vec, a, b complexReg) (sum, diff complexReg) {
	sum = complexReg{v.reg(), v.reg()}
	VADDPS(b.re, a.re, sum.re)
	VADDPS(b.im, a.im, sum.im)
	VSUBPS(b.re, a.re, a.re)
	VSUBPS(b.im, a.im, a.im)
	return sum, a
}

// fftOdd is the butterfly of an odd radix. It adds and subtracts numbers j and r-j once for all results or, with too
// few registers to keep these, once per result.
func fftOdd(v vec, r int, src *fftArray, put func(k int, x complexReg)) {
	half := r / 2
	sums, diffs := make([]complexReg, half+1), make([]complexReg, half+1)
	pairs := func(j int) (p, q complexReg) {
		if sums[j].re != nil {
			return sums[j], diffs[j]
		}
		p, q = fftSumDiff(v, src.load(v, j), src.load(v, r-j))
		if v.wide() {
			sums[j], diffs[j] = p, q
		}
		return p, q
	}
	first := src.load(v, 0)
	total := complexReg{v.reg(), v.reg()}
	VMOVAPS(first.re, total.re)
	VMOVAPS(first.im, total.im)
	for k := 1; k <= half; k++ {
		even := complexReg{v.reg(), v.reg()}
		VMOVAPS(first.re, even.re)
		VMOVAPS(first.im, even.im)
		odd := complexReg{v.reg(), v.reg()} // without the factor -i
		for j := 1; j <= half; j++ {
			p, q := pairs(j)
			if k == 1 {
				VADDPS(p.re, total.re, total.re)
				VADDPS(p.im, total.im, total.im)
			}
			sin, cos := math.Sincos(2 * math.Pi * float64(j*k%r) / float64(r))
			VFMADD231PS(f32(cos), p.re, even.re)
			VFMADD231PS(f32(cos), p.im, even.im)
			if j == 1 {
				VMULPS(f32(sin), q.re, odd.re)
				VMULPS(f32(sin), q.im, odd.im)
			} else {
				VFMADD231PS(f32(sin), q.re, odd.re)
				VFMADD231PS(f32(sin), q.im, odd.im)
			}
		}
		if k == 1 {
			put(0, total)
		}
		x, y := fftSumDiff(v, even, complexReg{odd.im, odd.re})
		put(k, complexReg{x.re, y.im})
		put(r-k, complexReg{y.re, x.im})
	}
}

// fftMultiply writes the product of vectors of complex numbers.
func fftMultiply(v vec) {
	name := "fftMultiply" + v.name
	TEXT(
		name, NOSPLIT,
		"func(dre *float32, dim *float32, are *float32, aim *float32, bre *float32, bim *float32, blocks int)")
	Doc(name + " is dst = a*b over blocks*lanes complex numbers; blocks > 0, dst may be a.")
	Pragma("noescape")
	var p []Register
	for _, n := range []string{"dre", "dim", "are", "aim", "bre", "bim"} {
		p = append(p, Load(Param(n), GP64()))
	}
	blocks := Load(Param("blocks"), GP64())
	Label("loop")
	r := make([]VecVirtual, 4)
	for i := range r {
		r[i] = v.reg()
		VMOVUPS(Mem{Base: p[2+i]}, r[i])
	}
	x, y := v.reg(), v.reg()
	VMULPS(r[3], r[1], x)
	VMULPS(r[2], r[1], y)
	VFMSUB231PS(r[2], r[0], x)
	VFMADD231PS(r[3], r[0], y)
	VMOVUPS(x, Mem{Base: p[0]})
	VMOVUPS(y, Mem{Base: p[1]})
	for _, q := range p {
		ADDQ(Imm(uint64(v.bytes())), q)
	}
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// fftSplits writes fftRoutines.split, or fftRoutines.halves if reversed is set. There the counterparts h-k of
// consecutive numbers k are in reverse order within a vector, too.
func fftSplits(v vec, reversed bool) {
	name := "fftSplit" + v.name
	doc := " is fftRoutines.split for count rows of a vector."
	if reversed {
		name, doc = "fftHalves"+v.name, " is fftRoutines.split for count*lanes consecutive numbers k."
	}
	TEXT(
		name, NOSPLIT,
		"func(xkre *float32, xkim *float32, xhre *float32, xhim *float32, zkre *float32, zkim *float32, zhre *float32, zhim *float32, wr *float32, wi *float32, scale float32, count int)")
	Doc(name+doc+" The addresses of their counterparts are those of the first vector's;",
		"the next ones are at lower addresses. count > 0.")
	Pragma("noescape")
	p := map[string]Register{}
	for _, n := range []string{"xkre", "xkim", "xhre", "xhim", "zkre", "zkim", "zhre", "zhim", "wr", "wi"} {
		p[n] = Load(Param(n), GP64())
	}
	n, up, down := Load(Param("count"), GP64()), GP64(), GP64()
	XORQ(up, up)
	XORQ(down, down)
	var order VecVirtual
	if reversed {
		order = v.load(
			lanesConst("halvesReversed"+v.name, v.lanes, func(l int) uint32 { return uint32(v.lanes - 1 - l) }))
	}
	scale := v.broadcast("scale")
	Label("loop")
	load := func(name string, at GPVirtual) VecVirtual {
		r := v.reg()
		if m := (Mem{Base: p[name], Index: at, Scale: 1}); at == down && reversed {
			VPERMPS(m, order, r)
		} else {
			VMOVUPS(m, r)
		}
		return r
	}
	store := func(r VecVirtual, name string, at GPVirtual) {
		if at == down && reversed {
			VPERMPS(r, order, r)
		}
		VMOVUPS(r, Mem{Base: p[name], Index: at, Scale: 1})
	}
	root := func(name string) VecVirtual {
		if reversed {
			return load(name, up)
		}
		r := v.reg()
		VBROADCASTSS(Mem{Base: p[name]}, r)
		return r
	}
	ar, ai, br, bi := load("zkre", up), load("zkim", up), load("zhre", down), load("zhim", down)
	er, ei, or, oi := v.reg(), v.reg(), v.reg(), v.reg()
	VADDPS(br, ar, er)
	VSUBPS(bi, ai, ei)
	VADDPS(bi, ai, or)
	VSUBPS(ar, br, oi)
	VMULPS(scale, er, er)
	VMULPS(scale, ei, ei)
	wr, wi := root("wr"), root("wi")
	tr, ti := v.reg(), v.reg()
	VMULPS(wi, oi, tr)
	VMULPS(wi, or, ti)
	VFMSUB231PS(wr, or, tr)
	VFMADD231PS(wr, oi, ti)
	VSUBPS(tr, er, ar)
	VSUBPS(ei, ti, ai)
	store(ar, "xhre", down)
	store(ai, "xhim", down)
	VADDPS(tr, er, er)
	VADDPS(ti, ei, ei)
	store(er, "xkre", up)
	store(ei, "xkim", up)
	ADDQ(Imm(uint64(v.bytes())), up)
	SUBQ(Imm(uint64(v.bytes())), down)
	if !reversed {
		ADDQ(Imm(4), p["wr"])
		ADDQ(Imm(4), p["wi"])
	}
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
