package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Precision says how the operands of matrix products are rounded.
type Precision uint8

// The precisions. Both sum in float32.
const (
	Float32 Precision = iota
	// BFloat16 rounds both operands to bfloat16, ties to even. If the processor has instructions for that, these may
	// take denormal operands and results as zero.
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

// packing is the format of a product's packed operands.
type packing uint8

const (
	plain   packing = iota // float32
	rounded                // float32, rounded to bfloat16
	pairs                  // 32-bit pairs of bfloat16, elements 2i and 2i+1 along k
	tiled                  // B as pairs, A in blocks of [32 rows, 32 k] bfloat16; see productRoutines.tiles
)

// packing returns the fastest packing for a precision.
func packingOf(s *isa.Set, p Precision) packing {
	switch {
	case p == Float32:
		return plain
	case productOn(s).tiles != nil:
		return tiled
	case productOn(s).pairs != nil:
		return pairs
	}
	return rounded
}

// tileSide is the number of rows of a block of A, and of its elements along k.
const tileSide = 32

// depth returns how many float32 of memory k elements along k take.
func (w packing) depth(k int) int {
	switch w {
	case pairs:
		return (k + 1) / 2
	case tiled:
		return (k + tileSide - 1) / tileSide * (tileSide / 2)
	}
	return k
}

// rows returns how many rows are stored for n rows of A: tiled rounds up to whole blocks.
func (w packing) rows(n int) int {
	if w == tiled {
		return (n + tileSide - 1) / tileSide * tileSide
	}
	return n
}

// panelRows returns the number of rows of a panel of A.
func rowsOfPanel(s *isa.Set, w packing) int {
	if w == tiled {
		return tileSide
	}
	return productOn(s).mr
}

// convert turns a panel of floats [k, width] into the packing w, in dst. If w is plain or rounded, panel may be dst. If
// it is pairs or tiled, convert pads panel with rows of zeros, for which it must have room: 2*w.depth(k) rows. Both
// have spill floats behind them.
func convert(s *isa.Set, w packing, dst, panel []float32, width, k int) {
	switch w {
	case rounded:
		productOn(s).round(dst[:width*k], panel[:width*k])
	case pairs, tiled:
		n := w.depth(k)
		clear(panel[k*width : 2*n*width])
		productOn(s).pair(dst, panel, width, n)
	}
}

// buffer returns the size of the panel that convert reads; 0 if it works in place.
func (w packing) buffer(width, k int) int {
	if w == pairs || w == tiled {
		return 2*w.depth(k)*width + spill
	}
	return 0
}

// packTileRows packs rows of k elements, ld apart, as the left operand of a product of tiles.
func packTileRows(s *isa.Set, dst, src []float32, ld, rows, k int) {
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
		productOn(s).tileRow(at, row, whole)
		if whole < steps {
			var rest [tileSide]float32
			copy(rest[:], row[whole*tileSide:k])
			productOn(s).tileRow(at[whole*block:], rest[:], 1)
		}
	}
}

// pairBlocked packs a panel of up to 32 columns of k elements, ld apart, as pairs. It rounds them into blocks in buf
// and transposes these. buf has the size of the panel.
func pairBlocked(s *isa.Set, dst, buf, src []float32, ld, cols, k int) {
	const block = tileSide * tileSide / 2
	packTileRows(s, buf, src, ld, cols, k)
	if cols < tileSide {
		clear(dst[:(k+tileSide-1)/tileSide*block])
	}
	for at := 0; at < k*(tileSide/2); at += block {
		for h := 0; h < cols; h += s.Lanes {
			vecOn(s).transpose(dst[at+h:], tileSide, buf[at+h*(tileSide/2):], tileSide/2, s.Lanes, tileSide/2)
		}
	}
}

// roundBF16 rounds x to bfloat16.
func roundBF16(x float32) float32 { return dtype.BF16ToF32(dtype.F32ToBF16(x)) }
