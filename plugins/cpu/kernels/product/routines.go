// Package product multiplies matrices: floats, bfloat16, packed weights, and weights whose scales are separate.
package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Panel holds the routines for packed panels of nr columns.
type Panel struct {
	NR int

	// Gemm is C[rows, nr] = A·B for packed A and packed B (nr floats per k). A has panels of the heights that
	// PanelHeight returns, one after the other, with as many floats per k. Gemm adds, in this order: the old C if
	// accumulate is set, bias[nr], residual[rows, nr]. bias and residual may be nil.
	Gemm func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int)

	// stored is Gemm for rows of A as they are stored, lda floats apart. It adds in the same order, and prefetches
	// next, which may be nil. nil if the set has no such routine.
	stored func(rows, k int, a []float32, lda int, b, c []float32, ldc int, accumulate bool, bias, residual []float32,
		ldr int, next []float32)

	// rowsProduct is C[mr, nr*panels] = A·B for rows of A as they are stored, lda floats apart, and packed panels of B,
	// which lie one after the other. It adds the old C if accumulate is set, and prefetches rows of the A that comes
	// next, one for each panel. nil if the set has no such routine.
	rowsProduct func(k int, a []float32, lda int, b, c []float32, ldc, panels int, accumulate bool, ahead rowsAhead)

	// Pairs is gemm for pairs of bfloat16 in place of floats; nil if the set has no such instruction.
	Pairs func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int)
}

// Routines multiply matrices.
type Routines struct {
	MR     int   // maximum number of rows of a panel of A
	Panel        // nr is two vectors
	Narrow Panel // nr is one vector, for the last columns of a matrix

	schemes map[string]schemeRoutines // by SchemeWeights.Values, and int8_asym for int8 with zero points

	// Products of activations rounded to 8 bits, see packed_integers.go. roundRow is quant.RoundActivations for whole
	// groups; sums[i] is the sum of 16 elements of q. nil: rounded activations are multiplied as floats.
	integerFormats map[dtype.DType]integerFormat
	roundRow       func(q []int8, scale, sums, x []float32)
	dotBytes       map[dtype.DType]byteDot // products with one row of activations, from blocks as they are stored

	split *splitRoutines // nil: products of packed weights and exact activations widen the weights; see packed_tiles.go
	parts *partRoutines  // nil: products of floats are computed in vectors of float32; see parts.go

	// round rounds to bfloat16 and keeps the values as floats. pair packs rows 2i and 2i+1 of a panel [2n, width] as
	// pairs, with the even row in the low half, in the order that the products of the set expect. It reads and writes
	// whole vectors. nil if the set has neither pairs nor tiles.
	round func(dst, src []float32)
	pair  func(dst, panel []float32, width, n int)
	// Tiles is C = init + A·B with C [32*blocks, 32] and k = 32*steps, for A [blocks][steps][32][32 bfloat16] and B as
	// pairs [16*steps, 32]. init may be nil or C. tileRow rounds one row of A, 32*steps floats. nil if the set has no
	// tiles.
	Tiles   func(blocks, steps int, a, b, c []float32, ldc int, init []float32, ldi int)
	tileRow func(dst, src []float32, steps int)
	// blockRowsOut rounds rows of 32*steps floats, ld apart, into adjacent rows of blocks, with stores that bypass the
	// caches.
	blockRowsOut func(dst, src []float32, ld, rows, steps int)
	// tilePanel is tiles followed by bias, activation and residual; see tilePanel. nil if tiles is.
	tilePanel func(t *tilePanel)

	// Loops that measure the peak of the processor. A loop that the set lacks is nil.
	halfLoop func(n int) // 12*n vector products of pairs
	tileLoop func(n int) // 4*n products of tiles
	fmaLoop  func(n int) // 12*n vector multiply-adds
}

var table isa.Table[Routines]

func init() { table.Add(isa.Generic, generic) }

// On returns the routines of a set.
func On(s *isa.Set) *Routines { return table.On(s) }

func generic() *Routines {
	lanes := isa.Generic.Lanes
	return &Routines{MR: genericMR, Panel: panelInGo(2 * lanes), Narrow: panelInGo(lanes), round: vec.MapOf(RoundBF16)}
}

func panelInGo(nr int) Panel {
	return Panel{
		NR: nr,
		Gemm: func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int) {
			for r, h := 0, 0; r < rows; r += h {
				h = panelHeight(genericMR, rows-r)
				gemmGeneric(nr, h, k, a[r*k:], b, c[r*ldc:], ldc, accumulate, bias, rowOf(residual, r, ldr), ldr)
			}
		},
	}
}

const genericMR = 4

// gemmGeneric multiplies one panel of A. It computes two rows by four columns at a time: most processors have registers
// for that many sums.
func gemmGeneric(nr, rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int) {
	var tile [genericMR][8]float32
	for i := 0; i < rows; i += 2 {
		second := min(i+1, rows-1) // if rows is odd, the last one is computed twice
		for j := 0; j < nr; j += 4 {
			var s00, s01, s02, s03, s10, s11, s12, s13 float32
			for l := range k {
				bl := b[l*nr+j : l*nr+j+4 : l*nr+j+4]
				x, y := a[l*rows+i], a[l*rows+second]
				s00 += x * bl[0]
				s01 += x * bl[1]
				s02 += x * bl[2]
				s03 += x * bl[3]
				s10 += y * bl[0]
				s11 += y * bl[1]
				s12 += y * bl[2]
				s13 += y * bl[3]
			}
			tile[i][j], tile[i][j+1], tile[i][j+2], tile[i][j+3] = s00, s01, s02, s03
			tile[second][j], tile[second][j+1], tile[second][j+2], tile[second][j+3] = s10, s11, s12, s13
		}
	}
	for i := range rows {
		finishRow(c[i*ldc:][:nr], tile[i][:], accumulate, bias, rowOf(residual, i, ldr))
	}
}

func rowOf(x []float32, i, ld int) []float32 {
	if x == nil {
		return nil
	}
	return x[i*ld:]
}

// finishRow stores one row of sums, with the additions in the order of Routines.gemm. c may be shorter than acc.
func finishRow(c, acc []float32, accumulate bool, bias, residual []float32) {
	for j := range c {
		s := acc[j]
		if accumulate {
			s += c[j]
		}
		if bias != nil {
			s += bias[j]
		}
		if residual != nil {
			s += residual[j]
		}
		c[j] = s
	}
}
