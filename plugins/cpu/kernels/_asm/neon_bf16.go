package main

// Products of bfloat16, for processors with BFMMLA, which multiplies two rows of four elements of A by two columns of
// B. That is twice the products of the instruction that takes pairs. So a packed panel interleaves two rows of pairs:
// for each column, it has elements 4i to 4i+3 along k in 64 bits. If the number of rows of pairs is odd, the last one
// stays as it is.

// neonBF16 writes the kernels and the packing.
func neonBF16(file *neonFile) {
	for _, width := range []int{16, 8} {
		for rows := 1; rows <= 6; rows++ {
			neonHalfProduct(file, rows, width)
		}
	}
	neonHalfPeak(file)
	neonPack(file)
	neonMap(file, "roundBF16", (*neonFunc).roundBF16)
}

func neonHalfProduct(file *neonFile, rows, width int) {
	t := newNEONTile(file, "pairs", rows, width)
	sums := make([][]vreg, (rows+1)/2) // each register has the sums of two rows and two columns
	for i := range sums {
		sums[i] = make([]vreg, width/2)
		for j := range sums[i] {
			sums[i][j] = t.zero()
		}
	}
	// quad adds the products of two rows of pairs. A single last row of A is followed by zeros.
	quad := func(u int) {
		as := make([]vreg, len(sums))
		for i := range as {
			as[i] = t.reg()
		}
		t.load(t.a, u*rows*8, as[:rows/2]...)
		if rows%2 == 1 {
			t.ins("FMOVD %v(%v), F%v", u*rows*8+rows/2*16, t.a, as[rows/2])
		}
		for j := 0; j < width/2; j += 2 {
			b := t.loadPair(t.b, u*width*8+j*16)
			for i, a := range as {
				for h := range b {
					t.word(0x6e40ec00, "bfmmla v%d.4s, v%d.8h, v%d.8h", sums[i][j+h], a, b[h])
				}
			}
		}
	}
	const unroll = 2
	n := t.counter
	t.ins("LSR $1, %v, %v", t.k, n)
	t.ins("SUBS $%v, %v, %v", unroll, n, n)
	t.ins("BLT rest")
	t.label("loop")
	for u := range unroll {
		quad(u)
	}
	t.next(2 * unroll)
	t.ins("SUBS $%v, %v, %v", unroll, n, n)
	t.back("BGE", "loop")
	t.label("rest")
	t.ins("ADDS $%v, %v, %v", unroll, n, n)
	t.ins("BEQ quads")
	quad(0) // at most one, as unroll is 2
	t.next(2)
	t.label("quads")
	for _, s := range sums {
		var low, high []vreg
		for j := 0; j < width/2; j += 2 {
			l, h := t.reg(), t.reg()
			t.into("trn1d", l, s[j], s[j+1])
			t.into("trn2d", h, s[j], s[j+1])
			low, high = append(low, l), append(high, h)
		}
		t.acc = append(t.acc, low, high)
	}
	t.ins("TBZ $0, %v, even", t.k)
	t.step(0, t.column(), t.pairsByElement)
	t.label("even")
	t.finish()
}

// neonHalfPeak writes the loop that measures the peak. It has two sets of sums, since one does not cover the latency.
func neonHalfPeak(file *neonFile) {
	f := file.add("pairsPeak", "n int", "",
		"does as many products as 12*n of vectors of eight pairs, on registers; n > 0.")
	n := f.param("n")
	x, y, acc := f.zero(), f.zero(), flat(f.pairs(12)...)
	for _, s := range acc {
		f.clear(s)
	}
	f.label("loop")
	for half := range 2 {
		for _, s := range acc[12*half:][:12] {
			f.word(0x6e40ec00, "bfmmla v%d.4s, v%d.8h, v%d.8h", s, x, y)
		}
		f.ins("SUBS $1, %v, %v", n, n)
		if half == 0 {
			f.ins("BEQ end")
		}
	}
	f.back("BNE", "loop")
	f.label("end")
	f.ret()
}

func neonPack(file *neonFile) {
	f := file.add("packBF16", "dst *float32, src *float32, width int, pairs int", "",
		"packs the rows of src[2*pairs, width], rounded to bfloat16, into dst[pairs, width]: four of them into two, as column\n"+
			"// j's four elements in words 2j and 2j+1, and the last two, if pairs is odd, into the halves of the words of one. It reads\n"+
			"// and writes vectors of eight columns, past the last one too; width, pairs > 0.")
	dst, src, width, pairs := f.param("dst"), f.param("src"), f.param("width"), f.param("pairs")
	row := []gpr{f.gpr(), f.gpr(), f.gpr(), f.gpr()}
	to, n := f.gpr(), f.gpr()
	f.ins("LSL $2, %v, %v", width, width)
	for _, rows := range []int{4, 2} {
		name, vector, end := "four", "vector4", "two"
		if rows == 2 {
			name, vector, end = "two", "vector2", "end"
		}
		f.label(name)
		f.ins("CMP $%v, %v", rows/2, pairs)
		f.ins("BLT %v", end)
		for i := range rows {
			f.ins("MOVD %v, %v", src, row[i])
			f.ins("ADD %v, %v, %v", width, src, src)
		}
		f.ins("MOVD %v, %v", dst, to)
		f.ins("MOVD %v, %v", width, n)
		f.label(vector)
		halves := make([]vec8, rows)
		for i := range halves {
			halves[i] = f.pair()
			f.ins("FLDPQ.P 32(%v), (F%v, F%v)", row[i], halves[i][0], halves[i][1])
			for _, r := range halves[i] {
				f.word(0x0ea16800, "bfcvtn v%d.4h, v%d.4s", r, r)
			}
		}
		var out []vreg
		for h := range 2 {
			low := f.reg()
			f.into("zip1h", low, halves[0][h], halves[1][h])
			if rows == 2 {
				out = append(out, low)
				continue
			}
			high, first, second := f.reg(), f.reg(), f.reg()
			f.into("zip1h", high, halves[2][h], halves[3][h])
			f.into("zip1", first, low, high)
			f.into("zip2", second, low, high)
			out = append(out, first, second)
		}
		f.store(to, 0, out...)
		f.ins("ADD $%v, %v, %v", 16*len(out), to, to)
		f.ins("SUBS $32, %v, %v", n, n)
		f.back("BGT", vector)
		for range rows / 2 {
			f.ins("ADD %v, %v, %v", width, dst, dst)
		}
		f.ins("SUB $%v, %v, %v", rows/2, pairs, pairs)
		f.back("B", name)
	}
	f.label("end")
	f.ret()
}
