package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// genPacked writes routines that multiply by packed weights, and routines that decode them. Both widen blocks in registers, from bytes to
// dwords and then to float32.
func genPacked(v vec) {
	for _, f := range []packedFormat{
		{"Q8_0", 32, 34, 2, q8_0, (*wideDot).q8_0}, {"Q4_0", 32, 18, 2, q4_0, (*wideDot).q4_0},
		{"Q4_K", 256, 144, 1, q4_K, (*wideDot).q4_K}, {"Q6_K", 256, 210, 1, q6_K, (*wideDot).q6_K},
	} {
		v.packedDot(f)
		v.packedDecode(f)
	}
	if v.wide() {
		cpuVendor()
	}
	v.dotHalves("dotF16", func(m Mem, r Register) { VCVTPH2PS(m, r) })
	v.dotHalves("dotBF16", func(m Mem, r Register) {
		VPMOVZXWD(m, r)
		VPSLLD(Imm(16), r, r)
	})
}

// dotStreams is the number of rows of weights that a product reads at once. The rows are far apart in memory. Hardware prefetchers follow
// streams in several pages at once, but stop at the end of a page, so a single stream keeps too few reads in flight.
const dotStreams = 4

// farBytes and nearBytes are the distances at which weights are prefetched. Intel's processors use farBytes, because their own prefetchers
// stop at the end of a page. On AMD's, far prefetches would push the activations out of the first-level cache.
const farBytes, nearBytes = 4096, 1024

// prefetch writes prefetches of n bytes for each stream, near or far ahead of its pointer.
func (p *streams) prefetch(n int) {
	prefetches++
	near, end := fmt.Sprintf("near%d", prefetches), fmt.Sprintf("prefetched%d", prefetches)
	ifNear(near)
	p.prefetchAt(farBytes, n)
	JMP(LabelRef(end))
	Label(near)
	p.prefetchAt(nearBytes, n)
	Label(end)
}

var prefetches int // numbers the labels

// ifNear writes a jump to label that is taken if prefetchesFar is 0.
func ifNear(label string) {
	CMPB(Mem{Symbol: Symbol{Name: "\u00b7prefetchesFar"}, Base: StaticBase}, Imm(0))
	JEQ(LabelRef(label))
}

func (p *streams) prefetchAt(ahead, n int) {
	for _, w := range p {
		for i := 0; i < n; i += 64 {
			PREFETCHT0(Mem{Base: w, Disp: ahead + i})
		}
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
	MOVQ(arg("w"), p[0])
	MOVQ(arg("gap"), t)
	for i := 1; i < len(p); i++ {
		LEAQ(Mem{Base: p[i-1], Index: t, Scale: 1}, p[i])
	}
}

// advance moves the pointers by n bytes.
func (p *streams) advance(n int) {
	for _, w := range p {
		ADDQ(U32(uint32(n)), w)
	}
}

// end stores the sums and jumps to label "row" if there are more rows. It overwrites s and t.
func (p *streams) end(sums [dotStreams]Register, s, t Register) {
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
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
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
	p := gp64s()
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
		if count > 1 { // only on Intel: these loops do little but read, which AMD's processors do faster without prefetches
			ifNear("near")
			p.prefetchAt(farBytes, count*v.bytes()/2)
			Label("near")
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

// packedFormat writes the code for one block: body calls p.group for each group of values that share a scale.
type packedFormat struct {
	name          string
	values, bytes int
	unroll        int // blocks in an iteration of the loop
	body          func(p *packedBlock)
	wide          func(p *wideDot) // for products with AVX-512, in place of body
}

// packedBlock says where a block lies and what happens with its values.
type packedBlock struct {
	vec
	w, half Register // pointers to the blocks, and to a table of the values of all f16
	off     int      // offset of the block from w, in bytes
	room    Mem      // 128 bytes of the stack: 16 scales, 16 minimums
	// group handles the values of a group, the first of which has index i: floats that are exact before scaling. scale loads their scale. If
	// j > 0, minimum j-1 in room is to be subtracted from the scaled values.
	group func(i int, values []VecVirtual, scale func(dst Register), j int)
	// minimums handles the minimums of 8 groups of 32 values. If it is nil, they go to room.
	minimums func(m VecVirtual)
}

// at returns the address of byte i of the block.
func (p *packedBlock) at(i int) Mem { return Mem{Base: p.w, Disp: p.off + i} }

// halfAt broadcasts the f16 at byte i as float32.
func (p *packedBlock) halfAt(v vec, i int, dst Register) {
	t := GP64()
	MOVWQZX(p.at(i), t)
	VBROADCASTSS(Mem{Base: p.half, Index: t, Scale: 4}, dst)
}

// dwords widens a vector of bytes from i on.
func (p *packedBlock) dwords(i int, signed bool) VecVirtual {
	r := p.reg()
	if signed {
		VPMOVSXBD(p.at(i), r)
	} else {
		VPMOVZXBD(p.at(i), r)
	}
	return r
}

func (p *packedBlock) float(x VecVirtual) VecVirtual {
	VCVTDQ2PS(x, x)
	return x
}

func (p *packedBlock) shifted(x VecVirtual, right int) VecVirtual {
	r := p.reg()
	if right < 0 {
		VPSLLD(Imm(uint64(-right)), x, r)
	} else {
		VPSRLD(Imm(uint64(right)), x, r)
	}
	return r
}

// nibbles returns the low and the high nibbles of a vector of bytes, minus offset, as floats. AVX-512 looks them up in a table with a
// permutation, which reads only the lowest four bits of an index.
func (p *packedBlock) nibbles(x VecVirtual, offset int) (low, high VecVirtual) {
	if p.wide() {
		name := "nibbles"
		if offset != 0 {
			name = "signedNibbles"
		}
		table := p.table(name, offset)
		low, high = p.reg(), p.reg()
		VPERMPS(table, x, low)
		VPSRLD(Imm(4), x, high)
		VPERMPS(table, high, high)
		return low, high
	}
	high, low = p.shifted(x, 4), p.reg()
	p.and(bitsConst(15), x, low)
	if offset != 0 {
		VPSUBD(bitsConst(uint32(offset)), low, low)
		VPSUBD(bitsConst(uint32(offset)), high, high)
	}
	return p.float(low), p.float(high)
}

var nibbleTables = map[string]Mem{}

// table returns a register with the floats from -offset to 15-offset.
func (p *packedBlock) table(name string, offset int) Register {
	m, ok := nibbleTables[name]
	if !ok {
		m = GLOBL(name, 8|16)
		for i := range 16 {
			DATA(4*i, U32(math.Float32bits(float32(i-offset))))
		}
		nibbleTables[name] = m
	}
	r := Z31
	return r
}

func q8_0(p *packedBlock) {
	var values []VecVirtual
	for i := 0; i < 32; i += p.lanes {
		values = append(values, p.float(p.dwords(2+i, true)))
	}
	p.group(0, values, func(dst Register) { p.halfAt(p.vec, 0, dst) }, 0)
}

func q4_0(p *packedBlock) {
	var low, high []VecVirtual
	for i := 0; i < 16; i += p.lanes {
		l, h := p.nibbles(p.dwords(2+i, false), 8)
		low, high = append(low, l), append(high, h)
	}
	p.group(0, append(low, high...), func(dst Register) { p.halfAt(p.vec, 0, dst) }, 0)
}

// sixes returns the scales and the minimums of a block of q4_K or q5_K: eight numbers of 6 bits each. It unpacks them in general registers.
func (p *packedBlock) sixes() (s, m VecVirtual) {
	var u [3]Register
	for i := range u {
		u[i] = GP32()
		MOVL(p.at(4+4*i), u[i])
	}
	masked := func(x Register, right int, mask uint32) Register {
		r := GP32()
		MOVL(x, r)
		if right > 0 {
			SHRL(Imm(uint64(right)), r)
		}
		ANDL(U32(mask), r)
		return r
	}
	join := func(low, high Register) VecVirtual {
		x := XMM()
		l, h := low.(GPVirtual).As64(), high.(GPVirtual).As64()
		SHLQ(Imm(32), h)
		ORQ(l, h)
		VMOVQ(h, x)
		y := YMM()
		VPMOVZXBD(x, y)
		VCVTDQ2PS(y, y)
		return y
	}
	// Numbers 4 to 7 have their low four bits in the last dword and their high two bits in one of the first two.
	upper := func(right int, from Register) Register {
		r, t := masked(u[2], right, 0x0f0f0f0f), masked(from, 2, 0x30303030)
		ORL(t, r)
		return r
	}
	return join(masked(u[0], 0, 0x3f3f3f3f), upper(0, u[0])), join(masked(u[1], 0, 0x3f3f3f3f), upper(4, u[1]))
}

func q4_K(p *packedBlock) {
	s, m := p.sixes()
	d := YMM()
	p.halfAt(vec{8, ""}, 0, d)
	VMULPS(d, s, s)
	VMOVUPS(s, p.room)
	p.halfAt(vec{8, ""}, 2, d)
	VMULPS(d, m, m)
	if p.minimums != nil {
		p.minimums(m)
	} else {
		VMOVUPS(m, p.room.Offset(64))
	}
	for c := range 4 {
		var low, high []VecVirtual
		for i := 0; i < 32; i += p.lanes {
			l, h := p.nibbles(p.dwords(16+32*c+i, false), 0)
			low, high = append(low, l), append(high, h)
		}
		p.group(64*c, low, p.scale(2*c), 2*c+1)
		p.group(64*c+32, high, p.scale(2*c+1), 2*c+2)
	}
}

// scale returns a function that loads scale i of room.
func (p *packedBlock) scale(i int) func(Register) {
	return func(dst Register) { VBROADCASTSS(p.room.Offset(4*i), dst) }
}

// q6_K joins four bits and two bits of each value. With AVX-512 the six bits become the lowest bits of the float 2^23, which saves a conversion.
func q6_K(p *packedBlock) {
	d := p.reg()
	p.halfAt(p.vec, 208, d)
	for i := 0; i < 16; i += p.lanes {
		s := p.float(p.dwords(192+i, true))
		VMULPS(d, s, s)
		VMOVUPS(s, p.room.Offset(4*i))
	}
	for h := range 2 {
		for part := range 2 {
			for j := range 4 {
				var q []VecVirtual
				for i := 0; i < 16; i += p.lanes {
					at := 16*part + i
					u := p.dwords(64*h+32*(j%2)+at, false)
					if j > 1 {
						VPSRLD(Imm(4), u, u)
					}
					q = append(q, p.six(u, p.shifted(p.dwords(128+32*h+at, false), 2*j-4)))
				}
				p.group(128*h+32*j+16*part, q, p.scale(8*h+2*j+part), 0)
			}
		}
	}
}

// six returns the low four bits of u joined with bits 4 and 5 of t, minus 32, as floats. It may overwrite t.
func (p *packedBlock) six(u, t VecVirtual) VecVirtual {
	if p.wide() {
		VPTERNLOGD(Imm(0xd8), Z30, u, t)   // bits of Z30 (0x0f) from u, others from t
		VPTERNLOGD(Imm(0xea), Z28, Z29, t) // t & Z29 (0x3f) | Z28 (2^23)
		VSUBPS(Z27, t, t)                  // 2^23 + 32
		return t
	}
	l := p.reg()
	p.and(bitsConst(15), u, l)
	p.and(bitsConst(0x30), t, t)
	p.or(l, t, t)
	VPSUBD(bitsConst(32), t, t)
	return p.float(t)
}

// constants loads the constants of nibbles and six into registers.
func (p *packedBlock) constants(f packedFormat) {
	if !p.wide() {
		return
	}
	switch f.name {
	case "Q4_0":
		p.table("signedNibbles", 8)
		VMOVUPS(nibbleTables["signedNibbles"], Z31)
	case "Q4_K":
		p.table("nibbles", 0)
		VMOVUPS(nibbleTables["nibbles"], Z31)
	case "Q6_K":
		VMOVUPS(bitsConst(0x0f), Z30)
		VMOVUPS(bitsConst(0x3f), Z29)
		VMOVUPS(bitsConst(0x4b000000), Z28)
		VMOVUPS(f32(1<<23+32), Z27)
	}
}

// unrolled writes a loop over n > 0 blocks. step writes the code for `unroll` blocks, or for one of those that are left over at the end.
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

// wideDot writes the product of a block of weights and its activations, with AVX-512. On Zen 4, an instruction on 64 bytes occupies a unit for
// two cycles, and only one load of 64 bytes starts per cycle. Therefore the bodies avoid shifts, and share loaded activations between rows or
// groups. High nibbles are not shifted down: they count as 16 times their value.
type wideDot struct {
	*packedBlock
	row, block int
	values     int           // in a block
	px, ps     Register      // pointers to the activations and their sums
	acc        VecVirtual    // sums of the row
	low        VecVirtual    // for q4_K: sums of minimums, which are subtracted at the end
	x          [2]VecVirtual // the activations of a block of 32; all rows share them
}

// wideConstants loads the constants of a body into registers: Z29 is for magic, the others are tables, masks and offsets.
func (p *wideDot) wideConstants(name string) {
	switch name {
	case "Q4_0", "Q4_K":
		offset := 8
		if name == "Q4_K" {
			offset = 0
		}
		VMOVUPS(bitsConst(0xf0), Z30)
		VMOVUPS(bitsConst(0x4b000000), Z29)
		VMOVUPS(f32(1<<23+16*float64(offset)), Z28)
		table := GLOBL("sixteenfold"+name, 8|16)
		for i := range 16 {
			DATA(4*i, U32(math.Float32bits(float32(16*(i-offset)))))
		}
		VMOVUPS(table, Z31)
	case "Q6_K":
		VMOVUPS(bitsConst(0x0f), Z31)
		VMOVUPS(bitsConst(0x3f), Z30)
		VMOVUPS(bitsConst(0x4b000000), Z29)
		VMOVUPS(f32(1<<23+32), Z28)
		VMOVUPS(bitsConst(0xff), Z27)
		VMOVUPS(bitsConst(0x3f0), Z26)
		VMOVUPS(f32(1<<23+16*32), Z25)
	}
}

// magic converts integers to floats without a conversion: it makes t & mask the lowest bits of the float 2^23 and subtracts offset, which
// includes the 2^23. It overwrites t.
func (p *wideDot) magic(t VecVirtual, mask, offset Register) VecVirtual {
	VPTERNLOGD(Imm(0xea), Z29, mask, t) // t & mask | Z29 (2^23)
	VSUBPS(offset, t, t)
	return t
}

// load loads x at the first row.
func (p *wideDot) load() {
	if p.row > 0 {
		return
	}
	for i := range p.x {
		p.x[i] = p.reg()
		VMOVUPS(p.activations(16*i), p.x[i])
	}
}

func (p *wideDot) activations(i int) Mem { return Mem{Base: p.px, Disp: 4 * (p.block*p.values + i)} }

// add adds the product of 32 values with x, scaled by the f16 at byte 0, to the sums.
func (p *wideDot) add(values [2]VecVirtual) {
	t, half := values[0], GP64()
	VMULPS(p.x[0], t, t)
	VFMADD231PS(p.x[1], values[1], t)
	MOVWQZX(p.at(0), half)
	VFMADD231PS_BCST(Mem{Base: p.half, Index: half, Scale: 4}, t, p.acc)
}

func (p *wideDot) q8_0() {
	p.load()
	p.add([2]VecVirtual{p.float(p.dwords(2, true)), p.float(p.dwords(18, true))})
}

// nibbles returns the low and the high nibbles of 16 bytes as floats: 16*(nibble - the format's offset).
func (p *wideDot) nibbles(i int) (low, high VecVirtual) {
	high, low = p.dwords(i, false), p.reg()
	VPERMPS(Z31, high, low) // a table, indexed by the lowest four bits
	return low, p.magic(high, Z30, Z28)
}

func (p *wideDot) q4_0() {
	p.load()
	low, high := p.nibbles(2)
	p.add([2]VecVirtual{low, high})
}

func (p *wideDot) q4_K() {
	s, m := p.sixes()
	d := YMM()
	p.halfAt(vec{8, ""}, 0, d)
	VMULPS(d, s, s)
	VMOVUPS(s, p.room)
	p.halfAt(vec{8, ""}, 2, d)
	VMULPS(d, m, m)
	VFMADD231PS(Mem{Base: p.ps, Disp: 32 * p.block}, m, p.low)
	for c := range 4 {
		low0, high0 := p.nibbles(16 + 32*c)
		low1, high1 := p.nibbles(32 + 32*c)
		for h, q := range [2][2]VecVirtual{{low0, low1}, {high0, high1}} {
			VMULPS(p.activations(64*c+32*h), q[0], q[0])
			VFMADD231PS(p.activations(64*c+32*h+16), q[1], q[0])
			VFMADD231PS_BCST(p.room.Offset(4*(2*c+h)), q[0], p.acc)
		}
	}
}

// q6_K has one byte with the upper two bits of four values, those of value j at bits 2j. Shifted left by 4 and by 2, the bits of values 0 and
// 1 lie above their low nibbles. The bits of values 2 and 3 then lie above their high nibbles.
func (p *wideDot) q6_K() {
	s := p.float(p.dwords(192, true))
	d := p.reg()
	p.halfAt(p.vec, 208, d)
	VMULPS(d, s, s)
	VMULPS(sixteenthScales(), s, s)
	VMOVUPS(s, p.room)
	for h := range 2 {
		for part := range 2 {
			upper := p.dwords(128+32*h+16*part, false)
			above := [2]VecVirtual{p.reg(), p.reg()}
			VPSLLD(Imm(4), upper, above[0])
			VPSLLD(Imm(2), upper, above[1])
			for j := range 2 {
				low := p.dwords(64*h+32*j+16*part, false)
				high := p.reg()
				VMOVAPS(low, high)
				VPTERNLOGD(Imm(0xe4), Z31, above[j], low) // bits of Z31 from low, others from above
				VPTERNLOGD(Imm(0xe4), Z27, above[j], high)
				for k, q := range [2]VecVirtual{p.magic(low, Z30, Z28), p.magic(high, Z26, Z25)} {
					VMULPS(p.activations(128*h+32*(j+2*k)+16*part), q, q)
					VFMADD231PS_BCST(p.room.Offset(4*(8*h+2*(j+2*k)+part)), q, p.acc)
				}
			}
		}
	}
}

var q6Scales Mem

// sixteenthScales returns factors for the scales: 1/16 for groups of high nibbles, 1 for the others.
func sixteenthScales() Mem {
	if q6Scales.Base == nil {
		q6Scales = GLOBL("sixteenthScales", 8|16)
		for i := range 16 {
			DATA(4*i, U32(math.Float32bits([]float32{1, 1.0 / 16}[i/4%2])))
		}
	}
	return q6Scales
}

// packedDot writes the product of a matrix of packed weights and a vector.
func (v vec) packedDot(f packedFormat) {
	name := "dot" + f.name + v.name
	TEXT(name, NOSPLIT, "func("+fmt.Sprintf(dotArgs, "*byte")+"x, sums, half *float32, blocks int)")
	Doc(name+dotDoc, "blocks is the number of blocks in a row. sums[j] is the sum of x[32*j : 32*j+32]. lead, gap and stride may be 0. rows, blocks > 0.")
	Pragma("noescape")
	half, px, n := Load(Param("half"), GP64()), GP64(), GP64()
	w := gp64s()
	p := &packedBlock{vec: v, half: half, room: AllocLocal(128)}
	wide := &wideDot{packedBlock: p, px: px, values: f.values}
	if v.wide() {
		wide.wideConstants(f.name)
	} else {
		p.constants(f)
	}
	hasMinimums := f.name == "Q4_K"
	var ps Register
	var acc, low [dotStreams]VecVirtual
	for i := range acc {
		acc[i] = v.reg()
		if hasMinimums {
			low[i] = YMM()
		}
	}
	if hasMinimums {
		ps = GP64()
	}
	block, row := 0, 0
	p.group = func(i int, values []VecVirtual, scale func(Register), _ int) {
		at := func(k int) Mem { return Mem{Base: px, Disp: 4 * (block*f.values + i + k*v.lanes)} }
		t := values[0]
		VMULPS(at(0), t, t)
		for k, x := range values[1:] {
			VFMADD231PS(at(k+1), x, t)
		}
		s := v.reg()
		scale(s)
		VFMADD231PS(s, t, acc[row])
	}
	p.minimums = func(m VecVirtual) { VFMADD231PS(Mem{Base: ps, Disp: 32 * block}, m, low[row]) }
	Label("row")
	w.start(n)
	MOVQ(arg("x"), px)
	MOVQ(arg("blocks"), n)
	for i := range acc {
		v.clear(acc[i])
	}
	if hasMinimums {
		MOVQ(arg("sums"), ps)
		for _, l := range low {
			VXORPS(l, l, l)
		}
	}
	unrolled(n, f.unroll, func(blocks int) {
		for block = range blocks {
			p.off = block * f.bytes
			for row = range w {
				p.w = w[row]
				if v.wide() {
					wide.row, wide.block, wide.acc, wide.low, wide.ps = row, block, acc[row], low[row], ps
					f.wide(wide)
				} else {
					f.body(p)
				}
			}
		}
		w.prefetch(blocks * f.bytes)
		w.advance(blocks * f.bytes)
		ADDQ(U32(uint32(4*blocks*f.values)), px)
		if hasMinimums {
			ADDQ(Imm(32), ps)
		}
	})
	var sums [dotStreams]Register
	for i := range sums {
		sum := v.lane(acc[i])
		if v.wide() && (f.name == "Q4_0" || f.name == "Q4_K") {
			VMULSS(f32(1.0/16), sum.AsX(), sum.AsX())
		}
		if hasMinimums {
			VSUBSS(vec{8, ""}.lane(low[i]), sum, sum)
		}
		sums[i] = sum.AsX()
	}
	w.end(sums, n, px)
}

// packedDecode writes the decoder of a format.
func (v vec) packedDecode(f packedFormat) {
	name := "decode" + f.name + v.name
	TEXT(name, NOSPLIT, "func(dst *float32, w *byte, half *float32, blocks int)")
	Doc(name + " sets dst to the values of blocks, each rounded once. blocks > 0.")
	Pragma("noescape")
	dst, w, half, n := Load(Param("dst"), GP64()), Load(Param("w"), GP64()), Load(Param("half"), GP64()), Load(Param("blocks"), GP64())
	p := &packedBlock{vec: v, w: w, half: half, room: AllocLocal(128)}
	p.constants(f)
	p.group = func(i int, values []VecVirtual, scale func(Register), j int) {
		s, m := v.reg(), v.reg()
		scale(s)
		if j > 0 {
			VBROADCASTSS(p.room.Offset(64+4*(j-1)), m)
		}
		for k, x := range values {
			if j > 0 {
				VFMSUB213PS(m, s, x)
			} else {
				VMULPS(s, x, x)
			}
			VMOVUPS(x, Mem{Base: dst, Disp: 4 * (i + k*v.lanes)})
		}
	}
	Label("blocks")
	f.body(p)
	ADDQ(U32(uint32(f.bytes)), w)
	ADDQ(U32(uint32(4*f.values)), dst)
	DECQ(n)
	JNE(LabelRef("blocks"))
	VZEROUPPER()
	RET()
}
