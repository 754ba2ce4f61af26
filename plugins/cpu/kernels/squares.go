package kernels

import "math"

// Squares are how a matrix of bfloat16 that only products of tiles read may be stored: the value is the same as if the product rounded
// its operand (but for the gelu that Gemm says), it takes half the memory, and there is nothing to pack.
//
// For each block of columns (kSplit of their number), for each 32 rows, for each 32 columns: [32 rows, 32 bfloat16]. The number of
// columns is a multiple of 32; the last rows are padded with anything.

// TakesSquares reports whether products of this precision can read and write squares.
func (p *Pool) TakesSquares(precision Precision) bool { return p.isa.packing(precision) == tiled }

// SquaresLen is the size of a matrix in squares, in float32.
func SquaresLen(rows, cols int) int { return tiled.rows(rows) * tiled.depth(cols) }

// squares is a matrix in squares.
type squares struct {
	data       []float32
	rows, cols int // rows with the padding
	kb         int
}

func newSquares(data []float32, rows, cols int) squares {
	if cols%tileSide != 0 || len(data) < SquaresLen(rows, cols) {
		panic("BUG: squares are short, or not whole")
	}
	return squares{data, tiled.rows(rows), cols, tiled.kSplit(cols)}
}

// at is the index of the 32 elements from column k on of row r; the next 32 are a square further, up to the end of the block of columns.
func (q squares) at(r, k int) int {
	first := k / q.kb * q.kb
	depth := tiled.depth(min(q.kb, q.cols-first))
	return q.rows*tiled.depth(first) + r/tileSide*tileSide*depth + (k-first)*(tileSide/2) + r%tileSide*(tileSide/2)
}

// put rounds n rows of cols elements, ld apart, into rows from r and columns from k on; k and cols are multiples of 32. It stores past the
// caches: storeFence makes that visible.
func (q squares) put(s *isa, r, k int, x []float32, ld, n, cols int) {
	for row, rows := 0, 0; row < n; row += rows { // cut where squares and blocks of columns end
		rows = min(n-row, tileSide-(r+row)%tileSide)
		for col, width := 0, 0; col < cols; col += width {
			width = min(cols-col, q.kb-(k+col)%q.kb)
			s.squareRowsOut(q.data[q.at(r+row, k+col):], x[row*ld+col:], ld, rows, width/tileSide)
		}
	}
}

// LayerNormSquares is LayerNorm with the result in squares, which do not overlap x.
func LayerNormSquares(p *Pool, dst, x, gamma, beta []float32, rows, n int, eps float32) {
	if len(x) < rows*n || len(gamma) < n || len(beta) < n {
		panic("BUG: norm: a slice is short")
	}
	if n == 0 {
		return
	}
	s, q := p.isa, newSquares(dst, rows, n)
	p.split(rows, rowGrain(n), func(lo, hi, w int) {
		d := p.scratch(w).floats(n)
		for r := lo; r < hi; r++ {
			normRow(s, d, x[r*n:(r+1)*n], gamma, beta, eps, true)
			q.put(s, r, 0, d, n, 1, n)
		}
		s.storeFence()
	})
}

// normRow normalizes one row; d may be x.
func normRow(s *isa, d, x, gamma, beta []float32, eps float32, center bool) {
	n := float32(len(x))
	var mean float32
	if center {
		mean = s.sum(x) / n
	}
	variance := s.squares(x, mean) / n
	s.normalize(d, x, gamma, beta, mean, float32(1/math.Sqrt(float64(variance)+float64(eps))))
}
