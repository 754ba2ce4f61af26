package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genRows writes the passes of norms over one row, for whole vectors only. Go code computes the last elements.
func genRows(v vec) {
	rowReduce(v, "sum", false)
	rowReduce(v, "deviations", true)
	normalize(v)
	normRows(v)
}

// rowReduce writes the sum of x, or of mean-x and of its square, with four accumulators per lane.
func rowReduce(v vec, what string, center bool) {
	name := what + v.name
	sig, doc := "func(x *float32, blocks int) float32", " is the sum of blocks*lanes floats; blocks > 0."
	if center {
		sig = "func(x *float32, blocks int, mean float32, distance *float32) float32"
		doc = " is the sum of (x-mean)^2 over blocks*lanes floats; blocks > 0. distance becomes the sum of mean-x."
	}
	TEXT(name, NOSPLIT, sig)
	Doc(name + doc)
	Pragma("noescape")
	x := Load(Param("x"), GP64())
	n := Load(Param("blocks"), GP64())
	var mean VecVirtual
	if center {
		mean = v.broadcast("mean")
	}
	sum, distance := v.addRow(x, n, mean)
	VMOVSS(sum, result())
	if center {
		VMOVSS(distance, Mem{Base: Load(Param("distance"), GP64())})
	}
	VZEROUPPER()
	RET()
}

// addRow adds up n vectors of x or, if mean is not nil, of (x-mean)^2, and of mean-x as distance. It moves x behind
// them and overwrites n, which must be positive.
func (v vec) addRow(x, n Register, mean VecVirtual) (sum, distance VecVirtual) {
	center := mean != nil
	acc, distances := [4]VecVirtual{}, [4]VecVirtual{}
	for i := range acc {
		acc[i] = v.zero()
		if center {
			distances[i] = v.zero()
		}
	}
	step := func(i int) {
		m := Mem{Base: x, Disp: i * v.bytes()}
		if !center {
			VADDPS(m, acc[i], acc[i])
			return
		}
		t := v.reg()
		VSUBPS(m, mean, t)
		VADDPS(t, distances[i], distances[i])
		VFMADD231PS(t, t, acc[i])
	}
	labels++
	label := func(name string) string { return fmt.Sprint(name, labels) }
	four, rest, one, end := label("four"), label("rest"), label("one"), label("sum")
	SUBQ(Imm(4), n)
	JLT(LabelRef(rest))
	Label(four)
	for i := range acc {
		step(i)
	}
	ADDQ(U32(uint32(4*v.bytes())), x)
	SUBQ(Imm(4), n)
	JGE(LabelRef(four))
	Label(rest)
	ADDQ(Imm(4), n)
	JEQ(LabelRef(end))
	Label(one)
	step(0)
	ADDQ(Imm(uint64(v.bytes())), x)
	DECQ(n)
	JNE(LabelRef(one))
	Label(end)
	total := func(acc [4]VecVirtual) VecVirtual {
		VADDPS(acc[1], acc[0], acc[0])
		VADDPS(acc[3], acc[2], acc[2])
		VADDPS(acc[2], acc[0], acc[0])
		return v.lane(acc[0])
	}
	sum = total(acc)
	if center {
		distance = total(distances)
	}
	return sum, distance
}

var labels int // of addRow so far

// normRows writes the norm of rows of whole vectors, see norm.moments. The passes over a row depend on each other, so
// they take little more time than the sum of their latencies; within one routine, the next row begins meanwhile.
func normRows(v vec) {
	name := "normRows" + v.name
	TEXT(name, NOSPLIT, "func(dst, x, gamma, beta *float32, rows, blocks int, count, eps float64, center uint64)")
	Doc(name + " normalizes rows of blocks*lanes floats, as norm.Normalize does; rows, blocks > 0. count is the " +
		"number of floats as a float64. center is all ones, or 0 for a mean of 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	x := Load(Param("x"), GP64())
	gamma := Load(Param("gamma"), GP64())
	beta := Load(Param("beta"), GP64())
	rows := Load(Param("rows"), GP64())
	blocks := Load(Param("blocks"), GP64())
	bits := GP64()
	MOVQ(U64(math.Float64bits(1)), bits)
	mask := func() Register {
		m := XMM()
		VMOVQ(arg("center"), m)
		return m
	}
	Label("row")
	at, n := GP64(), GP64()
	MOVQ(x, at)
	MOVQ(blocks, n)
	sum, _ := v.addRow(at, n, nil)
	wide, low := XMM(), XMM()
	VCVTSS2SD(sum.AsX(), sum.AsX(), wide)
	VDIVSD(arg("count"), wide, wide)
	VCVTSD2SS(wide, wide, low)
	VANDPS(mask(), low, low)
	mean := v.reg()
	VBROADCASTSS(low, mean)
	MOVQ(x, at)
	MOVQ(blocks, n)
	squares, distance := v.addRow(at, n, mean)
	far, variance, t := XMM(), XMM(), XMM()
	VCVTSS2SD(distance.AsX(), distance.AsX(), far)
	VDIVSD(arg("count"), far, far)
	VANDPD(mask(), far, far)
	VCVTSS2SD(squares.AsX(), squares.AsX(), variance)
	VDIVSD(arg("count"), variance, variance)
	VMULSD(far, far, t)
	VSUBSD(t, variance, variance)
	VXORPD(t, t, t)
	VMAXSD(variance, t, variance) // NaN if the variance is
	VADDSD(arg("eps"), variance, variance)
	VSQRTSD(variance, variance, variance)
	inverse := XMM()
	VMOVQ(bits, inverse)
	VDIVSD(variance, inverse, inverse)
	VMULSD(inverse, far, far)
	VCVTSD2SS(inverse, inverse, inverse)
	VCVTSD2SS(far, far, far)
	scale, shift := v.reg(), v.reg()
	VBROADCASTSS(inverse, scale)
	VBROADCASTSS(far, shift)
	i := GP64()
	XORQ(i, i)
	MOVQ(blocks, n)
	Label("loop")
	v.normalizeAt(dst, x, gamma, beta, i, mean, scale, shift)
	DECQ(n)
	JNE(LabelRef("loop"))
	ADDQ(i, x)
	ADDQ(i, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// normalizeAt normalizes the vector at byte i and moves i behind it.
func (v vec) normalizeAt(dst, x, gamma, beta, i Register, mean, scale, shift VecVirtual) {
	t, b := v.reg(), v.reg()
	VMOVUPS(Mem{Base: x, Index: i, Scale: 1}, t)
	VSUBPS(mean, t, t)
	VFMADD213PS(shift, scale, t)
	VMOVUPS(Mem{Base: beta, Index: i, Scale: 1}, b)
	VFMADD231PS(Mem{Base: gamma, Index: i, Scale: 1}, t, b)
	VMOVUPS(b, Mem{Base: dst, Index: i, Scale: 1})
	ADDQ(Imm(uint64(v.bytes())), i)
}

func normalize(v vec) {
	name := "normalize" + v.name
	TEXT(name, NOSPLIT, "func(dst, x, gamma, beta *float32, blocks int, mean, scale, shift float32)")
	Doc(name + " is dst = ((x-mean)*scale + shift)*gamma + beta over blocks*lanes floats; blocks > 0.")
	Pragma("noescape")
	dst := Load(Param("dst"), GP64())
	x := Load(Param("x"), GP64())
	gamma := Load(Param("gamma"), GP64())
	beta := Load(Param("beta"), GP64())
	n := Load(Param("blocks"), GP64())
	mean, scale, shift := v.broadcast("mean"), v.broadcast("scale"), v.broadcast("shift")
	i := GP64()
	XORQ(i, i)
	Label("loop")
	v.normalizeAt(dst, x, gamma, beta, i, mean, scale, shift)
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
