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
	switch {
	case g.PingPong:
		return g.M / 64
	case g.Warpgroup:
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

// scatterText describes a result whose rows lie apart, that of a transposed convolution whose taps do not overlap. A
// row is a pixel of x, and has a run of values in each of several lines of the result: of pixels next to each other.
type scatterText struct {
	Run     int // values of a run; 0 if the result is rows
	Filters int // its channels
	Lines   int // runs of a row
}

// scatterFields are the words of its parameters that follow productFields: the pixels of a line of x.
var scatterFields = []string{"width"}

// line is a row of the result: whether there is one, the offset of the first column in bytes, and a bias.
type line struct{ in, at, bias string }

// column is a pair of columns: whether they are in the result, their biases, and, if the result is scattered, their
// offsets in bytes.
type column struct{ in, bias, at [2]string }

// finishSums computes and writes the results.
func (g *generated) finishSums() {
	row, col := g.firstSum()
	lines := g.lines(row, col)
	step := max(1, g.batch()/(2*len(lines)))
	for first := 0; first < g.columns(); first += step {
		count := min(step, g.columns()-first)
		columns := make([]column, count)
		for i := range columns {
			columns[i] = g.columnAt(col, first+i)
		}
		results := make([]written, count*len(lines))
		for i := range results {
			l, c, j, k := lines[i%len(lines)], columns[i/len(lines)], first+i/len(lines), i%len(lines)
			if l.bias != "" {
				c.bias = [2]string{l.bias, l.bias}
			}
			results[i] = g.pairAt(l, c, 32*j)
			results[i].sums, results[i].bias = g.sums(k/2, j)[2*(k%2):][:2], c.bias
			if g.Residual {
				g.loadResidual(&results[i])
			}
		}
		for i := range results {
			g.write(&results[i])
		}
	}
}

// firstSum returns the row and the column of the thread's first sum.
func (g *generated) firstSum() (row, col string) {
	t := g.text
	row, col = g.warp()
	inRow, inCol := t.get("r", "shr.u32", "%s, 2", g.lane), t.get("r", "and.b32", "%s, 3", g.lane)
	t.add("add.u32 %s, %s, %s", row, row, inRow)
	t.add("add.u32 %s, %s, %s", row, row, g.row)
	t.add("mad.lo.u32 %s, %s, 2, %s", col, inCol, col)
	t.add("add.u32 %s, %s, %s", col, col, g.col)
	return row, col
}

// lines returns the rows of the thread's sums.
func (g *generated) lines(row, col string) (lines []line) {
	t := g.text
	m := t.get("d", "mul.wide.u32", "%s, %s", g.p["m"], g.p["n"])
	wide := t.get("d", "cvt.u64.u32", "%s", g.matrix)
	t.add("mul.lo.u64 %s, %s, %s", m, m, wide)
	n := t.get("d", "cvt.u64.u32", "%s", g.p["n"])
	c := t.get("d", "cvt.u64.u32", "%s", col)
	apart := 16
	if g.PingPong {
		apart = 64
	}
	for i := range g.rows() {
		for half := range 2 {
			r := t.get("r", "add.u32", "%s, %d", row, apart*i+8*half)
			in := t.get("p", "setp.lt.u32", "%s, %s", r, g.p["m"])
			if g.Grouped {
				r, in = g.rowOf(r)
			}
			var at string
			if g.Scatter.Run > 0 {
				at = g.scattered(r)
				t.add("add.u64 %s, %s, %s", at, at, m)
			} else {
				w := t.get("d", "cvt.u64.u32", "%s", r)
				at = t.get("d", "mad.lo.u64", "%s, %s, %s", w, n, m)
				t.add("add.u64 %s, %s, %s", at, at, c)
			}
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
	return lines
}

// scattered returns the first element of a row's first run.
func (g *generated) scattered(row string) string {
	t, width := g.text, g.p["width"]
	y, x := t.get("r", "div.u32", "%s, %s", row, width), t.get("r", "rem.u32", "%s, %s", row, width)
	t.add("mul.lo.u32 %s, %s, %s", y, y, width)
	t.add("mad.lo.u32 %s, %s, %d, %s", y, y, g.Scatter.Lines, x)
	return t.get("d", "mul.wide.u32", "%s, %d", y, g.Scatter.Run)
}

func (g *generated) columnAt(col string, j int) (c column) {
	t := g.text
	for e := range 2 {
		k := t.get("r", "add.u32", "%s, %d", col, 8*j+e)
		c.in[e] = t.get("p", "setp.lt.u32", "%s, %s", k, g.p["n"])
		filter := k
		if g.Scatter.Run > 0 {
			run := t.get("r", "div.u32", "%s, %d", k, g.Scatter.Run)
			t.add("mul.lo.u32 %s, %s, %s", run, run, g.p["width"])
			at := t.get("r", "rem.u32", "%s, %d", k, g.Scatter.Run)
			t.add("mad.lo.u32 %s, %s, %d, %s", at, run, g.Scatter.Run, at)
			c.at[e] = t.get("d", "mul.wide.u32", "%s, 4", at)
			filter = t.get("r", "rem.u32", "%s, %d", k, g.Scatter.Filters)
		}
		if g.biases != nil {
			c.bias[e] = g.biasOf(8*j + e)
		} else if g.Bias && !g.RowBias {
			at := t.get("d", "mad.wide.u32", "%s, 4, %s", filter, g.bias)
			c.bias[e] = t.get("f", "mov.f32", "0f00000000")
			t.add("@%s ld.global.nc.f32 %s, [%s]", c.in[e], c.bias[e], at)
		}
	}
	return c
}

// written is a pair of results in a row.
type written struct {
	in, at          [2]string // whether there is one, and its offset in bytes, to which more is added
	more            [2]int
	sums            []string
	bias, residuals [2]string
}

// pairAt returns where two columns of a row are. offset is what the second column and later ones add to the row's.
func (g *generated) pairAt(l line, c column, offset int) (w written) {
	t := g.text
	for e := range 2 {
		w.in[e] = t.get("p", "and.pred", "%s, %s", l.in, c.in[e])
		w.at[e], w.more[e] = l.at, offset+4*e
		if g.Scatter.Run > 0 {
			w.at[e], w.more[e] = t.get("d", "add.u64", "%s, %s", l.at, c.at[e]), 0
		}
	}
	return w
}

// address returns the address of result e of a pair in some memory.
func (g *generated) address(memory string, w *written, e int) string {
	return fmt.Sprintf("[%s+%d]", g.text.get("d", "add.u64", "%s, %s", memory, w.at[e]), w.more[e])
}

// batch is the number of values of the residual that a thread loads before it writes results. The residual may be the
// memory of the result, so a load after a write would wait for the load before it: batches make most loads wait
// together.
func (g *generated) batch() int {
	const others, registers = 40, 1 << 16
	left := min(255, registers/(g.threads()*max(1, g.Blocks))) - len(g.acc) - others
	return max(16, min(64, left&^15))
}

// loadResidual loads the residual of a pair.
func (g *generated) loadResidual(w *written) {
	t := g.text
	for e := range 2 { // without this, an earlier value would be needed where there is nothing to load
		w.residuals[e] = t.get("f", "mov.f32", "0f00000000")
	}
	if g.Pairs {
		t.add("@%s ld.global.v2.f32 {%s, %s}, %s", w.in[0], w.residuals[0], w.residuals[1], g.address(g.add, w, 0))
		return
	}
	for e := range 2 {
		t.add("@%s ld.global.f32 %s, %s", w.in[e], w.residuals[e], g.address(g.add, w, e))
	}
}

// write finishes a pair of results and writes it.
func (g *generated) write(w *written) {
	g.complete(w)
	if g.Rounded {
		t := g.text
		half := t.get("d", "shr.u64", "%s, 1", w.at[0])
		t.add("add.u64 %s, %s, %s", half, half, g.z)
		t.add("@%s st.global.u32 [%s+%d], %s", w.in[0], half, w.more[0]/2, g.narrow(w))
	}
	g.writeWide(w)
}

// complete makes a pair of results of sums.
func (g *generated) complete(w *written) {
	t, sums := g.text, w.sums
	for e := range 2 {
		if g.Bias {
			t.add("add.f32 %s, %s, %s", sums[e], sums[e], w.bias[e])
		}
		activation(g.Act)(t, sums[e])
		if g.Residual {
			t.add("add.f32 %s, %s, %s", sums[e], sums[e], w.residuals[e])
		}
	}
}

// narrow returns a pair of results in Type.
func (g *generated) narrow(w *written) string {
	return g.text.get("r", fmt.Sprintf("cvt.rn.%vx2.f32", g.Type), "%s, %s", w.sums[1], w.sums[0])
}

// writeWide writes a pair of results in f32, unless nothing reads them.
func (g *generated) writeWide(w *written) {
	if g.Only {
		return
	}
	t, sums := g.text, w.sums
	if g.Pairs {
		t.add("@%s st.global.v2.f32 %s, {%s, %s}", w.in[0], g.address(g.y, w, 0), sums[0], sums[1])
		return
	}
	for e := range 2 {
		t.add("@%s st.global.f32 %s, %s", w.in[e], g.address(g.y, w, e), sums[e])
	}
}
