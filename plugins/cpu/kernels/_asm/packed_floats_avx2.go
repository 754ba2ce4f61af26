package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// floatRows multiplies the blocks of dotStreams rows of weights by a vector of floats, for AVX2. Activations are loaded
// once for all rows. The sums of all rows advance in turn, because a processor looks only some tens of instructions
// ahead, and each addition takes four cycles.
type floatRows struct {
	packedBlock
	w             streams
	acc           [dotStreams]VecVirtual
	px, ps        Register // activations, and sums of 32 of them
	block, values int      // index in the iteration of the loop, values in a block
	scales        Mem      // of the stack: 16 floats for each row
}

// avx2FloatRows has the bodies.
var avx2FloatRows = map[string]func(p *floatRows){
	"Q8_0": (*floatRows).q8_0, "Q4_0": (*floatRows).q4_0, "Q4_K": (*floatRows).q4_K, "Q6_K": (*floatRows).q6_K,
}

// dotAVX2 writes the product of a matrix of packed weights and a vector.
func (v vec) dotAVX2(f packedFormat) {
	name := "dot" + f.name + v.name
	TEXT(name, NOSPLIT, "func("+fmt.Sprintf(dotArgs, "*byte")+"x, sums *float32, blocks int)")
	Doc(name+dotDoc, packedDotDoc)
	Pragma("noescape")
	n, ahead := GP64(), prefetchAhead()
	p := &floatRows{packedBlock: packedBlock{vec: v}, w: gp64s(), px: GP64(), values: f.values,
		scales: AllocLocal(64 * dotStreams)}
	if f.name == "Q4_K" {
		p.ps = GP64()
	}
	for i := range p.acc {
		p.acc[i] = YMM()
	}
	Label("row")
	p.w.start(n)
	MOVQ(arg("x"), p.px)
	MOVQ(arg("blocks"), n)
	for _, a := range p.acc {
		v.clear(a)
	}
	if p.ps != nil {
		MOVQ(arg("sums"), p.ps)
	}
	unrolled(n, f.unroll, func(blocks int) {
		for p.block = range blocks {
			p.off = p.block * f.bytes
			avx2FloatRows[f.name](p)
		}
		p.w.prefetch(blocks*f.bytes, ahead)
		p.w.advance(blocks * f.bytes)
		ADDQ(U32(uint32(4*blocks*f.values)), p.px)
		if p.ps != nil {
			ADDQ(Imm(32), p.ps)
		}
	})
	var sums [dotStreams]Register
	for i, a := range p.acc {
		sums[i] = v.lane(a).AsX()
	}
	p.w.end(sums, n, p.px)
}

// x loads eight activations, from index i of the block on.
func (p *floatRows) x(i int) VecVirtual {
	return vectorOf(Mem{Base: p.px, Disp: 4 * (p.block*p.values + i)})
}

// add adds the products of x and integers q, which it converts, to t, or sets t to them.
func (p *floatRows) add(q, x VecVirtual, t *VecVirtual) {
	p.float(q)
	if *t == nil {
		*t = q
		VMULPS(x, q, q)
	} else {
		VFMADD231PS(x, q, *t)
	}
}

// eachRow calls f for each row, whose blocks at and halfAt then find. macro and doc are those of macroUse. The macro
// has the row, its sum, the block and these parameters.
func (p *floatRows) eachRow(macro, doc string, f func(row int), with ...param) {
	for row, w := range p.w {
		p.packedBlock.w = w
		params := []param{{"w", w}, {"acc", p.acc[row]}, {"row", row}, {"block", p.block}}
		macroUse(macro, macro+" "+doc, append(params, with...), func() { f(row) })
	}
}

// finish adds t times a scale to the sum of a row.
func (p *floatRows) finish(row int, t VecVirtual, scale func(dst Register)) {
	s := YMM()
	scale(s)
	VFMADD231PS(s, t, p.acc[row])
}

// finishGroup adds t times a scale of the block to the sum of a row.
func (p *floatRows) finishGroup(row int, t VecVirtual, group int) {
	at := 64*row + 4*group
	macroUse("FINISH_GROUP", "FINISH_GROUP adds the products of a group, times their scale, to the sum of a row.",
		[]param{{"acc", p.acc[row]}, {"t", t}, {"at", at}}, func() {
			p.finish(row, t, func(dst Register) { VBROADCASTSS(p.scales.Offset(at), dst) })
		})
}

func (p *floatRows) blockScale(dst Register) { p.halfAt(p.vec, 0, dst) }

func (p *floatRows) q8_0() {
	var t [dotStreams]VecVirtual
	for i := 0; i < 32; i += 8 {
		x := p.x(i)
		name := "ADD_EIGHT_Q8_0"
		if i == 0 {
			name = "MULTIPLY_EIGHT_Q8_0"
		}
		p.eachRow(name, "multiplies eight weights of a row by x.",
			func(row int) { p.add(p.dwords(2+i, true), x, &t[row]) }, param{"i", i}, param{"x", x})
	}
	p.finishRows(t)
}

// finishRows adds sums of products, times the scale of the block, to the sums of the rows.
func (p *floatRows) finishRows(t [dotStreams]VecVirtual) {
	p.eachRow("FINISH_BLOCK", "adds t, times the scale of the block, to the sum of a row.",
		func(row int) { p.finish(row, t[row], p.blockScale) }, param{"at", p.off})
}

// q4_0 starts with -8 times the sum of the activations, instead of subtracting 8 from all integers.
func (p *floatRows) q4_0() {
	sum := p.x(0)
	for i := 8; i < 32; i += 8 {
		VADDPS(Mem{Base: p.px, Disp: 4 * (p.block*p.values + i)}, sum, sum)
	}
	VMULPS(f32(-8), sum, sum)
	var t [dotStreams]VecVirtual
	for row := range t {
		t[row] = YMM()
		VMOVAPS(sum, t[row])
	}
	for i := 0; i < 16; i += 8 {
		x := [2]VecVirtual{p.x(i), p.x(i + 16)}
		p.eachRow("ADD_NIBBLES_Q4_0", "multiplies 16 weights of a row, low and high nibbles of eight bytes.",
			func(row int) {
				for h, q := range p.nibblesOf(2 + i) {
					p.add(q, x[h], &t[row])
				}
			}, param{"i", i})
	}
	p.finishRows(t)
}

// nibblesOf returns the low and the high nibbles of eight bytes.
func (p *floatRows) nibblesOf(i int) [2]VecVirtual {
	high, low := p.dwords(i, false), YMM()
	VPAND(bitsConst(15), high, low)
	VPSRLD(Imm(4), high, high)
	return [2]VecVirtual{low, high}
}

func (p *floatRows) q4_K() {
	sums := vectorOf(Mem{Base: p.ps})
	p.eachRow("SCALES_Q4_K", scalesDoc, func(row int) {
		s, m := p.sixes()
		d := YMM()
		p.halfAt(p.vec, 0, d)
		VMULPS(d, s, s)
		VMOVUPS(s, p.scales.Offset(64*row))
		p.halfAt(p.vec, 2, d)
		VMULPS(d, m, m)
		VFNMADD231PS(sums, m, p.acc[row])
	})
	for c := range 4 {
		var t [dotStreams][2]VecVirtual
		for i := 0; i < 32; i += 8 {
			x := [2]VecVirtual{p.x(64*c + i), p.x(64*c + 32 + i)}
			name := "ADD_NIBBLES_Q4_K"
			if i == 0 {
				name = "MULTIPLY_NIBBLES_Q4_K"
			}
			p.eachRow(name, "multiplies 16 weights of a row, low and high nibbles of eight bytes.", func(row int) {
				for h, q := range p.nibblesOf(16 + 32*c + i) {
					p.add(q, x[h], &t[row][h])
				}
			}, param{"i", 32*c + i})
		}
		for row := range t {
			for h := range 2 {
				p.finishGroup(row, t[row][h], 2*c+h)
			}
		}
	}
}

// q6_K unpacks 32 integers of a row at a time, as bytes.
func (p *floatRows) q6_K() {
	p.eachRow("SCALES_Q6_K", "stores the scales of a row's block.", func(row int) {
		d := YMM()
		p.halfAt(p.vec, 208, d)
		for h := range 2 {
			s := p.float(p.dwords(192+8*h, true))
			VMULPS(d, s, s)
			VMOVUPS(s, p.scales.Offset(64*row+32*h))
		}
	})
	for h := range 2 {
		for j := range 4 {
			var q [dotStreams]VecVirtual
			name := fmt.Sprint("UNPACK_Q6_K_", j)
			p.eachRow(name, "unpacks 32 integers of a row, in half h of the block.", func(row int) {
				u, upper := shiftRight(vectorOf(p.at(64*h+32*(j%2))), j/2*4),
					shiftRight(vectorOf(p.at(128+32*h)), 2*j-4)
				VPAND(bytesConst(15), u, u)
				VPAND(bytesConst(0x30), upper, upper)
				VPOR(upper, u, u)
				VPSUBB(bytesConst(32), u, u)
				q[row] = u
			}, param{"h", h})
			for half := range 2 {
				if half == 1 {
					for _, q := range q {
						VEXTRACTI128(Imm(1), q, q.AsX())
					}
				}
				var t [dotStreams]VecVirtual
				for k := range 2 {
					x := p.x(128*h + 32*j + 16*half + 8*k)
					name := []string{"MULTIPLY_EIGHT_Q6_K", "ADD_EIGHT_Q6_K"}[k]
					p.eachRow(name, "multiplies eight integers of a row by x.", func(row int) {
						y := YMM()
						if k == 0 {
							VPMOVSXBD(q[row].AsX(), y)
						} else {
							VPSRLDQ(Imm(8), q[row].AsX(), y.AsX())
							VPMOVSXBD(y.AsX(), y)
						}
						p.add(y, x, &t[row])
					})
				}
				for row := range t {
					p.finishGroup(row, t[row], 8*h+2*j+half)
				}
			}
		}
	}
}
