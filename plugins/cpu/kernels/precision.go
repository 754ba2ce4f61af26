package kernels

import "github.com/rlx-go/rlx/core/dtype"

// Precision is the arithmetic of products.
type Precision uint8

// The precisions. Sums are float32 in both.
const (
	Float32 Precision = iota
	// BFloat16 rounds both operands to bfloat16, to even. Where the processor multiplies them itself, denormal operands and
	// results may count as zero.
	BFloat16
)

var precisionNames = []string{"f32", "bf16"}

func (p Precision) String() string { return precisionNames[p] }

// ParsePrecision finds a precision by its name.
func ParsePrecision(name string) (Precision, bool) {
	for i, n := range precisionNames {
		if n == name {
			return Precision(i), true
		}
	}
	return Float32, false
}

// packing is how the operands of a product are packed.
type packing uint8

const (
	plain   packing = iota // float32
	rounded                // float32 with the values of bfloat16
	pairs                  // two bfloat16 in the place of a float32: elements 2i and 2i+1 along k
	tiled                  // the second operand as pairs; the first in blocks of 32 rows by 32 elements, see isa.tiles
)

// packing is the fastest packing that the processor has for a precision.
func (s *isa) packing(p Precision) packing {
	switch {
	case p == Float32:
		return plain
	case s.tiles != nil:
		return tiled
	case s.pairs != nil:
		return pairs
	}
	return rounded
}

// tileSide is the rows of a block, and the elements of a row along k.
const tileSide = 32

// depth is the memory of k elements along the depth, in float32.
func (w packing) depth(k int) int {
	switch w {
	case pairs:
		return (k + 1) / 2
	case tiled:
		return (k + tileSide - 1) / tileSide * (tileSide / 2)
	}
	return k
}

// rows is n rounded up to the rows that are stored of the first operand.
func (w packing) rows(n int) int {
	if w == tiled {
		return (n + tileSide - 1) / tileSide * tileSide
	}
	return n
}

// panelRows is the height of a panel of the first operand.
func (s *isa) panelRows(w packing) int {
	if w == tiled {
		return tileSide
	}
	return s.mr
}

// convert packs a panel of k rows of width floats into dst. panel may be dst if the packing is plain or rounded; otherwise its memory
// holds whole tiles of rows. Both have the spill behind them.
func (s *isa) convert(w packing, dst, panel []float32, width, k int) {
	switch w {
	case rounded:
		s.round(dst[:width*k], panel[:width*k])
	case pairs, tiled:
		n := w.depth(k)
		clear(panel[k*width : 2*n*width])
		s.pair(dst, panel, width, n)
	}
}

// buffer is the size of the panel that convert needs beside its result.
func (w packing) buffer(width, k int) int {
	if w == pairs || w == tiled {
		return 2*w.depth(k)*width + spill
	}
	return 0
}

// packTileRows packs rows [0, rows) of k elements, ld apart, into the first operand of a product of tiles.
func (s *isa) packTileRows(dst, src []float32, ld, rows, k int) {
	const block = tileSide * tileSide / 2
	steps := (k + tileSide - 1) / tileSide
	for r := range (rows + tileSide - 1) / tileSide * tileSide {
		at := dst[r/tileSide*steps*block+r%tileSide*tileSide/2:]
		if r >= rows {
			for i := range steps {
				clear(at[i*block:][:tileSide/2])
			}
			continue
		}
		whole := k / tileSide
		row := src[r*ld:]
		s.tileRow(at, row, whole)
		if whole < steps {
			var rest [tileSide]float32
			copy(rest[:], row[whole*tileSide:k])
			s.tileRow(at[whole*block:], rest[:], 1)
		}
	}
}

// pairBlocked packs a panel of up to 32 columns of k elements, ld apart, as pairs: it rounds them into blocks in buf, then transposes
// those. buf is as long as the panel.
func (s *isa) pairBlocked(dst, buf, src []float32, ld, cols, k int) {
	const block = tileSide * tileSide / 2
	s.packTileRows(buf, src, ld, cols, k)
	if cols < tileSide {
		clear(dst[:(k+tileSide-1)/tileSide*block])
	}
	for at := 0; at < k*(tileSide/2); at += block {
		for h := 0; h < cols; h += s.lanes {
			s.transpose(dst[at+h:], tileSide, buf[at+h*(tileSide/2):], tileSide/2, s.lanes, tileSide/2)
		}
	}
}

// roundBF16 is x rounded to bfloat16.
func roundBF16(x float32) float32 { return dtype.BF16ToF32(dtype.F32ToBF16(x)) }
