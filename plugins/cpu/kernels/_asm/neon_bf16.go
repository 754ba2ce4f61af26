package main

// neonBF16 writes the products of pairs of bfloat16 for processors that have the instruction, and the packing of pairs.
func neonBF16(file *neonFile) {
	neonProducts(file, "pairs", (*neonFunc).pairsByElement)
	neonPeak(file, "pairsPeak", "products of vectors of eight pairs", func(f *neonFunc, s, x, y vreg) { f.pairsByElement(s, x, y, 0) })
	neonPairs(file)
}

func neonPairs(file *neonFile) {
	f := file.add("pairBF16", "dst *float32, src *float32, width int, pairs int", "",
		"packs rows 2i and 2i+1 of src[2*pairs, width], rounded to bfloat16, into the low and the high half of row i of\n"+
			"// dst[pairs, width]. It reads and writes whole vectors, past the last row too; width, pairs > 0.")
	dst, src, width, pairs := f.param("dst"), f.param("src"), f.param("width"), f.param("pairs")
	even, odd, to, n := f.gpr(), f.gpr(), f.gpr(), f.gpr()
	f.label("pair")
	f.ins("MOVD %v, %v", src, even)
	f.ins("ADD %v<<2, %v, %v", width, src, odd)
	f.ins("ADD %v<<2, %v, %v", width, odd, src)
	f.ins("MOVD %v, %v", dst, to)
	f.ins("MOVD %v, %v", width, n)
	f.label("vector")
	low, high := f.pair(), f.pair()
	f.ins("FLDPQ.P 32(%v), (F%v, F%v)", even, low[0], low[1])
	f.ins("FLDPQ.P 32(%v), (F%v, F%v)", odd, high[0], high[1])
	for i := range low {
		for _, r := range []vreg{low[i], high[i]} {
			f.word(0x0ea16800, "bfcvtn v%d.4h, v%d.4s", r, r)
		}
		f.into("zip1h", low[i], low[i], high[i])
	}
	f.ins("FSTPQ.P (F%v, F%v), 32(%v)", low[0], low[1], to)
	f.ins("SUBS $8, %v, %v", n, n)
	f.back("BGT", "vector")
	f.ins("ADD %v<<2, %v, %v", width, dst, dst)
	f.count(pairs, "pair")
	f.ret()
}
