package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
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

// Packing is the format of a product's packed operands.
type Packing uint8

const (
	Plain   Packing = iota // float32
	rounded                // float32, rounded to bfloat16
	Pairs                  // 32-bit pairs of bfloat16, elements 2i and 2i+1 along k
	Tiled                  // B as pairs, A in blocks of [32 rows, 32 k] bfloat16; see Routines.tiles
)

// packing returns the fastest packing for a precision.
func PackingOf(s *isa.Set, p Precision) Packing {
	switch {
	case p == Float32:
		return Plain
	case On(s).Tiles != nil:
		return Tiled
	case On(s).Pairs != nil:
		return Pairs
	}
	return rounded
}

// TileSide is the number of rows of a block of A, and of its elements along k.
const TileSide = 32

// Depth returns how many float32 of memory k elements along k take.
func (w Packing) Depth(k int) int {
	switch w {
	case Pairs:
		return (k + 1) / 2
	case Tiled:
		return (k + TileSide - 1) / TileSide * (TileSide / 2)
	}
	return k
}

// Rows returns how many rows are stored for n rows of A: tiled rounds up to whole blocks.
func (w Packing) Rows(n int) int {
	if w == Tiled {
		return (n + TileSide - 1) / TileSide * TileSide
	}
	return n
}

// attention.panelRows returns the number of rows of a panel of A.
func RowsOfPanel(s *isa.Set, w Packing) int {
	if w == Tiled {
		return TileSide
	}
	return On(s).MR
}

// Convert turns a panel of floats [k, width] into the packing w, in dst. If w is plain or rounded, panel may be dst. If
// it is pairs or tiled, convert pads panel with rows of zeros, for which it must have room: 2*w.depth(k) rows. Both
// have spill floats behind them.
func Convert(s *isa.Set, w Packing, dst, panel []float32, width, k int) {
	switch w {
	case rounded:
		On(s).round(dst[:width*k], panel[:width*k])
	case Pairs, Tiled:
		n := w.Depth(k)
		clear(panel[k*width : 2*n*width])
		On(s).pair(dst, panel, width, n)
	}
}

// Buffer returns the size of the panel that convert reads; 0 if it works in place.
func (w Packing) Buffer(width, k int) int {
	if w == Pairs || w == Tiled {
		return 2*w.Depth(k)*width + Spill
	}
	return 0
}

// PackTileRows packs rows of k elements, ld apart, as the left operand of a product of tiles.
func PackTileRows(s *isa.Set, dst, src []float32, ld, rows, k int) {
	const block = TileSide * TileSide / 2
	steps := (k + TileSide - 1) / TileSide
	for r := range (rows + TileSide - 1) / TileSide * TileSide {
		at := dst[r/TileSide*steps*block+r%TileSide*TileSide/2:]
		if r >= rows {
			for i := range steps {
				clear(at[i*block:][:TileSide/2])
			}
			continue
		}
		whole := k / TileSide
		row := src[r*ld:]
		On(s).tileRow(at, row, whole)
		if whole < steps {
			var rest [TileSide]float32
			copy(rest[:], row[whole*TileSide:k])
			On(s).tileRow(at[whole*block:], rest[:], 1)
		}
	}
}

// pairBlocked packs a panel of up to 32 columns of k elements, ld apart, as pairs. It rounds them into blocks in buf
// and transposes these. buf has the size of the panel.
func pairBlocked(s *isa.Set, dst, buf, src []float32, ld, cols, k int) {
	const block = TileSide * TileSide / 2
	PackTileRows(s, buf, src, ld, cols, k)
	if cols < TileSide {
		clear(dst[:(k+TileSide-1)/TileSide*block])
	}
	for at := 0; at < k*(TileSide/2); at += block {
		for h := 0; h < cols; h += s.Lanes {
			vec.On(s).Transpose(dst[at+h:], TileSide, buf[at+h*(TileSide/2):], TileSide/2, s.Lanes, TileSide/2)
		}
	}
}

// RoundBF16 rounds x to bfloat16.
func RoundBF16(x float32) float32 { return dtype.BF16ToF32(dtype.F32ToBF16(x)) }
