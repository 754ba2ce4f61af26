package main

import "fmt"

// The vector instructions in use. They work on four 32-bit lanes, unless stated otherwise.

// vectorOp is an instruction with a destination and one or two sources: Go's mnemonic and arrangement, or a word and
// GNU's name.
type vectorOp struct {
	mnemonic, arrangement string
	word                  uint32
	gnu                   string
}

var vectorOps = map[string]vectorOp{
	"and": {mnemonic: "VAND", arrangement: "B16"}, "orr": {mnemonic: "VORR", arrangement: "B16"},
	"eor": {mnemonic: "VEOR", arrangement: "B16"},
	"add": {mnemonic: "VADD", arrangement: "S4"}, "sub": {mnemonic: "VSUB", arrangement: "S4"},
	"fmla": {mnemonic: "VFMLA", arrangement: "S4"}, "fmls": {mnemonic: "VFMLS", arrangement: "S4"},
	"bsl":  {mnemonic: "VBSL", arrangement: "B16"},
	"trn1": {mnemonic: "VTRN1", arrangement: "S4"}, "trn2": {mnemonic: "VTRN2", arrangement: "S4"},
	"trn1d": {mnemonic: "VTRN1", arrangement: "D2"}, "trn2d": {mnemonic: "VTRN2", arrangement: "D2"},
	"zip1": {mnemonic: "VZIP1", arrangement: "S4"}, "zip2": {mnemonic: "VZIP2", arrangement: "S4"},
	"zip1h": {mnemonic: "VZIP1", arrangement: "H8"}, "uzp1h": {mnemonic: "VUZP1", arrangement: "H8"},

	"fadd": {word: 0x4e20d400, gnu: "fadd"}, "fsub": {word: 0x4ea0d400, gnu: "fsub"},
	"fmul": {word: 0x6e20dc00, gnu: "fmul"}, "fdiv": {word: 0x6e20fc00, gnu: "fdiv"},
	"fmax": {word: 0x4e20f400, gnu: "fmax"}, "fmin": {word: 0x4ea0f400, gnu: "fmin"}, // NaN if either is NaN
	"fmaxnm": {word: 0x4e20c400, gnu: "fmaxnm"}, // if one is NaN, the other one
	"fcmeq":  {word: 0x4e20e400, gnu: "fcmeq"}, "fcmge": {word: 0x6e20e400, gnu: "fcmge"},
	"fcmgt": {word: 0x6ea0e400, gnu: "fcmgt"},
	"faddp": {word: 0x6e20d400, gnu: "faddp"},
	"smin":  {word: 0x4ea06c00, gnu: "smin"}, "cmtst": {word: 0x4ea08c00, gnu: "cmtst"},
	"umaxp": {word: 0x6ea0a400, gnu: "umaxp"},
}

// into is dst = name(a, b), or dst = name(dst, a, b) for fmla, fmls and bsl.
func (f *neonFunc) into(name string, dst vreg, a, b vreg) {
	op, ok := vectorOps[name]
	switch {
	case !ok:
		panic("no instruction " + name)
	case op.mnemonic != "":
		t := op.arrangement
		f.ins(op.mnemonic+" V%v."+t+", V%v."+t+", V%v."+t, b, a, dst)
	default:
		f.word(op.word, op.gnu+" v%d.4s, v%d.4s, v%d.4s", dst, a, b)
	}
}

// op2 returns name(a, b) in a new vector.
func (f *neonFunc) op2(name string, a, b operand) vec8 {
	v := f.pair()
	for i := range v {
		f.into(name, v[i], a.half(i), b.half(i))
	}
	return v
}

// op3 emits an instruction that has dst as an operand, too.
func (f *neonFunc) op3(name string, dst vec8, a, b operand) {
	for i := range dst {
		f.into(name, dst[i], a.half(i), b.half(i))
	}
}

// Short names for common instructions. fma is s += a*b, fms is s -= a*b.
func (f *neonFunc) add(a, b operand) vec8          { return f.op2("fadd", a, b) }
func (f *neonFunc) sub(a, b operand) vec8          { return f.op2("fsub", a, b) }
func (f *neonFunc) mul(a, b operand) vec8          { return f.op2("fmul", a, b) }
func (f *neonFunc) div(a, b operand) vec8          { return f.op2("fdiv", a, b) }
func (f *neonFunc) fma(s vec8, a, b operand)       { f.op3("fmla", s, a, b) }
func (f *neonFunc) fms(s vec8, a, b operand)       { f.op3("fmls", s, a, b) }
func (f *neonFunc) less(a, b operand) vec8         { return f.op2("fcmgt", b, a) } // a mask, zero for NaN
func (f *neonFunc) pick(m vec8, y, n operand) vec8 { f.op3("bsl", m, y, n); return m }

// lanewise emits an instruction with one source.
func (f *neonFunc) lanewise(a vec8, word uint32, gnu string) vec8 {
	v := f.pair()
	for i := range v {
		f.word(word, gnu+" v%d.4s, v%d.4s", v[i], a[i])
	}
	return v
}

func (f *neonFunc) neg(a vec8) vec8     { return f.lanewise(a, 0x6ea0f800, "fneg") }
func (f *neonFunc) abs(a vec8) vec8     { return f.lanewise(a, 0x4ea0f800, "fabs") }
func (f *neonFunc) sqrt(a vec8) vec8    { return f.lanewise(a, 0x6ea1f800, "fsqrt") }
func (f *neonFunc) nearest(a vec8) vec8 { return f.lanewise(a, 0x4e218800, "frintn") } // as a float
func (f *neonFunc) integer(a vec8) vec8 { return f.lanewise(a, 0x4e21a800, "fcvtns") }

// shift is a shift of the lanes by a constant: "shl", "ushr" or "sshr".
func (f *neonFunc) shift(name string, a vec8, by uint32) vec8 {
	v := f.pair()
	for i := range v {
		switch name {
		case "shl":
			f.ins("VSHL $%v, V%v.S4, V%v.S4", by, a[i], v[i])
		case "ushr":
			f.ins("VUSHR $%v, V%v.S4, V%v.S4", by, a[i], v[i])
		default:
			f.word(0x4f000400|(64-by)<<16, fmt.Sprintf("sshr v%%d.4s, v%%d.4s, #%d", by), v[i], a[i])
		}
	}
	return v
}

// laneBits returns the bits of an instruction that select a lane of its second source.
func laneBits(lane int) uint32 { return uint32(lane)&1<<21 | uint32(lane)>>1<<11 }

// byElement is acc += a * b[lane].
func (f *neonFunc) byElement(acc, a, b vreg, lane int) {
	f.word(0x4f801000|laneBits(lane), fmt.Sprintf("fmla v%%d.4s, v%%d.4s, v%%d.s[%d]", lane), acc, a, b)
}

// pairsByElement is acc += a * b[lane] for pairs of bfloat16: both products of a pair.
func (f *neonFunc) pairsByElement(acc, a, b vreg, lane int) {
	f.word(0x4f40f000|laneBits(lane), fmt.Sprintf("bfdot v%%d.4s, v%%d.8h, v%%d.2h[%d]", lane), acc, a, b)
}

// total adds up the lanes of a in a fixed tree. The sum is lane 0 of the result.
func (f *neonFunc) total(a vec8) vreg {
	s := f.reg()
	f.into("fadd", s, a[0], a[1])
	return f.across(s)
}

func (f *neonFunc) across(a vreg) vreg {
	s := f.reg()
	f.into("faddp", s, a, a)
	f.into("faddp", s, s, s)
	return s
}

// horner evaluates c[0] + c[1] x + ...
func (f *neonFunc) horner(x vec8, c []float64) vec8 {
	last := len(c) - 1
	s := f.ownFloat(c[last-1])
	f.fma(s, f.float(c[last]), x)
	for i := last - 2; i >= 0; i-- {
		next := f.ownFloat(c[i])
		f.fma(next, s, x)
		s = next
	}
	return s
}
