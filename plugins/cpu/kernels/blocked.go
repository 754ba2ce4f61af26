package kernels

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// The blocked layout stores a matrix in bfloat16, in the order in which products in AMX tiles load it. Such a product
// has nothing to pack and reads half the memory. It would round its operand anyway, so the result is the same; GemmArgs
// names the exception.
//
// A block is [32 rows, 32 columns] of bfloat16. The number of columns is a multiple of 32. Columns are divided into
// groups of kSplit(columns). Within a group, blocks are stored row by row. The last block of rows is padded with
// arbitrary values.

// TakesBlocked reports whether products of this precision can read and write the blocked layout.
func TakesBlocked(p *Pool, precision Precision) bool { return packingOf(p.Set, precision) == tiled }

// BlockedLen returns the size of a blocked matrix in units of float32.
func BlockedLen(rows, cols int) int { return tiled.rows(rows) * tiled.depth(cols) }

// blocked is a matrix in the blocked layout.
type blocked struct {
	data       []float32
	rows, cols int // rows including padding
	kb         int // columns of a group
}

func newBlocked(data []float32, rows, cols int) blocked {
	if cols%tileSide != 0 || len(data) < BlockedLen(rows, cols) {
		panic("BUG: a blocked matrix is short, or its columns are not a multiple of 32")
	}
	return blocked{data, tiled.rows(rows), cols, tiled.kSplit(cols)}
}

// at returns the index of the 32 elements of row r from column k on. The next 32 are one block further, up to the end
// of the group.
func (q blocked) at(r, k int) int {
	first := k / q.kb * q.kb
	depth := tiled.depth(min(q.kb, q.cols-first))
	return q.rows*tiled.depth(first) + r/tileSide*tileSide*depth + (k-first)*(tileSide/2) + r%tileSide*(tileSide/2)
}

// put rounds n rows of cols elements, ld apart, into rows from r and columns from k on; k and cols are multiples of 32.
// Its stores bypass the caches, so the caller must call vecRoutines.storeFence.
func (q blocked) put(s *isa.Set, r, k int, x []float32, ld, n, cols int) {
	for row, rows := 0, 0; row < n; row += rows { // divided where blocks and groups end
		rows = min(n-row, tileSide-(r+row)%tileSide)
		for col, width := 0, 0; col < cols; col += width {
			width = min(cols-col, q.kb-(k+col)%q.kb)
			productOn(s).blockRowsOut(q.data[q.at(r+row, k+col):], x[row*ld+col:], ld, rows, width/tileSide)
		}
	}
}

// UnpackBlocked returns the rows of a blocked matrix as floats. It is slow.
func UnpackBlocked(data []float32, rows, cols int) []float32 {
	q := newBlocked(data, rows, cols)
	out := make([]float32, 0, rows*cols)
	for r := range rows {
		for k := 0; k < cols; k += tileSide {
			for _, x := range q.data[q.at(r, k):][:tileSide/2] {
				u := math.Float32bits(x)
				out = append(out, math.Float32frombits(u<<16), math.Float32frombits(u&^0xffff))
			}
		}
	}
	return out
}
