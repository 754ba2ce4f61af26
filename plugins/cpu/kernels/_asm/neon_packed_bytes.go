package main

// neonPackedBytes writes products of packed weights and a vector of bytes. SDOT adds four products to a lane. Four sums
// of a lane each are joined by three pairwise additions, so that one conversion and one multiplication by a scale do
// for all.
func neonPackedBytes(file *neonFile) {
	for _, b := range []struct {
		format neonFormat
		body   func(*neonBytes)
	}{{neonFormats[0], func(p *neonBytes) { p.rowsOf32(0) }}, {neonFormats[1], func(p *neonBytes) { p.rowsOf32(4) }},
		{neonFormats[2], (*neonBytes).q4_K}, {neonFormats[3], (*neonBytes).q6_K}} {
		neonDotBytes(file, b.format, b.body)
	}
	neonRoundRow(file)
}

// neonBytes is a block of each of the rows in work.
type neonBytes struct {
	*neonBlock
	x, dx, xs gpr    // pointers to the activations, their scales and their scaled sums
	acc       []vreg // of each row, or one with a lane for each row
	nibble    vreg   // bytes 0x0f
}

// neonDotBytes writes the product of a matrix of packed weights and a vector of bytes.
func neonDotBytes(file *neonFile, format neonFormat, body func(*neonBytes)) {
	f := file.add("dotBytes"+format.name, neonDotArgs+"x *int8, dx *float32, xs *float32, blocks int", "",
		"sets dst[r+i*lead] to the dot product of x and the row at w+i*gap+r*stride, for i < 4 and r < rows.\n"+
			"// blocks is the number of blocks in a row. x has bytes, dx a scale for 32 of them, and xs their sum times the scale.\n"+
			"// lead, gap and stride may be 0. rows, blocks > 0. The processor must have SDOT.")
	p := &neonBytes{neonBlock: &neonBlock{neonFunc: f, format: format}}
	p.constants()
	if format.name == "Q4_K" {
		p.nibble = f.bits(0x0f0f0f0f)
	}
	across := format.values == 32
	p.x, p.dx, p.xs = f.gpr(), f.gpr(), f.gpr()
	p.acc = make([]vreg, neonStreams)
	if across {
		p.acc = p.acc[:1]
	}
	for i := range p.acc {
		p.acc[i] = f.reg()
	}
	p.neonRowsOf(func() {
		f.ins("MOVD %v, %v", f.place("x"), p.x)
		f.ins("MOVD %v, %v", f.place("dx"), p.dx)
		if format.lows {
			f.ins("MOVD %v, %v", f.place("xs"), p.xs)
		}
		for _, r := range p.acc {
			f.clear(r)
		}
	}, func() {
		body(p)
		f.ins("ADD $%v, %v, %v", format.values, p.x, p.x)
		f.ins("ADD $%v, %v, %v", format.values/8, p.dx, p.dx)
		if format.lows {
			f.ins("ADD $%v, %v, %v", format.values/8, p.xs, p.xs)
		}
	}, func() (sums [neonStreams]vreg) {
		for i := range sums {
			if across {
				sums[i] = f.reg()
				f.ins("VDUP V%v.S[%v], V%v.S4", p.acc[0], i, sums[i])
			} else {
				sums[i] = f.across(p.acc[i])
			}
		}
		return sums
	})
}

// sdot adds the products of four bytes to each lane of acc.
func (f *neonFunc) sdot(acc, a, b vreg) {
	f.word(0x4e809400, "sdot v%d.4s, v%d.16b, v%d.16b", acc, a, b)
}

// joined returns floats: the totals of the lanes of four registers, divided by 2^fraction.
func (f *neonFunc) joined(z []vreg, fraction uint32) vreg {
	for _, to := range [][3]int{{0, 0, 1}, {2, 2, 3}, {0, 0, 2}} {
		f.word(0x4ea0bc00, "addp v%d.4s, v%d.4s, v%d.4s", z[to[0]], z[to[1]], z[to[2]])
	}
	if fraction > 0 {
		f.fixed(scvtf, fraction, z[0])
	} else {
		f.word(0x4e21d800, "scvtf v%d.4s, v%d.4s", z[0], z[0])
	}
	return z[0]
}

func (f *neonFunc) loads(base gpr, offset, n int) []vreg {
	r := make([]vreg, n)
	for i := range r {
		r[i] = f.reg()
	}
	f.load(base, offset, r...)
	return r
}

// rowsOf32 is the product of blocks of 32 values, in a lane for each row: the integers are shifted to the left by
// fraction, as split does.
func (p *neonBytes) rowsOf32(fraction uint32) {
	x, dx := p.loads(p.x, 0, 2), p.reg()
	p.ins("FMOVS (%v), F%v", p.dx, dx)
	var z, halves []vreg
	for _, w := range p.w {
		halves = append(halves, p.reg())
		p.loadHalf(w, 0, halves[len(halves)-1])
		var bytes []vreg
		if fraction == 0 {
			bytes = []vreg{p.loadAt(w, 2), p.loadAt(w, 18)}
		} else {
			v := p.loadAt(w, 2)
			p.into("eor", v, v, p.signs)
			bytes = p.split(v)
		}
		sum := p.zero()
		for i, b := range bytes {
			p.sdot(sum, b, x[i])
		}
		z = append(z, sum)
	}
	p.into("zip1h", halves[0], halves[0], halves[1])
	p.into("zip1h", halves[2], halves[2], halves[3])
	p.into("zip1", halves[0], halves[0], halves[2])
	p.word(0x0e217800, "fcvtl v%d.4s, v%d.4h", halves[0], halves[0])
	p.mulByElement(halves[0], halves[0], dx, 0)
	p.into("fmla", p.acc[0], p.joined(z, fraction), halves[0])
}

func (p *neonBytes) q4_K() {
	dx, xs := p.loads(p.dx, 0, 2), p.loads(p.xs, 0, 2)
	var scales [][2]vreg
	for row, w := range p.w {
		s, lows := p.sixes(w)
		for i := range 2 {
			p.into("fmls", p.acc[row], lows[i], xs[i])
			p.into("fmul", s[i], s[i], dx[i])
		}
		scales = append(scales, s)
	}
	for h := range 2 {
		x := p.loads(p.x, 128*h, 8)
		for row, w := range p.w {
			var z []vreg
			for c := range 2 {
				low, high := p.zero(), p.zero()
				for i, v := range p.loads(w, 16+64*h+32*c, 2) {
					r := p.reg()
					p.into("and", r, v, p.nibble)
					p.sdot(low, r, x[4*c+i])
					p.ins("VUSHR $4, V%v.B16, V%v.B16", v, v)
					p.sdot(high, v, x[4*c+2+i])
				}
				z = append(z, low, high)
			}
			p.into("fmla", p.acc[row], p.joined(z, 0), scales[row][h])
		}
	}
}

func (p *neonBytes) q6_K() {
	var dx []vreg // of groups of 16
	for _, v := range p.loads(p.dx, 0, 2) {
		for _, zip := range []string{"zip1", "zip2"} {
			r := p.reg()
			p.into(zip, r, v, v)
			dx = append(dx, r)
		}
	}
	for row, w := range p.w {
		d, bytes := p.halfAt(w, 208), p.loadAt(w, 192)
		for h := range 2 {
			nibbles, upper := p.loads(w, 64*h, 4), p.loads(w, 128+32*h, 2)
			for _, u := range upper {
				p.into("eor", u, u, p.signs) // from q to q-32
			}
			for k := range 2 {
				var z []vreg
				for j := range 2 {
					for part, x := range p.loads(p.x, 128*h+64*k+32*j, 2) {
						v, r := nibbles[2*j+part], upper[part]
						if by := 6 - 2*(2*k+j); by > 0 {
							r = p.bytesShift(r, by)
						}
						if k == 0 {
							v = p.bytesShift(v, 4)
						} else {
							p.into("and", v, v, p.highs)
						}
						p.ins("VSRI $2, V%v.B16, V%v.B16", v, r)
						sum := p.zero()
						p.sdot(sum, r, x)
						z = append(z, sum)
					}
				}
				s := p.widened(bytes, 2*h+k, scvtf, 24)
				p.mulByElement(s, s, d, 0)
				p.into("fmul", s, s, dx[2*h+k])
				p.into("fmla", p.acc[row], p.joined(z, 2), s)
			}
		}
	}
}

// neonRoundRow writes the routine that rounds activations. Magnitudes are compared as integers, in which NaN is the
// largest.
func neonRoundRow(file *neonFile) {
	f := file.add("roundRow", "q *int8, scale *float32, sums *float32, x *float32, groups int", "",
		"rounds 32*groups activations as quant.RoundActivations does. sums[i] is the sum of q[16*i : 16*i+16]. groups > 0.")
	q, scale, sums, from, n := f.param("q"), f.param("scale"), f.param("sums"), f.param("x"), f.param("groups")
	f.useConstants()
	most, tiny, infinity := f.float(127), f.float(0x1p-100), f.bits(0x7f800000)
	f.label("group")
	x := f.loads(from, 0, 8)
	var size []vreg
	for _, v := range x {
		r := f.reg()
		f.word(0x4ea0f800, "fabs v%d.4s, v%d.4s", r, v)
		size = append(size, r)
	}
	for step := 4; step > 0; step /= 2 {
		for i := range step {
			f.word(0x6ea06400, "umax v%d.4s, v%d.4s, v%d.4s", size[i], size[i], size[i+step])
		}
	}
	max := size[0]
	f.word(0x6eb0a800, "umaxv s%d, v%d.4s", max, max)
	by, inverse, large, bad := f.reg(), f.reg(), f.reg(), f.reg()
	f.into("fdiv", by, max, most)
	f.into("fdiv", inverse, most, max)
	f.word(0x6ea03c00, "cmhs v%d.4s, v%d.4s, v%d.4s", large, max, tiny)
	f.word(0x6ea03c00, "cmhs v%d.4s, v%d.4s, v%d.4s", bad, max, infinity) // then inverse is 0 or NaN, which make q 0
	f.into("and", by, by, large)
	f.into("and", inverse, inverse, large)
	f.into("orr", by, by, bad) // all bits set are a NaN
	f.ins("FMOVS F%v, (%v)", by, scale)
	for _, v := range x {
		f.mulByElement(v, v, inverse, 0)
		f.word(0x4e21a800, "fcvtns v%d.4s, v%d.4s", v, v)
	}
	for i := range 4 {
		f.into("uzp1h", x[2*i], x[2*i], x[2*i+1])
	}
	for i := range 2 {
		bytes, sum := x[4*i], f.reg()
		f.ins("VUZP1 V%v.B16, V%v.B16, V%v.B16", x[4*i+2], bytes, bytes)
		f.ins("FMOVQ F%v, %v(%v)", bytes, 16*i, q)
		f.word(0x4e303800, "saddlv h%d, v%d.16b", sum, bytes)
		f.word(0x0f10a400, "sxtl v%d.4s, v%d.4h", sum, sum)
		f.word(0x4e21d800, "scvtf v%d.4s, v%d.4s", sum, sum)
		f.ins("FMOVS F%v, %v(%v)", sum, 4*i, sums)
	}
	for _, r := range []struct {
		p gpr
		n int
	}{{q, 32}, {scale, 4}, {sums, 8}, {from, 128}} {
		f.ins("ADD $%v, %v, %v", r.n, r.p, r.p)
	}
	f.count(n, "group")
	f.ret()
}
