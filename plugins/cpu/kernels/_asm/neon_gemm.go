package main

import "fmt"

// neonGemm writes the kernels that genGemm describes, for panels of 16 columns and of 8. With six rows of 16 there are 24 sums,
// four registers of B and three of A.
func neonGemm(file *neonFile) {
	neonProducts(file, "gemm", (*neonFunc).byElement)
	neonPeak(file, "fmaLoop", "multiply-adds of vectors of eight", func(f *neonFunc, s, x, y vreg) { f.into("fmla", s, x, y) })
}

// neonProducts writes a kernel for each shape; multiply is s += x * y[lane].
func neonProducts(file *neonFile, name string, multiply func(f *neonFunc, s, x, y vreg, lane int)) {
	for _, width := range []int{16, 8} {
		for rows := 1; rows <= 6; rows++ {
			neonProduct(file, name, rows, width, multiply)
		}
	}
}

// The place of a float of a row of A: a lane of a register.
type neonLane struct {
	reg  vreg
	lane int
}

func neonProduct(file *neonFile, name string, rows, width int, multiply func(f *neonFunc, s, x, y vreg, lane int)) {
	f := file.add(fmt.Sprintf("%s%dx%d", name, rows, width),
		"k int, a *float32, b *float32, c *float32, ldc int, accumulate int, bias *float32, residual *float32, ldr int", "",
		fmt.Sprintf("is the kernel for %d rows, as genGemm describes.", rows))
	k, a, b, c, ldc := f.param("k"), f.param("a"), f.param("b"), f.param("c"), f.param("ldc")
	p, n := f.gpr(), f.gpr()
	vecs := width / 4
	f.ins("LSL $2, %v, %v", ldc, ldc)
	acc := make([][]vreg, rows)
	for i := range acc {
		for range vecs {
			r := f.reg()
			f.clear(r)
			acc[i] = append(acc[i], r)
		}
	}
	// each runs through the rows of a matrix that starts at base.
	each := func(base, ld gpr, do func(at gpr, i int)) {
		f.ins("MOVD %v, %v", base, p)
		for i := range rows {
			do(p, i)
			if i < rows-1 {
				f.ins("ADD %v, %v, %v", ld, p, p)
			}
		}
	}
	// C is needed when the loop is over; by then its lines are here.
	each(c, ldc, func(at gpr, i int) { f.ins("PRFM (%v), PLDL1KEEP", at) })

	// step adds the products of one k. The rows of A are multiplied in order, so that no sum waits for the one before.
	step := func(offset int, lanes []neonLane) {
		bs := make([]vreg, vecs)
		for j := range bs {
			bs[j] = f.reg()
		}
		f.load(b, offset, bs...)
		for i, x := range lanes {
			for j := range bs {
				multiply(f, acc[i][j], bs[j], x.reg, x.lane)
			}
		}
	}
	const unroll = 4
	f.ins("SUBS $%v, %v, %v", unroll, k, k)
	f.ins("BLT rest")
	f.label("loop")
	group := 4 // as many k as fill whole registers with A
	for _, g := range []int{1, 2} {
		if rows*g%4 == 0 {
			group = g
			break
		}
	}
	for u := 0; u < unroll; u += group {
		var as []vreg
		for range rows * group / 4 {
			as = append(as, f.reg())
		}
		f.load(a, u*rows*4, as...)
		for g := range group {
			var lanes []neonLane
			for i := range rows {
				at := g*rows + i
				lanes = append(lanes, neonLane{as[at/4], at % 4})
			}
			step((u+g)*width*4, lanes)
		}
	}
	f.ins("ADD $%v, %v, %v", unroll*rows*4, a, a)
	f.ins("ADD $%v, %v, %v", unroll*width*4, b, b)
	f.ins("SUBS $%v, %v, %v", unroll, k, k)
	f.back("BGE", "loop")
	f.label("rest")
	f.ins("ADDS $%v, %v, %v", unroll, k, k)
	f.ins("BEQ done")
	f.label("single")
	// exactly the floats of a row, not one more
	var lanes []neonLane
	for at := 0; at < rows; {
		r := f.reg()
		size, load := 4, "FMOVQ"
		if left := rows - at; left < 2 {
			size, load = 1, "FMOVS"
		} else if left < 4 {
			size, load = 2, "FMOVD"
		}
		f.ins(load+" %v(%v), F%v", at*4, a, r)
		for l := range size {
			lanes = append(lanes, neonLane{r, l})
		}
		at += size
	}
	step(0, lanes)
	f.ins("ADD $%v, %v, %v", rows*4, a, a)
	f.ins("ADD $%v, %v, %v", width*4, b, b)
	f.count(k, "single")
	f.label("done")

	// The order of the additions is fixed: product, earlier blocks of k, bias, residual.
	addRow := func(at gpr, i int) {
		for j := 0; j < vecs; j += 2 {
			t := f.loadPair(at, j*16)
			f.into("fadd", acc[i][j], acc[i][j], t[0])
			f.into("fadd", acc[i][j+1], acc[i][j+1], t[1])
		}
	}
	f.ins("MOVD %v, %v", f.place("accumulate"), n)
	f.ins("CBZ %v, fresh", n)
	each(c, ldc, addRow)
	f.label("fresh")
	f.ins("MOVD %v, %v", f.place("bias"), n)
	f.ins("CBZ %v, nobias", n)
	for j := 0; j < vecs; j += 2 {
		t := f.loadPair(n, j*16)
		for i := range rows {
			f.into("fadd", acc[i][j], acc[i][j], t[0])
			f.into("fadd", acc[i][j+1], acc[i][j+1], t[1])
		}
	}
	f.label("nobias")
	f.ins("MOVD %v, %v", f.place("residual"), n)
	f.ins("CBZ %v, store", n)
	ldr := k // which has counted down
	f.ins("MOVD %v, %v", f.place("ldr"), ldr)
	f.ins("LSL $2, %v, %v", ldr, ldr)
	each(n, ldr, addRow)
	f.label("store")
	each(c, ldc, func(at gpr, i int) { f.store(at, 0, acc[i]...) })
	f.ret()
}

// neonPeak does nothing but products on registers: the peak that the kernels are measured against.
func neonPeak(file *neonFile, name, what string, multiply func(f *neonFunc, s, x, y vreg)) {
	f := file.add(name, "n int", "", "does 12*n "+what+", on registers; n > 0.")
	n := f.param("n")
	x, y := f.zero(), f.zero()
	acc := flat(f.pairs(12)...)
	for _, s := range acc {
		f.clear(s)
	}
	f.label("loop")
	for _, s := range acc {
		multiply(f, s, x, y)
	}
	f.count(n, "loop")
	f.ret()
}
