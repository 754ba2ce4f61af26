package main

import (
	"fmt"
	"strconv"
	"strings"
)

// neonPacked writes products of packed weights and a vector of floats, and decoders. The integers of 16 weights are
// kept at the top of 16 bytes, which costs few shifts: TBL then moves four bytes to the tops of four lanes, and a
// conversion from fixed point divides them by the power of two by which they are too large. Both are exact.
func neonPacked(file *neonFile) {
	for _, format := range neonFormats {
		format.dot(file)
		format.decode(file)
	}
}

// neonStreams is the number of rows that a product reads at once, like DotStreams of package stored.
const neonStreams = 4

// neonFormat writes the code for one block.
type neonFormat struct {
	name          string
	values, bytes int
	lows          bool   // the format has minimums
	convert       uint32 // conversion of the integers to floats
	fraction      uint32 // how many bits the integers are shifted to the left
	body          func(p *neonBlock)
}

const scvtf, ucvtf = 0x4f00e400, 0x6f00e400

var neonFormats = []neonFormat{
	{"Q8_0", 32, 34, false, scvtf, 24, (*neonBlock).q8_0}, {"Q4_0", 32, 18, false, scvtf, 28, (*neonBlock).q4_0},
	{"Q4_K", 256, 144, true, ucvtf, 28, (*neonBlock).q4_K}, {"Q6_K", 256, 210, false, scvtf, 26, (*neonBlock).q6_K},
}

// neonBlock is a block of each of the rows in work.
type neonBlock struct {
	*neonFunc
	format neonFormat
	w      []gpr   // pointers to the blocks
	index  [4]vreg // operands of TBL: number i moves bytes 4i to 4i+3 to the tops of four lanes
	highs  vreg    // bytes 0xf0, for formats of nibbles
	signs  vreg    // bytes that turn unsigned integers into signed ones
	scales [][2]vreg
	load   func(at ...int) [][4]vreg                                 // activations from index `at` on; nil to decode
	add    func(row, at int, x [4]vreg, bytes, scale vreg, lane int) // handles 16 values from index `at` on
	// handles the minimums of the 8 groups of a block
	lessLows  func(row int, low [2]vreg)
	beginLows func() // is called before lessLows
}

// constants loads what all blocks need.
func (p *neonBlock) constants() {
	p.useConstants()
	for i := range p.index {
		at := 4 * uint32(i)
		p.index[i] = p.lanes(
			[4]uint32{at<<24 | 0xffffff, (at+1)<<24 | 0xffffff, (at+2)<<24 | 0xffffff, (at+3)<<24 | 0xffffff})
	}
	if p.format.name != "Q8_0" {
		p.highs = p.bits(0xf0f0f0f0)
	}
	switch p.format.name {
	case "Q4_0":
		p.signs = p.bits(0x88888888)
	case "Q6_K":
		p.signs = p.bits(0xaaaaaaaa)
	}
}

// tbl returns the bytes of v that index selects, and 0 for an index of 255.
func (f *neonFunc) tbl(v, index vreg) vreg {
	r := f.reg()
	f.ins("VTBL V%v.B16, [V%v.B16], V%v.B16", index, v, r)
	return r
}

// bytesShift returns bytes shifted to the left or, if by is negative, to the right.
func (f *neonFunc) bytesShift(v vreg, by int) vreg {
	r := f.reg()
	if by < 0 {
		f.ins("VUSHR $%v, V%v.B16, V%v.B16", -by, v, r)
	} else {
		f.ins("VSHL $%v, V%v.B16, V%v.B16", by, v, r)
	}
	return r
}

// fixed converts lanes from fixed point in place.
func (f *neonFunc) fixed(convert, fraction uint32, r vreg) {
	f.word(convert|(64-fraction)<<16,
		fmt.Sprintf("%s v%%d.4s, v%%d.4s, #%d", map[uint32]string{scvtf: "scvtf", ucvtf: "ucvtf"}[convert], fraction),
		r, r)
}

// widened returns floats of bytes 4i to 4i+3 of v.
func (p *neonBlock) widened(v vreg, i int, convert, fraction uint32) vreg {
	r := p.tbl(v, p.index[i])
	p.fixed(convert, fraction, r)
	return r
}

// loadAt loads a register from an address that need not be aligned.
func (f *neonFunc) loadAt(base gpr, offset int) vreg {
	r := f.reg()
	f.ins("FMOVQ %v(%v), F%v", offset, base, r)
	return r
}

// halfAt loads an f16 and widens it. The result is in lane 0.
func (f *neonFunc) halfAt(base gpr, offset int) vreg {
	r := f.reg()
	f.loadHalf(base, offset, r)
	f.word(0x1ee24000, "fcvt s%d, h%d", r, r)
	return r
}

// loadHalf loads 16 bits. Go's assembler lacks this instruction.
func (f *neonFunc) loadHalf(base gpr, offset int, r vreg) {
	n := number(base)
	f.word(0x7d400000|uint32(offset)/2<<10|n<<5, fmt.Sprintf("ldr h%%d, [x%d, #%d]", n, offset), r)
}

// mulByElement is dst = a * b[lane].
func (f *neonFunc) mulByElement(dst, a, b vreg, lane int) {
	f.word(0x4f809000|laneBits(lane), fmt.Sprintf("fmul v%%d.4s, v%%d.4s, v%%d.s[%d]", lane), dst, a, b)
}

// runs handles runs of 16 values. bytes returns their integers in a row, scale the register and lane of the scale of
// run i.
func (p *neonBlock) runs(at []int, bytes func(row int) []vreg, scale func(row, i int) (vreg, int)) {
	x := make([][4]vreg, len(at))
	if p.load != nil {
		x = p.load(at...)
	}
	for row := range p.w {
		for i, v := range bytes(row) {
			s, lane := scale(row, i)
			p.add(row, at[i], x[i], v, s, lane)
		}
	}
}

func (p *neonBlock) q8_0() {
	var s vreg
	p.runs([]int{0, 16}, func(row int) []vreg {
		s = p.halfAt(p.w[row], 0)
		return []vreg{p.loadAt(p.w[row], 2), p.loadAt(p.w[row], 18)}
	}, func(int, int) (vreg, int) { return s, 0 })
}

// split returns the low and the high nibbles of v, each at the top of a byte. It overwrites v.
func (p *neonBlock) split(v vreg) []vreg {
	low := p.bytesShift(v, 4)
	p.into("and", v, v, p.highs)
	return []vreg{low, v}
}

func (p *neonBlock) q4_0() {
	var s vreg
	p.runs([]int{0, 16}, func(row int) []vreg {
		s = p.halfAt(p.w[row], 0)
		v := p.loadAt(p.w[row], 2)
		p.into("eor", v, v, p.signs) // from q to q-8
		return p.split(v)
	}, func(int, int) (vreg, int) { return s, 0 })
}

// sixes returns the scales and the minimums of a block of Q4_K, as floats: eight numbers of 6 bits each, in bytes 4
// to 15. The first four scales are in the low bits of bytes 4 to 7, and the first four minimums in those of bytes 8
// to 11. The others have their low four bits in bytes 12 to 15, and their high two bits in those of the first.
func (p *neonBlock) sixes(w gpr) (scales, lows [2]vreg) {
	v, d, joined := p.loadAt(w, 0), p.reg(), p.reg()
	p.word(0x0e217800, "fcvtl v%d.4s, v%d.4h", d, v) // the factors of scales and minimums
	low := p.tbl(v, p.lanes([4]uint32{0x07060504, 0x0f0e0d0c, 0x0b0a0908, 0x0f0e0d0c}))
	p.word(0x6e204400, "ushl v%d.16b, v%d.16b, v%d.16b", low, low, p.lanes([4]uint32{0, 0, 0, 0xfcfcfcfc})) // by -4
	p.into("and", low, low, p.lanes([4]uint32{0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f}))
	high := p.bytesShift(p.tbl(v, p.lanes([4]uint32{^uint32(0), 0x07060504, ^uint32(0), 0x0b0a0908})), -2)
	p.into("and", high, high, p.bits(0x30303030))
	p.into("orr", joined, low, high)
	for i := range 2 {
		scales[i], lows[i] = p.widened(joined, i, ucvtf, 24), p.widened(joined, 2+i, ucvtf, 24)
		p.mulByElement(scales[i], scales[i], d, 0)
		p.mulByElement(lows[i], lows[i], d, 1)
	}
	return scales, lows
}

func (p *neonBlock) q4_K() {
	p.beginLows()
	p.scales = nil
	for row, w := range p.w {
		scales, lows := p.sixes(w)
		p.lessLows(row, lows)
		p.scales = append(p.scales, scales)
	}
	for i := range 8 { // 16 bytes hold the halves of two groups
		at := i/2*64 + i%2*16
		p.runs([]int{at, at + 32}, func(row int) []vreg {
			return p.split(p.loadAt(p.w[row], 16+16*i))
		}, func(row, j int) (vreg, int) { return p.scales[row][i/4], i/2%2*2 + j })
	}
}

// q6_K has 16 groups of 16 values. A byte of the upper part has bits 4 and 5 of four values, 32 values apart.
func (p *neonBlock) q6_K() {
	for h := range 2 {
		p.scales = nil
		for _, w := range p.w {
			d, bytes := p.halfAt(w, 208), p.reg()
			p.ins("FMOVD %v(%v), F%v", 192+8*h, w, bytes)
			s := [2]vreg{p.widened(bytes, 0, scvtf, 24), p.widened(bytes, 1, scvtf, 24)}
			for _, r := range s {
				p.mulByElement(r, r, d, 0)
			}
			p.scales = append(p.scales, s)
		}
		for i := range 4 {
			part, j := i/2, i%2
			at := 128*h + 32*j + 16*part
			p.runs([]int{at, at + 64}, func(row int) []vreg {
				upper := p.loadAt(p.w[row], 128+32*h+16*part)
				nibbles := p.split(p.loadAt(p.w[row], 64*h+32*j+16*part))
				p.into("eor", upper, upper, p.signs) // from q to q-32
				return p.sixBits(upper, nibbles, j)
			}, func(row, k int) (vreg, int) { return p.scales[row][k], 2*j + part })
		}
	}
}

// sixBits joins bits 2j and 2j+1 of upper with the first nibbles, and bits 2j+4 and 2j+5 with the second, at the tops
// of bytes.
func (p *neonBlock) sixBits(upper vreg, nibbles []vreg, j int) (joined []vreg) {
	for k, v := range nibbles {
		r := upper
		if by := 6 - 2*j - 4*k; by > 0 {
			r = p.bytesShift(upper, by)
		}
		p.ins("VSRI $2, V%v.B16, V%v.B16", v, r)
		joined = append(joined, r)
	}
	return joined
}

// neonDotArgs are the arguments of products that read neonStreams rows at once.
const neonDotArgs = "dst *float32, lead int, w *byte, gap int, stride int, rows int, "

// neonRowsOf writes the loops of a product over rows and blocks. begin runs before each row, block for each block, and
// end returns the sums.
func (p *neonBlock) neonRowsOf(begin func(), block func(), end func() [neonStreams]vreg) {
	dst, lead, first, gap, stride, rows := p.param("dst"), p.param("lead"), p.param("w"), p.param("gap"),
		p.param("stride"), p.param("rows")
	n, to := p.gpr(), p.gpr()
	p.w = nil
	for range neonStreams {
		p.w = append(p.w, p.gpr())
	}
	p.label("row")
	p.ins("MOVD %v, %v", first, p.w[0])
	for i := 1; i < neonStreams; i++ {
		p.ins("ADD %v, %v, %v", gap, p.w[i-1], p.w[i])
	}
	begin()
	p.ins("MOVD %v, %v", p.place("blocks"), n)
	p.label("block")
	block()
	for _, w := range p.w {
		p.ins("ADD $%v, %v, %v", p.format.bytes, w, w)
	}
	p.count(n, "block")
	p.ins("MOVD %v, %v", dst, to)
	for _, sum := range end() {
		p.ins("FMOVS F%v, (%v)", sum, to)
		p.ins("ADD %v<<2, %v, %v", lead, to, to)
	}
	p.ins("ADD $4, %v, %v", dst, dst)
	p.ins("ADD %v, %v, %v", stride, first, first)
	p.count(rows, "row")
	p.ret()
}

// dot writes the product of a matrix of packed weights and a vector.
func (format neonFormat) dot(file *neonFile) {
	f := file.add("dot"+format.name, neonDotArgs+"x *float32, sums *float32, blocks int", "",
		"sets dst[r+i*lead] to the dot product of x and the row at w+i*gap+r*stride, for i < 4 and r < rows.\n"+
			"// blocks is the number of blocks in a row. sums[j] is the sum of x[32*j : 32*j+32]. lead, gap and stride may be 0. rows, blocks > 0.")
	p := &neonBlock{neonFunc: f, format: format}
	p.constants()
	px, ps := f.gpr(), f.gpr()
	var acc [neonStreams]vreg
	for i := range acc {
		acc[i] = f.reg()
	}
	p.load = func(at ...int) [][4]vreg {
		x := make([][4]vreg, len(at))
		for i := range x {
			for j := range x[i] {
				x[i][j] = f.reg()
			}
			f.load(px, 4*at[i], x[i][:]...)
		}
		return x
	}
	p.add = func(row, _ int, x [4]vreg, bytes, scale vreg, lane int) {
		var sum vreg
		for i := range x {
			v := p.widened(bytes, i, format.convert, format.fraction)
			if i == 0 {
				f.into("fmul", v, v, x[i])
				sum = v
			} else {
				f.into("fmla", sum, v, x[i])
			}
		}
		f.byElement(acc[row], sum, scale, lane)
	}
	var s [2]vreg
	p.beginLows = func() {
		s = [2]vreg{f.reg(), f.reg()}
		f.load(ps, 0, s[:]...)
	}
	p.lessLows = func(row int, low [2]vreg) {
		for i := range low {
			f.into("fmls", acc[row], low[i], s[i])
		}
	}
	p.neonRowsOf(func() {
		f.ins("MOVD %v, %v", f.place("x"), px)
		if format.lows {
			f.ins("MOVD %v, %v", f.place("sums"), ps)
		}
		for _, r := range acc {
			f.clear(r)
		}
	}, func() {
		format.body(p)
		f.ins("ADD $%v, %v, %v", 4*format.values, px, px)
		if format.lows {
			f.ins("ADD $32, %v, %v", ps, ps)
		}
	}, func() (sums [neonStreams]vreg) {
		for i, r := range acc {
			sums[i] = f.across(r)
		}
		return sums
	})
}

// decode writes the decoder of a format.
func (format neonFormat) decode(file *neonFile) {
	f := file.add("decode"+format.name, "dst *float32, w *byte, blocks int", "",
		"sets dst to the values of blocks, each rounded once. blocks > 0.")
	p := &neonBlock{neonFunc: f, format: format}
	dst, n := f.param("dst"), f.gpr()
	p.w = []gpr{f.param("w")}
	f.ins("MOVD %v, %v", f.place("blocks"), n)
	p.constants()
	var lows [2]vreg
	p.beginLows = func() {}
	p.lessLows = func(_ int, low [2]vreg) { lows = low }
	p.add = func(_, at int, _ [4]vreg, bytes, scale vreg, lane int) {
		var values []vreg
		for i := range 4 {
			v := p.widened(bytes, i, format.convert, format.fraction)
			f.mulByElement(v, v, scale, lane)
			values = append(values, v)
		}
		if format.lows {
			low := f.reg()
			f.ins("VDUP V%v.S[%v], V%v.S4", lows[at/128], at/32%4, low)
			for _, v := range values {
				f.into("fsub", v, v, low)
			}
		}
		f.store(dst, 4*at, values...)
	}
	f.label("block")
	format.body(p)
	f.ins("ADD $%v, %v, %v", 4*format.values, dst, dst)
	f.ins("ADD $%v, %v, %v", format.bytes, p.w[0], p.w[0])
	f.count(n, "block")
	f.ret()
}

// number returns the number of a general register.
func number(r gpr) uint32 {
	n, err := strconv.ParseUint(strings.TrimPrefix(string(r), "R"), 10, 5)
	if err != nil {
		panic(err)
	}
	return uint32(n)
}
