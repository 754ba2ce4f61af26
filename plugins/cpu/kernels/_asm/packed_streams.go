package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// dotStreams is the number of rows of weights that a product reads at once. The rows are far apart in memory. Hardware
// prefetchers follow streams in several pages at once, but stop at the end of a page, so a single stream keeps too few
// reads in flight.
const dotStreams = 4

// prefetchAhead returns a register that holds prefetchAhead, the distance at which weights are prefetched.
func prefetchAhead() Register {
	r := GP64()
	MOVQ(Mem{Symbol: Symbol{Name: "\u00b7prefetchAhead"}, Base: StaticBase}, r)
	return r
}

// prefetch writes prefetches of n bytes for each stream, ahead of its pointer.
func (p *streams) prefetch(n int, ahead Register) {
	for i := 0; i < n; i += 64 {
		macroUse("PREFETCH_ROWS", "PREFETCH_ROWS prefetches the line at an offset of each row, ahead of its pointer.",
			append(p.params(), param{"at", i}, param{"ahead", ahead}), func() {
				for _, w := range p {
					PREFETCHT0(Mem{Base: w, Index: ahead, Scale: 1, Disp: i})
				}
			})
	}
}

// dotArgs and dotDoc are the arguments and the comment of products that read dotStreams rows at once.
const (
	dotArgs = "dst *float32, lead int, w %s, gap, stride, rows int, "
	dotDoc  = " sets dst[r+i*lead] to the dot product of x and the row at w+i*gap+r*stride, for i < 4 and r < rows."
)

// streams holds the pointers to the rows that are read at once.
type streams [dotStreams]Register

// start points the streams to their next rows. It overwrites t.
func (p *streams) start(t Register) {
	macroUse("START_ROWS", "START_ROWS points to the next four rows, which are a gap apart.",
		append(p.params(), param{"t", t}), func() {
			MOVQ(arg("w"), p[0])
			MOVQ(arg("gap"), t)
			for i := 1; i < len(p); i++ {
				LEAQ(Mem{Base: p[i-1], Index: t, Scale: 1}, p[i])
			}
		})
}

// advance moves the pointers by n bytes.
func (p *streams) advance(n int) {
	macroUse("ADVANCE_ROWS", "ADVANCE_ROWS moves the pointers to rows by n bytes.", append(p.params(), param{"n", n}),
		func() {
			for _, w := range p {
				ADDQ(U32(uint32(n)), w)
			}
		})
}

// end stores the sums and jumps to label "row" if there are more rows. It overwrites s and t.
func (p *streams) end(sums [dotStreams]Register, s, t Register) {
	params := []param{{"s", s}, {"t", t}}
	for i, x := range sums {
		params = append(params, param{fmt.Sprint("sum", i), x})
	}
	macroUse("END_ROWS",
		"END_ROWS stores the sums of four rows, which are lead floats apart, and counts rows down.", params, func() {
			MOVQ(arg("dst"), s)
			MOVQ(arg("lead"), t)
			for i, x := range sums {
				VMOVSS(x, Mem{Base: s})
				if i < len(sums)-1 {
					LEAQ(Mem{Base: s, Index: t, Scale: 4}, s)
				}
			}
			ADDQ(Imm(4), arg("dst"))
			MOVQ(arg("stride"), t)
			ADDQ(t, arg("w"))
			DECQ(arg("rows"))
		})
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// params returns the pointers as parameters of a macro.
func (p *streams) params() (out []param) {
	for i, w := range p {
		out = append(out, param{fmt.Sprint("row", i), w})
	}
	return out
}

// gp64s returns a general register for each stream.
func gp64s() (p streams) {
	for i := range p {
		p[i] = GP64()
	}
	return p
}

// cpuVendor writes a function that returns the vendor of the processor.
func cpuVendor() {
	TEXT("cpuVendor", NOSPLIT, "func() uint32")
	Doc("cpuVendor returns the first four letters of the vendor's name from CPUID, the first one in the lowest byte.")
	XORL(EAX, EAX)
	XORL(ECX, ECX)
	CPUID()
	Store(EBX, ReturnIndex(0))
	RET()
}

// dotHalves writes the product of a matrix of 16-bit floats and a vector.
func (v vec) dotHalves(name string, widen func(Mem, Register)) {
	name += v.name
	TEXT(name, NOSPLIT, "func("+fmt.Sprintf(dotArgs, "*uint16")+"x *float32, vectors int)")
	Doc(name+dotDoc, "A row has vectors*lanes elements. lead, gap and stride may be 0. rows and vectors > 0.")
	Pragma("noescape")
	x, px, n := Load(Param("x"), GP64()), GP64(), GP64()
	ahead, p := prefetchAhead(), gp64s()
	var acc [dotStreams][2]VecVirtual
	for i := range acc {
		acc[i] = [2]VecVirtual{v.reg(), v.reg()}
	}
	add := func(count int) {
		for i := range count {
			for j, w := range p {
				t := v.reg()
				widen(Mem{Base: w, Disp: i * v.bytes() / 2}, t)
				VFMADD231PS(Mem{Base: px, Disp: i * v.bytes()}, t, acc[j][i%2])
			}
		}
		if count > 1 {
			p.prefetch(count*v.bytes()/2, ahead)
		}
		p.advance(count * v.bytes() / 2)
		ADDQ(U32(uint32(count*v.bytes())), px)
	}
	Label("row")
	p.start(n)
	MOVQ(x, px)
	MOVQ(arg("vectors"), n)
	for _, a := range acc {
		v.clear(a[0])
		v.clear(a[1])
	}
	unrolled(n, 128/v.bytes(), add)
	var sums [dotStreams]Register
	for i, a := range acc {
		VADDPS(a[1], a[0], a[0])
		sums[i] = v.lane(a[0]).AsX()
	}
	p.end(sums, n, px)
}

// unrolled writes a loop over n > 0 blocks. step writes the code for `unroll` blocks, or for one of those that are left
// over at the end.
func unrolled(n Op, unroll int, step func(blocks int)) {
	if unroll > 1 {
		SUBQ(Imm(uint64(unroll)), n)
		JLT(LabelRef("rest"))
		Label("blocks")
		step(unroll)
		SUBQ(Imm(uint64(unroll)), n)
		JGE(LabelRef("blocks"))
		Label("rest")
		ADDQ(Imm(uint64(unroll)), n)
		JEQ(LabelRef("end"))
	}
	Label("each")
	step(1)
	DECQ(n)
	JNE(LabelRef("each"))
	Label("end")
}
