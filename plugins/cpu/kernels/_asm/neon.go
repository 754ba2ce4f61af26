package main

import (
	"fmt"
	"math"
	"strings"
)

// The arm64 half of this program, since avo supports amd64 only. A neonFunc records the instructions of one routine,
// with any number of virtual vector registers; a linear scan assigns physical ones. Instructions that Go's assembler
// supports are written in its syntax. The others are words with their GNU syntax as a comment; a test compares the two
// with GNU's assembler.

// A vreg is a vector register of four floats, before it has a number.
type vreg int

// A vec8 is eight floats in two registers. This is the vector of the kernels on arm64: two independent chains of
// instructions keep more pipes busy than one.
type vec8 [2]vreg

// operand is a vec8, or a vreg that is used for both halves, such as a constant.
type operand interface{ half(i int) vreg }

func (r vreg) half(int) vreg   { return r }
func (v vec8) half(i int) vreg { return v[i] }

// A gpr is a general register by its name.
type gpr string

// gprs lists the general registers, without those that the system and Go reserve: R18 and R26 to R31.
var gprs = func() (names []gpr) {
	for i := range 26 {
		if i != 18 {
			names = append(names, gpr(fmt.Sprint("R", i)))
		}
	}
	return names
}()

// instruction is a line of the routine: text with a verb %v for each argument, or a word if gnu is set.
type instruction struct {
	text string
	args []any

	word uint32 // with zeros for the registers
	gnu  string // its syntax, with a verb %d for each register
	regs []vreg // destination, first and second source
}

// neonFunc is a routine under construction.
type neonFunc struct {
	name, doc, signature string

	params  map[string]string // name: operand on the frame
	size    int               // size of the frame
	code    []instruction
	regs    int
	gprs    int
	labels  map[string]int // label: index of the instruction that it precedes
	loops   [][2]int       // first and last instruction of each loop
	poolReg gpr            // holds the address of the constants
}

// neonFile is a file of routines.
type neonFile struct {
	funcs   []*neonFunc
	entries []entry
}

// list adds the last routine to a table of the package, under the function's name. how is its field in a
// unaryRoutine, empty for other kinds.
func (file *neonFile) list(kind, function, how string) {
	value := file.funcs[len(file.funcs)-1].name
	if how != "" {
		value = "{" + how + ": " + value + "}"
	}
	file.entries = append(file.entries, entry{kind, "NEON", function, value})
}

// add starts a routine. The signature lists "name type" for each parameter, which may be int, float32 or a pointer.
// result is the type of the result, or empty.
func (file *neonFile) add(name, signature, result, doc string) *neonFunc {
	f := &neonFunc{name: name + "NEON", doc: doc, signature: "(" + signature + ")", params: map[string]string{},
		labels: map[string]int{}}
	place := func(name, kind string) {
		size := 8
		if kind == "float32" {
			size = 4
		}
		f.size = (f.size + size - 1) / size * size
		f.params[name] = fmt.Sprintf("%s+%d(FP)", name, f.size)
		f.size += size
	}
	for p := range strings.SplitSeq(signature, ", ") {
		name, kind, _ := strings.Cut(p, " ")
		place(name, kind)
	}
	if result != "" {
		f.size = (f.size + 7) / 8 * 8
		f.signature += " " + result
		place("ret", result)
	}
	file.funcs = append(file.funcs, f)
	return f
}

func (f *neonFunc) reg() vreg {
	f.regs++
	return vreg(f.regs - 1)
}

func (f *neonFunc) pair() vec8 { return vec8{f.reg(), f.reg()} }

func (f *neonFunc) pairs(n int) []vec8 {
	p := make([]vec8, n)
	for i := range p {
		p[i] = f.pair()
	}
	return p
}

func (f *neonFunc) gpr() gpr {
	f.gprs++
	return gprs[f.gprs-1]
}

// ins adds an instruction in the syntax of Go's assembler; a vreg among the arguments is printed as its number.
func (f *neonFunc) ins(text string, args ...any) {
	f.code = append(f.code, instruction{text: text, args: args})
}

// param loads an integer or an address.
func (f *neonFunc) param(name string) gpr {
	r := f.gpr()
	f.ins("MOVD %v, %v", f.place(name), r)
	return r
}

// scalar loads a float into all lanes.
func (f *neonFunc) scalar(name string) vreg {
	low, r := f.reg(), f.reg()
	f.ins("FMOVS %v, F%v", f.place(name), low)
	f.ins("VDUP V%v.S[0], V%v.S4", low, r)
	return r
}

func (f *neonFunc) place(name string) string {
	p, ok := f.params[name]
	if !ok {
		panic(f.name + " has no parameter " + name)
	}
	return p
}

func (f *neonFunc) label(name string) { f.labels[name] = len(f.code) }

// back adds a conditional branch back to a label: the end of a loop.
func (f *neonFunc) back(branch, label string) {
	f.loops = append(f.loops, [2]int{f.labels[label], len(f.code)})
	f.ins(branch+" %v", label)
}

// count ends a loop that runs n times.
func (f *neonFunc) count(n gpr, label string) {
	f.ins("SUBS $1, %v, %v", n, n)
	f.back("BNE", label)
}

func (f *neonFunc) ret() { f.ins("RET") }

// load loads registers from ascending addresses, in pairs if it can. store does the opposite.
func (f *neonFunc) load(base gpr, offset int, regs ...vreg) {
	for len(regs) > 1 {
		f.ins("FLDPQ %v(%v), (F%v, F%v)", offset, base, regs[0], regs[1])
		regs, offset = regs[2:], offset+32
	}
	if len(regs) > 0 {
		f.ins("FMOVQ %v(%v), F%v", offset, base, regs[0])
	}
}

func (f *neonFunc) store(base gpr, offset int, regs ...vreg) {
	for len(regs) > 1 {
		f.ins("FSTPQ (F%v, F%v), %v(%v)", regs[0], regs[1], offset, base)
		regs, offset = regs[2:], offset+32
	}
	if len(regs) > 0 {
		f.ins("FMOVQ F%v, %v(%v)", regs[0], offset, base)
	}
}

// flat returns the registers of some vectors.
func flat(vs ...vec8) (regs []vreg) {
	for _, v := range vs {
		regs = append(regs, v[:]...)
	}
	return regs
}

func (f *neonFunc) loadPair(base gpr, offset int) vec8 {
	v := f.pair()
	f.load(base, offset, v[:]...)
	return v
}

// poolName is the symbol of a routine's constants.
type poolName string

// useConstants loads the address of the routine's constants, if it has any. It must come before any loop.
func (f *neonFunc) useConstants() {
	f.poolReg = f.gpr()
	f.ins("MOVD $%v<>(SB), %v", f.pool(), f.poolReg)
}

func (f *neonFunc) pool() poolName { return poolName(f.name + "Constants") }

// A constant is stored in the routine's pool, twice if it fills two registers at once.
type constant struct {
	lanes [4]uint32
	twice bool
}

func sameLanes(bits uint32) [4]uint32 { return [4]uint32{bits, bits, bits, bits} }

// bits returns a read-only constant in one register. It is loaded where it is used, since the load pipes are otherwise
// idle.
func (f *neonFunc) bits(bits uint32) vreg { return f.lanes(sameLanes(bits)) }

// lanes is bits for different lanes.
func (f *neonFunc) lanes(l [4]uint32) vreg {
	r := f.reg()
	f.ins("FMOVQ %v(%v), F%v", constant{l, false}, f.poolReg, r)
	return r
}

// float is bits for the float nearest to x.
func (f *neonFunc) float(x float64) vreg { return f.bits(math.Float32bits(float32(x))) }

// ownBits and ownFloat return constants that may be overwritten.
func (f *neonFunc) ownBits(bits uint32) vec8 {
	v := f.pair()
	f.ins("FLDPQ %v(%v), (F%v, F%v)", constant{sameLanes(bits), true}, f.poolReg, v[0], v[1])
	return v
}

func (f *neonFunc) ownFloat(x float64) vec8 { return f.ownBits(math.Float32bits(float32(x))) }

func (f *neonFunc) clear(r vreg) { f.ins("VEOR V%v.B16, V%v.B16, V%v.B16", r, r, r) }

func (f *neonFunc) zero() vreg {
	r := f.reg()
	f.clear(r)
	return r
}

// word adds an instruction that Go's assembler lacks.
func (f *neonFunc) word(w uint32, gnu string, regs ...vreg) {
	f.code = append(f.code, instruction{word: w, gnu: gnu, regs: regs})
}
