package main

import "fmt"

// neonPackedIntegers writes the routines for prompts: blocks are unpacked to bytes once, and multiplied by all rows of
// activations.
func neonPackedIntegers(file *neonFile) {
	for _, b := range []struct {
		format neonFormat
		body   func(p *neonUnpack)
	}{{neonFormats[0], (*neonUnpack).q8_0}, {neonFormats[1], (*neonUnpack).q4_0}, {neonFormats[2], (*neonUnpack).q4_K},
		{neonFormats[3], (*neonUnpack).q6_K}} {
		neonUnpackBlocks(file, b.format, b.body)
	}
	neonIntegerProduct(file, "integers32", 32, false)
	neonIntegerProduct(file, "integers32Low", 32, true)
	neonIntegerProduct(file, "integers16", 16, false)
}

// neonUnpack unpacks a block.
type neonUnpack struct {
	*neonBlock
	q, scale, low gpr
	nibble        vreg // bytes 0x0f
}

func neonUnpackBlocks(file *neonFile, format neonFormat, body func(p *neonUnpack)) {
	f := file.add("unpack"+format.name, "q *int8, scale *float32, low *float32, w *byte, blocks int", "",
		"unpacks blocks: q to integers, scale and low to one number for each group (see integerFormat). blocks > 0.")
	p := &neonUnpack{neonBlock: &neonBlock{neonFunc: f, format: format}}
	p.q, p.scale, p.low, p.w = f.param("q"), f.param("scale"), f.param("low"), []gpr{f.param("w")}
	n := f.param("blocks")
	p.constants()
	group := 32
	switch format.name {
	case "Q4_K":
		p.nibble = f.bits(0x0f0f0f0f)
	case "Q6_K":
		group = 16
	}
	f.label("block")
	body(p)
	f.ins("ADD $%v, %v, %v", format.bytes, p.w[0], p.w[0])
	f.ins("ADD $%v, %v, %v", format.values, p.q, p.q)
	f.ins("ADD $%v, %v, %v", 4*format.values/group, p.scale, p.scale)
	if format.lows {
		f.ins("ADD $%v, %v, %v", 4*format.values/group, p.low, p.low)
	}
	f.count(n, "block")
	f.ret()
}

func (p *neonUnpack) q8_0() {
	p.store(p.q, 0, p.loadAt(p.w[0], 2), p.loadAt(p.w[0], 18))
	p.ins("FMOVS F%v, (%v)", p.halfAt(p.w[0], 0), p.scale)
}

// signedShift shifts signed bytes to the right.
func (f *neonFunc) signedShift(v vreg, by uint32) vreg {
	f.word(0x4f000400|(16-by)<<16, fmt.Sprintf("sshr v%%d.16b, v%%d.16b, #%d", by), v, v)
	return v
}

func (p *neonUnpack) q4_0() {
	v := p.loadAt(p.w[0], 2)
	p.into("eor", v, v, p.signs) // from q to q-8
	low := p.bytesShift(v, 4)
	p.store(p.q, 0, p.signedShift(low, 4), p.signedShift(v, 4))
	p.ins("FMOVS F%v, (%v)", p.halfAt(p.w[0], 0), p.scale)
}

func (p *neonUnpack) q4_K() {
	scales, lows := p.sixes(p.w[0])
	p.store(p.scale, 0, scales[:]...)
	p.store(p.low, 0, lows[:]...)
	for c := range 4 {
		high := p.loads(p.w[0], 16+32*c, 2)
		low := make([]vreg, len(high))
		for i, v := range high {
			low[i] = p.reg()
			p.into("and", low[i], v, p.nibble)
			p.ins("VUSHR $4, V%v.B16, V%v.B16", v, v)
		}
		p.store(p.q, 64*c, append(low, high...)...)
	}
}

func (p *neonUnpack) q6_K() {
	w := p.w[0]
	d, bytes := p.halfAt(w, 208), p.loadAt(w, 192)
	var scales []vreg
	for i := range 4 {
		s := p.widened(bytes, i, scvtf, 24)
		p.mulByElement(s, s, d, 0)
		scales = append(scales, s)
	}
	p.store(p.scale, 0, scales...)
	for h := range 2 {
		for part := range 2 {
			for j := range 2 {
				upper := p.loadAt(w, 128+32*h+16*part)
				nibbles := p.split(p.loadAt(w, 64*h+32*j+16*part))
				p.into("eor", upper, upper, p.signs) // from q to q-32
				for k, v := range p.sixBits(upper, nibbles, j) {
					p.store(p.q, 128*h+64*k+32*j+16*part, p.signedShift(v, 2))
				}
			}
		}
	}
}

// sdotByElement adds to each lane of acc the products of its four bytes of a and those of a lane of b.
func (f *neonFunc) sdotByElement(acc, a, b vreg, lane int) {
	f.word(0x4f80e000|laneBits(lane), fmt.Sprintf("sdot v%%d.4s, v%%d.16b, v%%d.4b[%d]", lane), acc, a, b)
}

// neonIntegerProduct writes a product of up to 16 rows and 16 columns, computed by four rows and eight columns.
func neonIntegerProduct(file *neonFile, name string, group int, lows bool) {
	minus := ""
	if lows {
		minus = " - xs*low"
	}
	f := file.add(
		name, "fours int, groups int, a *int8, b *int8, dx *float32, xs *float32, dw *float32, low *float32, c *float32, ldc int, resume int",
		"",
		"sets C, of 4*fours rows and 16 columns, to the sum over groups of dx*dw*(a·b)"+minus+".\n"+
			fmt.Sprintf(
				"// a is [groups][16 rows][%d], b [groups][%d][16 columns][4]. dx and xs are [groups][16 rows], dw and low [groups][16 columns].\n",
				group, group/4)+
			"// With resume, the result is added to C. groups > 0, 0 < fours <= 4. The processor must have SDOT.")
	b, dw, low, c, ldc, resume := f.param("b"), f.param("dw"), f.param("low"), f.param("c"), f.param("ldc"),
		f.param("resume")
	halves, fours, n := f.gpr(), f.gpr(), f.gpr()
	a4, dx4, xs4, rows := f.gpr(), f.gpr(), f.gpr(), []gpr{f.gpr(), f.gpr(), f.gpr(), f.gpr()}
	pa, pb, pdx, pdw, pxs, plow := f.gpr(), f.gpr(), f.gpr(), f.gpr(), f.gpr(), f.gpr()
	move := func(from, to any) { f.ins("MOVD %v, %v", from, to) }
	f.ins("LSL $2, %v, %v", ldc, ldc)
	move("$2", halves)
	f.label("half")
	move(f.place("fours"), fours)
	move(f.place("a"), a4)
	move(f.place("dx"), dx4)
	move(f.place("xs"), xs4)
	move(c, rows[0])
	f.label("four")
	for i := range 3 {
		f.ins("ADD %v, %v, %v", ldc, rows[i], rows[i+1])
	}
	acc := make([][2]vreg, 4)
	for i := range acc {
		acc[i] = [2]vreg{f.reg(), f.reg()}
	}
	f.ins("CBZ %v, fresh", resume)
	for i := range acc {
		f.load(rows[i], 0, acc[i][:]...)
	}
	f.ins("B begin")
	f.label("fresh")
	for _, r := range acc {
		f.clear(r[0])
		f.clear(r[1])
	}
	f.label("begin")
	move(a4, pa)
	move(b, pb)
	move(dx4, pdx)
	move(dw, pdw)
	if lows {
		move(xs4, pxs)
		move(low, plow)
	}
	move(f.place("groups"), n)
	f.label("group")
	sums := make([][2]vreg, 4)
	for i := range sums {
		sums[i] = [2]vreg{f.zero(), f.zero()}
	}
	for at := 0; at < group; at += 16 {
		var x []vreg
		for r := range acc {
			x = append(x, f.loadAt(pa, r*group+at))
		}
		for quad := range 4 {
			for h, w := range f.loads(pb, 16*at+64*quad, 2) {
				for r := range acc {
					f.sdotByElement(sums[r][h], w, x[r], quad)
				}
			}
		}
	}
	scale, by := f.loads(pdw, 0, 2), f.loadAt(pdx, 0)
	for r := range acc {
		for h := range 2 {
			t, s := f.reg(), sums[r][h]
			f.mulByElement(t, scale[h], by, r)
			f.word(0x4e21d800, "scvtf v%d.4s, v%d.4s", s, s)
			f.into("fmla", acc[r][h], s, t)
		}
	}
	if lows {
		low, by := f.loads(plow, 0, 2), f.loadAt(pxs, 0)
		for r := range acc {
			for h := range 2 {
				f.word(0x4f805000|laneBits(r), fmt.Sprintf("fmls v%%d.4s, v%%d.4s, v%%d.s[%d]", r), acc[r][h], low[h],
					by)
			}
		}
	}
	add := func(n any, to ...gpr) {
		for _, r := range to {
			f.ins("ADD %v, %v, %v", n, r, r)
		}
	}
	add(fmt.Sprintf("$%d", 16*group), pa, pb)
	add("$64", pdx, pdw)
	if lows {
		add("$64", pxs, plow)
	}
	f.count(n, "group")
	for i, r := range acc {
		f.store(rows[i], 0, r[:]...)
	}
	add(fmt.Sprintf("$%d", 4*group), a4)
	add("$16", dx4, xs4)
	f.ins("ADD %v, %v, %v", ldc, rows[3], rows[0])
	f.count(fours, "four")
	add("$32", b, dw, low, c)
	f.count(halves, "half")
	f.ret()
}
