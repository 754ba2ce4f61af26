package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// fold is a reduction of floats.
type fold struct {
	name        string
	start       float64
	instruction func(...Op)
	nan         bool // the instruction does not propagate NaN from both operands
}

// genFolds writes the passes of reductions and of softmax, along rows and down columns.
func genFolds(v vec) {
	for _, f := range []fold{
		{"sum", 0, VADDPS, false}, {"max", math.Inf(-1), VMAXPS, true}, {"min", math.Inf(1), VMINPS, true},
		{"prod", 1, VMULPS, false},
	} {
		if f.name != "sum" { // rows.go has the sum
			foldRow(v, f)
		}
		if f.name != "prod" { // its partial results may overflow float32
			foldEach(v, f)
		}
		foldRows(v, f.name, f.two)
		if f.name != "prod" {
			foldPixels(v, f)
		}
	}
	for _, store := range []bool{true, false} {
		expRow(v, store)
		expRows(v, store)
	}
	scaleRow(v)
	shiftRow(v)
	scaleColumns(v)
	shiftColumns(v)
}

// two folds a and b into a new register; NaN if either is NaN.
func (f fold) two(v vec, a, b VecVirtual) VecVirtual {
	m := v.reg()
	f.instruction(b, a, m) // b if either is NaN
	if f.nan {
		return v.pick(cmpUnordered, a, a, a, m)
	}
	return m
}

// vectors folds n elements at x into one vector. It changes n and at.
func (f fold) vectors(v vec, x, n, at Register) VecVirtual {
	var acc [4]VecVirtual
	for i := range acc {
		acc[i] = v.load(f32(f.start))
	}
	// The accumulators ignore NaN. seen collects the lanes that had one, since one comparison tests two vectors.
	var seen nanLanes
	if f.nan {
		seen = v.noNaN()
	}
	XORQ(at, at)
	SUBQ(U32(uint32(4*v.lanes)), n)
	JLT(LabelRef("few"))
	Label("four")
	var y [4]VecVirtual
	for i := range acc {
		y[i] = v.reg()
		VMOVUPS(Mem{Base: x, Index: at, Scale: 1, Disp: i * v.bytes()}, y[i])
		f.instruction(acc[i], y[i], acc[i])
		if f.nan && i%2 == 1 {
			seen.add(y[i-1], y[i])
		}
	}
	ADDQ(U32(uint32(4*v.bytes())), at)
	SUBQ(U32(uint32(4*v.lanes)), n)
	JGE(LabelRef("four"))
	Label("few")
	ADDQ(U32(uint32(4*v.lanes)), n)
	v.sweep("row", n, at, func(s *sweep) {
		y := s.load(x, f32(f.start))
		f.instruction(acc[0], y, acc[0])
		if f.nan {
			seen.add(y, y)
		}
	})
	for _, pair := range [][2]int{{0, 1}, {2, 3}, {0, 2}} {
		f.instruction(acc[pair[1]], acc[pair[0]], acc[pair[0]])
	}
	if f.nan {
		seen.mark(acc[0])
	}
	return acc[0]
}

// nanLanes is the set of lanes in which a NaN was seen: a mask register of AVX-512, or a vector.
type nanLanes struct {
	v     vec
	lanes Register
}

func (v vec) noNaN() nanLanes {
	if v.wide() {
		k := K()
		KXORW(k, k, k)
		return nanLanes{v, k}
	}
	return nanLanes{v, v.zero()}
}

// add adds the lanes in which a or b is NaN.
func (s nanLanes) add(a, b VecVirtual) {
	if s.v.wide() {
		k := K()
		VCMPPS(Imm(cmpUnordered), b, a, k)
		KORW(k, s.lanes, s.lanes)
		return
	}
	m := YMM()
	VCMPPS(Imm(cmpUnordered), b, a, m)
	VORPS(m, s.lanes, s.lanes)
}

// mark sets the lanes of x to NaN.
func (s nanLanes) mark(x VecVirtual) {
	if s.v.wide() {
		VMOVUPS(f32(math.NaN()), s.lanes, x)
	} else {
		VORPS(s.lanes, x, x)
	}
}

// foldRow writes the reduction of a row.
func foldRow(v vec, f fold) {
	routine := f.name + "Row" + v.name
	entries = append(entries, entry{"foldRow", v.name, f.name, routine})
	TEXT(routine, NOSPLIT, "func(x *float32, n int) float64")
	Doc(routine + " is the " + f.name + " of n elements; n > 0.")
	Pragma("noescape")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	all := f.vectors(v, x, n, GP64())
	if f.name == "prod" { // partial products may overflow float32
		VMOVSD(v.product(all), result())
	} else {
		y := v.across(all, f.two).AsX()
		VCVTSS2SD(y, y, y)
		VMOVSD(y, result())
	}
	VZEROUPPER()
	RET()
}

// foldEach writes the reduction of each of many rows.
func foldEach(v vec, f fold) {
	routine := f.name + "Each" + v.name
	entries = append(entries, entry{"foldEach", v.name, f.name, routine})
	TEXT(routine, NOSPLIT, "func(dst, x *float32, n, ld, rows int)")
	Doc(routine + " is dst[i] = the " + f.name + " of n elements of row i; rows are ld elements apart; n, rows > 0.")
	Pragma("noescape")
	dst, x, ld, rows := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("ld"), GP64()),
		Load(Param("rows"), GP64())
	SHLQ(U8(2), ld)
	n, at := GP64(), GP64()
	Label("each")
	Load(Param("n"), n)
	all := f.vectors(v, x, n, at)
	if f.name == "sum" {
		all = v.lane(all)
	} else {
		all = v.across(all, f.two)
	}
	VMOVSS(all.AsX(), Mem{Base: dst})
	ADDQ(ld, x)
	ADDQ(U8(4), dst)
	DECQ(rows)
	JNE(LabelRef("each"))
	VZEROUPPER()
	RET()
}

// across folds the lanes of x. The result is in all lanes of an eight-lane register.
func (v vec) across(x VecVirtual, fold func(v vec, a, b VecVirtual) VecVirtual) VecVirtual {
	half := vec{8, "AVX2"}
	if v.wide() {
		top := YMM()
		VEXTRACTF64X4(Imm(1), x, top)
		x = fold(half, x.AsY().(VecVirtual), top)
	}
	y := YMM()
	VPERM2F128(Imm(1), x, x, y)
	x = fold(half, x, y)
	for _, order := range []uint64{0x4e, 0xb1} { // swap pairs, then lanes
		y := YMM()
		VPERMILPS(Imm(order), x, y)
		x = fold(half, x, y)
	}
	return x
}

// product multiplies the lanes of x as doubles.
func (v vec) product(x VecVirtual) Register {
	low, high := v.reg(), v.reg()
	if v.wide() {
		top := YMM()
		VEXTRACTF64X4(Imm(1), x, top)
		VCVTPS2PD(x.AsY(), low)
		VCVTPS2PD(top, high)
		VMULPD(low, high, low)
		VEXTRACTF64X4(Imm(1), low, high.AsY())
		VMULPD(low.AsY(), high.AsY(), low.AsY())
	} else {
		top := XMM()
		VEXTRACTF128(Imm(1), x, top)
		VCVTPS2PD(x.AsX(), low)
		VCVTPS2PD(top, high)
		VMULPD(low, high, low)
	}
	a, b := low.AsX(), high.AsX()
	VEXTRACTF128(Imm(1), low.AsY(), b)
	VMULPD(a, b, a)
	VPERMILPD(Imm(1), a, b)
	VMULPD(a, b, a)
	return a
}

// foldRows writes the reduction of columns, four rows at a time.
func foldRows(v vec, name string, fold func(v vec, a, b VecVirtual) VecVirtual) {
	f := func(a, b VecVirtual) VecVirtual { return fold(v, a, b) }
	routine := name + "Rows" + v.name
	entries = append(entries, entry{"foldRows", v.name, name, routine})
	TEXT(routine, NOSPLIT, "func(acc, x *float32, n, ld, rows int)")
	Doc(routine + " folds rows of n elements, ld elements apart, into acc by " + name + "; n, rows > 0.")
	Pragma("noescape")
	acc, x, ld, rows := Load(Param("acc"), GP64()), Load(Param("x"), GP64()), Load(Param("ld"), GP64()),
		Load(Param("rows"), GP64())
	SHLQ(U8(2), ld)
	n, at := GP64(), GP64()
	var row [4]Register
	for i := range row {
		row[i] = GP64()
	}
	row[0] = x
	SUBQ(U8(4), rows)
	JLT(LabelRef("few"))
	Label("four")
	for i := range 3 {
		LEAQ(Mem{Base: row[i], Index: ld, Scale: 1}, row[i+1])
	}
	Load(Param("n"), n)
	XORQ(at, at)
	v.sweep("four", n, at, func(s *sweep) {
		s.store(
			f(
				s.load(acc, nil),
				f(f(s.load(row[0], nil), s.load(row[1], nil)), f(s.load(row[2], nil), s.load(row[3], nil)))), acc)
	})
	LEAQ(Mem{Base: row[3], Index: ld, Scale: 1}, x)
	SUBQ(U8(4), rows)
	JGE(LabelRef("four"))
	Label("few")
	ADDQ(U8(4), rows)
	JEQ(LabelRef("end"))
	Label("one")
	Load(Param("n"), n)
	XORQ(at, at)
	v.sweep("one", n, at, func(s *sweep) { s.store(f(s.load(acc, nil), s.load(x, nil)), acc) })
	ADDQ(ld, x)
	DECQ(rows)
	JNE(LabelRef("one"))
	Label("end")
	VZEROUPPER()
	RET()
}

// expRow writes the middle pass of a softmax: it sums powers of e and, unless it is for the logarithm, stores them.
func expRow(v vec, store bool) {
	name, signature, doc := "expSumRow"+v.name, "func(x *float32, n int, top float32) float32",
		" is the sum of e^(x - top) over n elements; n > 0."
	if store {
		name, signature, doc = "expRow"+v.name, "func(dst, x *float32, n int, top float32) float32",
			" is dst = e^(x - top) over n elements, and returns the sum; n > 0, dst may be x."
	}
	TEXT(name, NOSPLIT, signature)
	Doc(name + doc)
	Pragma("noescape")
	var dst Register
	if store {
		dst = Load(Param("dst"), GP64())
	}
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	top, sum := v.broadcast("top"), v.zero()
	at := GP64()
	XORQ(at, at)
	v.sweep("row", n, at, func(s *sweep) {
		// past the end e^0 rather than e^-Inf, since instructions that underflow take a hundred cycles
		y := s.load(x, top)
		VSUBPS(top, y, y)
		e := v.exp(y, nil)
		if store {
			s.store(e, dst)
		}
		if s.mask != nil && !v.wide() {
			v.and(s.mask, e, e) // NaN where top is -Inf
		}
		if s.mask != nil && v.wide() {
			VADDPS(e, sum, s.mask, sum)
		} else {
			VADDPS(e, sum, sum)
		}
	})
	VMOVSS(v.lane(sum), result())
	VZEROUPPER()
	RET()
}

// expRows writes expRow for columns.
func expRows(v vec, store bool) {
	name, signature, doc := "expSumRows"+v.name, "func(x *float32, n, ld, rows int, top, sum *float32)",
		" adds e^(x - top) of rows of n elements, ld elements apart, to sum; n, rows > 0."
	if store {
		name, signature, doc = "expRows"+v.name, "func(dst, x *float32, n, ld, rows int, top, sum *float32)",
			" is dst = e^(x - top) for rows of n elements, ld elements apart, and adds them to sum; n, rows > 0, dst may be x."
	}
	TEXT(name, NOSPLIT, signature)
	Doc(name + doc)
	Pragma("noescape")
	var dst Register
	if store {
		dst = Load(Param("dst"), GP64())
	}
	top, sum := Load(Param("top"), GP64()), Load(Param("sum"), GP64())
	v.eachRow(Load(Param("x"), GP64()), dst, func(s *sweep, x, dst Register) {
		y := s.load(x, nil)
		VSUBPS(s.load(top, nil), y, y)
		e := v.exp(y, nil)
		if store {
			s.store(e, dst)
		}
		t := s.load(sum, nil)
		VADDPS(e, t, t)
		s.store(t, sum)
	})
}

// eachRow writes a loop over rows of n elements, ld elements apart, of x and, if it is given, dst.
func (v vec) eachRow(x, dst Register, body func(s *sweep, x, dst Register)) {
	ld, rows := Load(Param("ld"), GP64()), Load(Param("rows"), GP64())
	SHLQ(U8(2), ld)
	n, at := GP64(), GP64()
	Label("row")
	Load(Param("n"), n)
	XORQ(at, at)
	v.sweep("row", n, at, func(s *sweep) { body(s, x, dst) })
	ADDQ(ld, x)
	if dst != nil {
		ADDQ(ld, dst)
	}
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func scaleRow(v vec) {
	name := "scaleRow" + v.name
	TEXT(name, NOSPLIT, "func(x *float32, n int, by float32)")
	Doc(name + " is x *= by over n elements; n > 0.")
	Pragma("noescape")
	x, n, by, at := Load(Param("x"), GP64()), Load(Param("n"), GP64()), v.broadcast("by"), GP64()
	XORQ(at, at)
	v.sweep("row", n, at, func(s *sweep) {
		y := s.load(x, nil)
		VMULPS(by, y, y)
		s.store(y, x)
	})
	VZEROUPPER()
	RET()
}

func shiftRow(v vec) {
	name := "shiftRow" + v.name
	TEXT(name, NOSPLIT, "func(dst, x *float32, n int, a, b float32)")
	Doc(name + " is dst = (x - a) - b over n elements; n > 0, dst may be x.")
	Pragma("noescape")
	dst, x, n, at := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64()), GP64()
	a, b := v.broadcast("a"), v.broadcast("b")
	XORQ(at, at)
	v.sweep("row", n, at, func(s *sweep) {
		y := s.load(x, nil)
		VSUBPS(a, y, y)
		VSUBPS(b, y, y)
		s.store(y, dst)
	})
	VZEROUPPER()
	RET()
}

func scaleColumns(v vec) {
	name := "scaleColumns" + v.name
	TEXT(name, NOSPLIT, "func(x *float32, n, ld, rows int, by *float32)")
	Doc(name + " is x *= by for rows of n elements, ld elements apart; n, rows > 0.")
	Pragma("noescape")
	by := Load(Param("by"), GP64())
	v.eachRow(Load(Param("x"), GP64()), nil, func(s *sweep, x, _ Register) {
		y := s.load(x, nil)
		VMULPS(s.load(by, nil), y, y)
		s.store(y, x)
	})
}

func shiftColumns(v vec) {
	name := "shiftColumns" + v.name
	TEXT(name, NOSPLIT, "func(dst, x *float32, n, ld, rows int, a, b *float32)")
	Doc(name + " is dst = (x - a) - b for rows of n elements, ld elements apart; n, rows > 0, dst may be x.")
	Pragma("noescape")
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	v.eachRow(Load(Param("x"), GP64()), Load(Param("dst"), GP64()), func(s *sweep, x, dst Register) {
		y := s.load(x, nil)
		VSUBPS(s.load(a, nil), y, y)
		VSUBPS(s.load(b, nil), y, y)
		s.store(y, dst)
	})
}
