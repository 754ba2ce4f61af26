package matrix

import "fmt"

// This file has what follows the sums of a product: biases, activations, residuals, and the writes of results.

// warp returns the first row and column of the warp in the tile.
func (g *generated) warp() (row, col string) {
	t := g.text
	row = t.get("r", "shr.u32", "%s, 7", g.tid)
	t.add("shl.b32 %s, %s, 6", row, row)
	col = t.get("r", "shr.u32", "%s, 5", g.tid)
	t.add("and.b32 %s, %s, 3", col, col)
	if g.Warpgroup { // a warp has 16 rows and all columns
		t.add("mad.lo.u32 %s, %s, 16, %s", row, col, row)
		t.add("mov.u32 %s, 0", col)
	} else {
		t.add("mul.lo.u32 %s, %s, %d", col, col, g.N/4)
	}
	return row, col
}

// sums returns the registers of fragment i, j of the warp, of 16 rows and 8 columns: two columns of row lane / 4, then
// of the row eight below.
func (g *generated) sums(i, j int) []string {
	at := 4 * (i*g.columns() + j)
	return g.acc[at : at+4]
}

// rows and columns are the numbers of fragments of a warp.
func (g *generated) rows() int {
	if g.Warpgroup {
		return 1
	}
	return 4
}

func (g *generated) columns() int {
	if g.Warpgroup {
		return g.N / 8
	}
	return g.N / 4 / 8
}

// finishSums computes and writes the results.
func (g *generated) finishSums() {
	t := g.text
	row, col := g.warp()
	inRow, inCol := t.get("r", "shr.u32", "%s, 2", g.lane), t.get("r", "and.b32", "%s, 3", g.lane)
	t.add("add.u32 %s, %s, %s", row, row, inRow)
	t.add("add.u32 %s, %s, %s", row, row, g.row)
	t.add("mad.lo.u32 %s, %s, 2, %s", col, inCol, col)
	t.add("add.u32 %s, %s, %s", col, col, g.col)
	m := t.get("d", "mul.wide.u32", "%s, %s", g.p["m"], g.p["n"])
	wide := t.get("d", "cvt.u64.u32", "%s", g.matrix)
	t.add("mul.lo.u64 %s, %s, %s", m, m, wide)
	n := t.get("d", "cvt.u64.u32", "%s", g.p["n"])
	c := t.get("d", "cvt.u64.u32", "%s", col)
	type line struct{ in, at, bias string }
	var lines []line // offsets of the first column of each row
	for i := range g.rows() {
		for half := range 2 {
			r := t.get("r", "add.u32", "%s, %d", row, 16*i+8*half)
			in := t.get("p", "setp.lt.u32", "%s, %s", r, g.p["m"])
			if g.Grouped {
				r, in = g.rowOf(r)
			}
			w := t.get("d", "cvt.u64.u32", "%s", r)
			at := t.get("d", "mad.lo.u64", "%s, %s, %s", w, n, m)
			t.add("add.u64 %s, %s, %s", at, at, c)
			t.add("shl.b64 %s, %s, 2", at, at)
			bias := ""
			if g.RowBias && g.Bias {
				from := t.get("d", "mad.wide.u32", "%s, 4, %s", r, g.bias)
				bias = t.get("f", "mov.f32", "0f00000000")
				t.add("@%s ld.global.nc.f32 %s, [%s]", in, bias, from)
			}
			lines = append(lines, line{in, at, bias})
		}
	}
	step := max(1, g.batch()/(2*len(lines)))
	for first := 0; first < g.columns(); first += step {
		last := min(first+step, g.columns())
		columns := make([]column, last-first)
		for i := range columns {
			columns[i] = g.columnAt(col, first+i)
		}
		add := make([][2]string, len(columns)*len(lines))
		if g.Residual {
			for i := range add {
				l, c := lines[i%len(lines)], columns[i/len(lines)]
				add[i] = g.residual(l.in, c.in, l.at, 32*(first+i/len(lines)))
			}
		}
		for i, add := range add {
			l, c := lines[i%len(lines)], columns[i/len(lines)]
			j, k := first+i/len(lines), i%len(lines)
			if l.bias != "" {
				c.bias = [2]string{l.bias, l.bias}
			}
			g.write(l.in, c.in, l.at, 32*j, g.sums(k/2, j)[2*(k%2):][:2], c.bias, add)
		}
	}
}

// column is a pair of columns: whether they are in the result, and their biases.
type column struct{ in, bias [2]string }

func (g *generated) columnAt(col string, j int) (c column) {
	t := g.text
	for e := range 2 {
		k := t.get("r", "add.u32", "%s, %d", col, 8*j+e)
		c.in[e] = t.get("p", "setp.lt.u32", "%s, %s", k, g.p["n"])
		if g.Bias && !g.RowBias {
			at := t.get("d", "mad.wide.u32", "%s, 4, %s", k, g.bias)
			c.bias[e] = t.get("f", "mov.f32", "0f00000000")
			t.add("@%s ld.global.nc.f32 %s, [%s]", c.in[e], c.bias[e], at)
		}
	}
	return c
}

// batch is the number of values of the residual that a thread loads before it writes results. The residual may be the
// memory of the result, so a load after a write would wait for the load before it: batches make most loads wait
// together.
func (g *generated) batch() int {
	const others, registers = 40, 1 << 16
	left := min(255, registers/(g.threads()*max(1, g.Blocks))) - len(g.acc) - others
	return max(16, min(64, left&^15))
}

// residual loads two columns of a row of the residual.
func (g *generated) residual(row string, in [2]string, at string, offset int) (add [2]string) {
	t := g.text
	from := t.get("d", "add.u64", "%s, %s", g.add, at)
	for e := range 2 {
		add[e] = t.reg("f")
		in[e] = t.get("p", "and.pred", "%s, %s", row, in[e])
	}
	if g.Pairs {
		t.add("@%s ld.global.v2.f32 {%s, %s}, [%s+%d]", in[0], add[0], add[1], from, offset)
		return add
	}
	for e := range 2 {
		t.add("@%s ld.global.f32 %s, [%s+%d]", in[e], add[e], from, offset+4*e)
	}
	return add
}

// write finishes two columns of a row and writes them.
func (g *generated) write(row string, in [2]string, at string, offset int, sums []string, bias, add [2]string) {
	t := g.text
	var both [2]string
	for e := range 2 {
		both[e] = t.get("p", "and.pred", "%s, %s", row, in[e])
		if g.Bias {
			t.add("add.f32 %s, %s, %s", sums[e], sums[e], bias[e])
		}
		activations[g.Act](t, sums[e])
	}
	if g.Residual {
		for e := range 2 {
			t.add("add.f32 %s, %s, %s", sums[e], sums[e], add[e])
		}
	}
	if g.Rounded {
		half := t.get("d", "shr.u64", "%s, 1", at)
		t.add("add.u64 %s, %s, %s", half, half, g.z)
		both16 := t.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", g.Type), "%s, %s", sums[1], sums[0])
		t.add("@%s st.global.u32 [%s+%d], %s", both[0], half, offset/2, both16)
	}
	if g.Only {
		return
	}
	to := t.get("d", "add.u64", "%s, %s", g.y, at)
	if g.Pairs {
		t.add("@%s st.global.v2.f32 [%s+%d], {%s, %s}", both[0], to, offset, sums[0], sums[1])
		return
	}
	for e := range 2 {
		t.add("@%s st.global.f32 [%s+%d], %s", both[e], to, offset+4*e, sums[e])
	}
}
