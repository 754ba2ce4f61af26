package norm

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// shortSoftmax is the length up to which rows are short: a vector would hold few elements of a row, and calls of
// routines for a row would take longer than they compute.
const shortSoftmax = 40

// short reports whether rows are computed several at a time.
func (g SoftmaxArgs) short(s *isa.Set) bool {
	return g.Inner == 1 && g.N <= shortSoftmax && g.Outer >= s.Lanes && reduce.On(s).Softmax != nil
}

// shortScratch returns what softmaxShort needs for each worker.
func (g SoftmaxArgs) shortScratch() int64 {
	const w = softmaxWidth
	return pool.FloatBytes(min(g.N, shortSoftmax)*w, w, w, w) + pool.FloatBytes(min(g.N, shortSoftmax)*w)
}

// softmaxShort transposes some rows at a time, so that they are columns, and the results back.
type softmaxShort struct {
	SoftmaxArgs
	p *pool.Pool
}

func (g *softmaxShort) Do(lo, hi, worker int) {
	var sum [softmaxWidth]float64
	s, sc, n := g.p.Set, g.p.Scratch(worker), g.N
	block := sc.Floats(n * softmaxWidth)
	top, exp, part := sc.Floats(softmaxWidth), sc.Floats(softmaxWidth), sc.Floats(softmaxWidth)
	buf := g.X.Buffer(sc, n*softmaxWidth)
	for ; lo < hi; lo += softmaxWidth {
		rows := min(softmaxWidth, hi-lo)
		// Whole vectors, so that the bits of a row do not depend on the number of rows.
		w := pool.CeilDiv(rows, s.Lanes) * s.Lanes
		rowsToColumns(s, block, g.X.Row(s, lo*n, rows*n, buf), rows, n, sc.Index[:s.Lanes])
		for i := rows; i < w; i++ {
			for j := range n {
				block[j*softmaxWidth+i] = 0
			}
		}
		reduce.On(s).Softmax.Columns(s, block, block, n, softmaxWidth, g.Log, top[:w], part[:w], exp[:w], sum[:w])
		d := g.Dst.Room(lo*n, rows*n, buf)
		columnsToRows(s, d, block, rows, n, sc.Index[:s.Lanes])
		g.Dst.Put(s, lo*n, d)
	}
}

// rowsToColumns copies rows of n elements to columns of a block. at is a buffer for a vector of indices.
func rowsToColumns(s *isa.Set, block, x []float32, rows, n int, at []int32) {
	for i := range at {
		at[i] = int32(i * n)
	}
	vectors := rows / s.Lanes
	for j := range n {
		vec.On(s).GatherRows(block[j*softmaxWidth:], s.Lanes, x[j:], s.Lanes*n, vectors, at)
		for i := vectors * s.Lanes; i < rows; i++ {
			block[j*softmaxWidth+i] = x[i*n+j]
		}
	}
}

// columnsToRows is the opposite of rowsToColumns. As many vectors as a row has elements hold whole rows. Each takes its
// elements from the same places as the next one of its kind.
func columnsToRows(s *isa.Set, y, block []float32, rows, n int, at []int32) {
	vectors, row, column := rows/s.Lanes, 0, 0
	for v := range n {
		for i := range at {
			at[i] = int32(row + column*softmaxWidth)
			if column++; column == n {
				row, column = row+1, 0
			}
		}
		if vectors > 0 {
			vec.On(s).GatherRows(y[v*s.Lanes:], s.Lanes*n, block, s.Lanes, vectors, at)
		}
	}
	for i := vectors * s.Lanes; i < rows; i++ {
		for j := range n {
			y[i*n+j] = block[j*softmaxWidth+i]
		}
	}
}
