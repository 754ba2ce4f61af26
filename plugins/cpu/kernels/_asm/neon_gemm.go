package main

import "fmt"

// neonGemm writes the kernels that genGemm describes, for panels of 16 columns and of 8. With six rows of 16 there are
// 24 sums, four registers of B and three of A.
func neonGemm(file *neonFile) {
	for _, width := range []int{16, 8} {
		for rows := 1; rows <= 6; rows++ {
			neonProduct(file, rows, width)
		}
	}
	f := file.add(
		"fmaLoop", "n int", "",
		"does 12*n multiply-adds of vectors of eight, on registers: the peak that the kernels are measured against; n > 0.")
	n := f.param("n")
	x, y, acc := f.zero(), f.zero(), flat(f.pairs(12)...)
	for _, s := range acc {
		f.clear(s)
	}
	f.label("loop")
	for _, s := range acc {
		f.into("fmla", s, x, y)
	}
	f.count(n, "loop")
	f.ret()
}

// neonTile is a kernel under construction.
type neonTile struct {
	*neonFunc
	rows, width      int
	k, a, b, c, ldc  gpr
	address, counter gpr      // free for any use
	acc              [][]vreg // [rows][width/4], once they are in this order
}

// neonLane is where a float of a row of A is: a lane of a register.
type neonLane struct {
	reg  vreg
	lane int
}

func newNEONTile(file *neonFile, name string, rows, width int) *neonTile {
	f := file.add(fmt.Sprintf("%s%dx%d", name, rows, width),
		"k int, a *float32, b *float32, c *float32, ldc int, accumulate int, bias *float32, residual *float32, ldr int",
		"",
		fmt.Sprintf("is the kernel for panels of A with %d rows, see genGemm in _asm/gemm.go.", rows))
	t := &neonTile{f, rows, width, f.param("k"), f.param("a"), f.param("b"), f.param("c"), f.param("ldc"), f.gpr(),
		f.gpr(), nil}
	t.ins("LSL $2, %v, %v", t.ldc, t.ldc)
	// C is needed after the loop: prefetch its lines now.
	t.each(t.c, t.ldc, func(at gpr, _ int) { t.ins("PRFM (%v), PLDL1KEEP", at) })
	return t
}

// each iterates over the rows of a matrix that starts at base.
func (t *neonTile) each(base, ld gpr, do func(at gpr, i int)) {
	t.ins("MOVD %v, %v", base, t.address)
	for i := range t.rows {
		do(t.address, i)
		if i < t.rows-1 {
			t.ins("ADD %v, %v, %v", ld, t.address, t.address)
		}
	}
}

// next advances A and B by a number of k.
func (t *neonTile) next(k int) {
	t.ins("ADD $%v, %v, %v", k*t.rows*4, t.a, t.a)
	t.ins("ADD $%v, %v, %v", k*t.width*4, t.b, t.b)
}

// column loads A for one k: exactly as many floats as there are rows.
func (t *neonTile) column() (lanes []neonLane) {
	for at := 0; at < t.rows; {
		r := t.reg()
		size, load := 4, "FMOVQ"
		if left := t.rows - at; left < 2 {
			size, load = 1, "FMOVS"
		} else if left < 4 {
			size, load = 2, "FMOVD"
		}
		t.ins(load+" %v(%v), F%v", at*4, t.a, r)
		for l := range size {
			lanes = append(lanes, neonLane{r, l})
		}
		at += size
	}
	return lanes
}

// step adds the products of one k, whose row of B lies at an offset. They are taken row by row, so that no sum waits
// for the one before.
func (t *neonTile) step(offset int, lanes []neonLane, multiply func(s, x, y vreg, lane int)) {
	bs := make([]vreg, t.width/4)
	for j := range bs {
		bs[j] = t.reg()
	}
	t.load(t.b, offset, bs...)
	for i, x := range lanes {
		for j := range bs {
			multiply(t.acc[i][j], bs[j], x.reg, x.lane)
		}
	}
}

// finish adds and stores. The order of the additions is fixed: product, earlier blocks of k, bias, residual.
func (t *neonTile) finish() {
	add := func(i, j int, v vec8) {
		for h := range v {
			t.into("fadd", t.acc[i][j+h], t.acc[i][j+h], v[h])
		}
	}
	addRow := func(at gpr, i int) {
		for j := 0; j < t.width/4; j += 2 {
			add(i, j, t.loadPair(at, j*16))
		}
	}
	n := t.counter
	t.ins("MOVD %v, %v", t.place("accumulate"), n)
	t.ins("CBZ %v, fresh", n)
	t.each(t.c, t.ldc, addRow)
	t.label("fresh")
	t.ins("MOVD %v, %v", t.place("bias"), n)
	t.ins("CBZ %v, nobias", n)
	for j := 0; j < t.width/4; j += 2 {
		v := t.loadPair(n, j*16)
		for i := range t.rows {
			add(i, j, v)
		}
	}
	t.label("nobias")
	t.ins("MOVD %v, %v", t.place("residual"), n)
	t.ins("CBZ %v, store", n)
	ldr := t.k // k is no longer needed
	t.ins("MOVD %v, %v", t.place("ldr"), ldr)
	t.ins("LSL $2, %v, %v", ldr, ldr)
	t.each(n, ldr, addRow)
	t.label("store")
	t.each(t.c, t.ldc, func(at gpr, i int) { t.store(at, 0, t.acc[i]...) })
	t.ret()
}

func neonProduct(file *neonFile, rows, width int) {
	t := newNEONTile(file, "gemm", rows, width)
	for range rows {
		acc := make([]vreg, width/4)
		for j := range acc {
			acc[j] = t.zero()
		}
		t.acc = append(t.acc, acc)
	}
	const unroll = 4
	t.ins("SUBS $%v, %v, %v", unroll, t.k, t.k)
	t.ins("BLT rest")
	t.label("loop")
	group := 4 // as many k as fill whole registers with A
	for _, g := range []int{1, 2} {
		if rows*g%4 == 0 {
			group = g
			break
		}
	}
	for u := 0; u < unroll; u += group {
		as := make([]vreg, rows*group/4)
		for i := range as {
			as[i] = t.reg()
		}
		t.load(t.a, u*rows*4, as...)
		for g := range group {
			lanes := make([]neonLane, rows)
			for i := range lanes {
				at := g*rows + i
				lanes[i] = neonLane{as[at/4], at % 4}
			}
			t.step((u+g)*width*4, lanes, t.byElement)
		}
	}
	t.next(unroll)
	t.ins("SUBS $%v, %v, %v", unroll, t.k, t.k)
	t.back("BGE", "loop")
	t.label("rest")
	t.ins("ADDS $%v, %v, %v", unroll, t.k, t.k)
	t.ins("BEQ done")
	t.label("single")
	t.step(0, t.column(), t.byElement)
	t.next(1)
	t.count(t.k, "single")
	t.label("done")
	t.finish()
}
