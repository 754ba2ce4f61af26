package main

import "fmt"

// neonCopy writes the routines of genCopy.
func neonCopy(file *neonFile) {
	neonTranspose(file)
	neonWiden(file)
	neonNarrow(file)
	neonDotRows(file)
	neonCopyRows(file)
	neonCopyRuns(file)
}

func neonTranspose(file *neonFile) {
	f := file.add("transpose", "dst *float32, ldd int, src *float32, lds int, rows int, blocks int", "",
		"copies dst[j*ldd+i] = src[i*lds+j] for i < rows <= lanes and j < blocks*lanes. It stores whole\n"+
			"// vectors in ascending j: up to lanes-rows floats past each row of dst are overwritten with arbitrary values.")
	dst, ldd, src, lds := f.param("dst"), f.param("ldd"), f.param("src"), f.param("lds")
	rows, blocks := f.param("rows"), f.param("blocks")
	f.ins("LSL $2, %v, %v", ldd, ldd)
	f.ins("LSL $2, %v, %v", lds, lds)
	// Rows past the last one repeat it. Their lanes are never read, and nothing outside of the source is.
	at := []gpr{src}
	for i := range 7 {
		next := f.gpr()
		f.ins("SUBS $1, %v, %v", rows, rows)
		f.ins("ADD %v, %v, %v", lds, at[i], next)
		f.ins("CSEL GT, %v, %v, %v", next, at[i], next)
		at = append(at, next)
	}
	f.label("block")
	row := make([]vec8, 8)
	for i := range row {
		row[i] = f.pair()
		f.ins("FLDPQ.P 32(%v), (F%v, F%v)", at[i], row[i][0], row[i][1])
	}
	for half := range 2 {
		var low, high [4]vreg
		for i := range 4 {
			low[i], high[i] = row[i][half], row[4+i][half]
		}
		low, high = f.transpose4(low), f.transpose4(high)
		for j := range 4 {
			f.store(dst, 0, low[j], high[j])
			f.ins("ADD %v, %v, %v", ldd, dst, dst)
		}
	}
	f.count(blocks, "block")
	f.ret()
}

// transpose4 returns the columns of four rows.
func (f *neonFunc) transpose4(r [4]vreg) [4]vreg {
	op := func(name string, a, b vreg) vreg {
		v := f.reg()
		f.into(name, v, a, b)
		return v
	}
	even0, odd0 := op("trn1", r[0], r[1]), op("trn2", r[0], r[1])
	even1, odd1 := op("trn1", r[2], r[3]), op("trn2", r[2], r[3])
	return [4]vreg{op("trn1d", even0, even1), op("trn1d", odd0, odd1), op("trn2d", even0, even1),
		op("trn2d", odd0, odd1)}
}

func neonWiden(file *neonFile) {
	for _, kind := range []struct {
		name      string
		low, high uint32
		gnu       string
	}{
		{"widenF16", 0x0e217800, 0x4e217800, "fcvtl%s v%%d.4s, v%%d.%dh"},
		{"widenBF16", 0x2e613800, 0x6e613800, "shll%s v%%d.4s, v%%d.%dh, #16"},
	} {
		f := file.add(kind.name, "dst *float32, src *uint16, blocks int", "", "widens blocks*lanes elements exactly.")
		dst, src, blocks := f.param("dst"), f.param("src"), f.param("blocks")
		f.label("loop")
		x, y := f.reg(), f.pair()
		f.load(src, 0, x)
		f.word(kind.low, fmt.Sprintf(kind.gnu, "", 4), y[0], x)
		f.word(kind.high, fmt.Sprintf(kind.gnu, "2", 8), y[1], x)
		f.store(dst, 0, y[:]...)
		f.ins("ADD $16, %v, %v", src, src)
		f.ins("ADD $32, %v, %v", dst, dst)
		f.count(blocks, "loop")
		f.ret()
	}
}

func neonNarrow(file *neonFile) {
	for _, kind := range []struct {
		name      string
		low, high uint32
		gnu       string
	}{
		{"narrowF16", 0x0e216800, 0x4e216800, "fcvtn%s v%%d.%dh, v%%d.4s"},
		{"narrowBF16", 0x0f108400, 0x4f108400, "shrn%s v%%d.%dh, v%%d.4s, #16"},
	} {
		f := file.add(kind.name, "dst *uint16, src *float32, blocks int", "",
			"rounds blocks*lanes elements to the nearest, ties to even; blocks > 0.")
		dst, src, blocks := f.param("dst"), f.param("src"), f.param("blocks")
		if kind.name == "narrowBF16" {
			f.useConstants()
		}
		f.label("loop")
		x, y := f.loadPair(src, 0), f.reg()
		if kind.name == "narrowBF16" {
			x = f.roundBF16(x)
		}
		f.word(kind.low, fmt.Sprintf(kind.gnu, "", 4), y, x[0])
		f.word(kind.high, fmt.Sprintf(kind.gnu, "2", 8), y, x[1])
		f.store(dst, 0, y)
		f.ins("ADD $32, %v, %v", src, src)
		f.ins("ADD $16, %v, %v", dst, dst)
		f.count(blocks, "loop")
		f.ret()
	}
}

// neonDotRows writes the matrix-vector product, four rows at a time, which share the loads of x. The sums of a row are
// in the same order as if it were computed alone.
func neonDotRows(file *neonFile) {
	f := file.add("dotRows", "dst *float32, inc int, mat *float32, ld int, rows int, x *float32, k int", "",
		"is dst[i*inc] = sum_k mat[i*ld+k]*x[k] for i < rows; rows > 0.")
	dst, inc, mat, ld, rows := f.param("dst"), f.param("inc"), f.param("mat"), f.param("ld"), f.param("rows")
	x, k := f.gpr(), f.gpr()
	at := []gpr{f.gpr(), f.gpr(), f.gpr(), f.gpr()}
	f.ins("LSL $2, %v, %v", inc, inc)
	f.ins("LSL $2, %v, %v", ld, ld)
	for _, n := range []int{4, 1} {
		name := func(s string) string { return fmt.Sprint(s, n) }
		f.label(name("rows"))
		f.ins("CMP $%v, %v", n, rows)
		f.ins("BLT %v", name("end"))
		f.ins("MOVD %v, %v", f.place("x"), x)
		f.ins("MOVD %v, %v", f.place("k"), k)
		acc := make([][4]vreg, n)
		for i := range acc {
			f.ins("MOVD %v, %v", mat, at[i])
			f.ins("ADD %v, %v, %v", ld, mat, mat)
			for j := range acc[i] {
				acc[i][j] = f.zero()
			}
		}
		// step adds the products of 4*regs elements.
		step := func(regs int, load string, offset int) {
			read := func(from gpr) []vreg {
				var v [4]vreg
				for j := range regs {
					v[j] = f.reg()
				}
				switch regs {
				case 1:
					f.ins(load+".P %v(%v), F%v", offset, from, v[0])
				default:
					f.ins("FLDPQ 32(%v), (F%v, F%v)", from, v[2], v[3])
					f.ins("FLDPQ.P 64(%v), (F%v, F%v)", from, v[0], v[1])
				}
				return v[:regs]
			}
			right := read(x)
			for i := range acc {
				for j, left := range read(at[i]) {
					f.into("fmla", acc[i][j], left, right[j])
				}
			}
		}
		f.ins("SUBS $16, %v, %v", k, k)
		f.ins("BLT %v", name("vectors"))
		f.label(name("sixteen"))
		step(4, "", 0)
		f.ins("SUBS $16, %v, %v", k, k)
		f.back("BGE", name("sixteen"))
		f.label(name("vectors"))
		f.ins("ADDS $12, %v, %v", k, k)
		f.ins("BLT %v", name("scalars"))
		f.label(name("four"))
		step(1, "FMOVQ", 16)
		f.ins("SUBS $4, %v, %v", k, k)
		f.back("BGE", name("four"))
		f.label(name("scalars"))
		f.ins("ADDS $4, %v, %v", k, k)
		f.ins("BEQ %v", name("sum"))
		f.label(name("one"))
		step(1, "FMOVS", 4) // zeros the other lanes
		f.count(k, name("one"))
		f.label(name("sum"))
		for _, a := range acc {
			f.into("fadd", a[0], a[0], a[1])
			f.into("fadd", a[2], a[2], a[3])
			f.into("fadd", a[0], a[0], a[2])
			f.ins("FMOVS F%v, (%v)", f.across(a[0]), dst)
			f.ins("ADD %v, %v, %v", inc, dst, dst)
		}
		f.ins("SUB $%v, %v, %v", n, rows, rows)
		f.back("B", name("rows"))
		f.label(name("end"))
	}
	f.ret()
}

func neonCopyRows(file *neonFile) {
	f := file.add("copyRows", "dst *float32, ldd int, src *float32, lds int, rows int", "",
		"is dst[i*ldd:][:lanes] = src[i*lds:][:lanes] for i < rows, in ascending i; rows > 0.")
	dst, ldd, src, lds, rows := f.param("dst"), f.param("ldd"), f.param("src"), f.param("lds"), f.param("rows")
	f.ins("LSL $2, %v, %v", ldd, ldd)
	f.ins("LSL $2, %v, %v", lds, lds)
	f.label("row")
	v := f.loadPair(src, 0)
	f.store(dst, 0, v[:]...)
	f.ins("ADD %v, %v, %v", lds, src, src)
	f.ins("ADD %v, %v, %v", ldd, dst, dst)
	f.count(rows, "row")
	f.ret()
}

func neonCopyRuns(file *neonFile) {
	f := file.add("copyRuns", "dst *float32, ldd int, src *float32, at *int, rows int, runs *int, n int, wide int", "",
		"is dst[i*ldd+runs[2*j]:][:wide] = src[at[i]+runs[2*j+1]:][:wide] for i < rows and j < n, in\n"+
			"// ascending i and then j; wide is 4 or 8; rows and n > 0.")
	dst, ldd, src, at := f.param("dst"), f.param("ldd"), f.param("src"), f.param("at")
	rows, runs, n, wide := f.param("rows"), f.param("runs"), f.param("n"), f.param("wide")
	x, run, left, to, from := f.gpr(), f.gpr(), f.gpr(), f.gpr(), f.gpr()
	f.ins("LSL $2, %v, %v", ldd, ldd)
	f.ins("CMP $4, %v", wide)
	f.ins("BNE row8")
	for _, lanes := range []int{4, 8} {
		row, next := fmt.Sprint("row", lanes), fmt.Sprint("run", lanes)
		f.label(row)
		f.ins("MOVD.P 8(%v), %v", at, x)
		f.ins("ADD %v<<2, %v, %v", x, src, x)
		f.ins("MOVD %v, %v", runs, run)
		f.ins("MOVD %v, %v", n, left)
		f.label(next)
		f.ins("LDP.P 16(%v), (%v, %v)", run, to, from)
		f.ins("ADD %v<<2, %v, %v", to, dst, to)
		f.ins("ADD %v<<2, %v, %v", from, x, from)
		v := f.pair()
		f.load(from, 0, v[:lanes/4]...)
		f.store(to, 0, v[:lanes/4]...)
		f.count(left, next)
		f.ins("ADD %v, %v, %v", ldd, dst, dst)
		f.count(rows, row)
		f.ret()
	}
}
