package product

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// The blocked layout stores a matrix in bfloat16, in the order in which products in AMX tiles load it. Such a product
// has nothing to pack and reads half the memory. It would round its operand anyway, so the result is the same; GemmArgs
// names the exception.
//
// A block is [32 rows, 32 columns] of bfloat16. The number of columns is a multiple of 32. Columns are divided into
// groups of KSplit(columns). Within a group, blocks are stored row by row. The last block of rows is padded with
// arbitrary values.

// TakesBlocked reports whether products of this precision can read and write the blocked layout.
func TakesBlocked(p *pool.Pool, precision Precision) bool {
	return PackingOf(p.Set, precision) == Tiled
}

// BlockedLen returns the size of a blocked matrix in units of float32.
func BlockedLen(rows, cols int) int { return Tiled.Rows(rows) * Tiled.Depth(cols) }

// Blocked is a matrix in the blocked layout.
type Blocked struct {
	data       []float32
	rows, cols int // rows including padding
	kb         int // columns of a group
}

func NewBlocked(data []float32, rows, cols int) Blocked {
	if cols%TileSide != 0 || len(data) < BlockedLen(rows, cols) {
		panic("BUG: a blocked matrix is short, or its columns are not a multiple of 32")
	}
	return Blocked{data, Tiled.Rows(rows), cols, Tiled.KSplit(cols)}
}

// at returns the index of the 32 elements of row r from column k on. The next 32 are one block further, up to the end
// of the group.
func (q Blocked) at(r, k int) int {
	first := k / q.kb * q.kb
	depth := Tiled.Depth(min(q.kb, q.cols-first))
	return q.rows*Tiled.Depth(first) + r/TileSide*TileSide*depth + (k-first)*(TileSide/2) + r%TileSide*(TileSide/2)
}

// Put rounds n rows of cols elements, ld apart, into rows from r and columns from k on; k and cols are multiples of 32.
// Its stores bypass the caches, so the caller must call vec.Routines.storeFence.
func (q Blocked) Put(s *isa.Set, r, k int, x []float32, ld, n, cols int) {
	for row, rows := 0, 0; row < n; row += rows { // divided where blocks and groups end
		rows = min(n-row, TileSide-(r+row)%TileSide)
		for col, width := 0, 0; col < cols; col += width {
			width = min(cols-col, q.kb-(k+col)%q.kb)
			On(s).blockRowsOut(q.data[q.at(r+row, k+col):], x[row*ld+col:], ld, rows, width/TileSide)
		}
	}
}

// UnpackBlocked returns the rows of a blocked matrix as floats. It is slow.
func UnpackBlocked(data []float32, rows, cols int) []float32 {
	q := NewBlocked(data, rows, cols)
	out := make([]float32, 0, rows*cols)
	for r := range rows {
		for k := 0; k < cols; k += TileSide {
			for _, x := range q.data[q.at(r, k):][:TileSide/2] {
				u := math.Float32bits(x)
				out = append(out, math.Float32frombits(u<<16), math.Float32frombits(u&^0xffff))
			}
		}
	}
	return out
}
