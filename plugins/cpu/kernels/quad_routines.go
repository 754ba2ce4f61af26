package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// quadRoutines multiply matrices of 8-bit integers.
type quadRoutines struct {
	// quads multiply matrices of 8-bit integers. If the instruction takes one unsigned and one signed operand, the left
	// one is unsigned in quads[0] and the right one in quads[1]. requantize is dst[i] = clamp(round((acc[i] + add[i] +
	// base) * mult[i])) + zero; NaN counts as 0.
	quads      [2]integerProduct
	requantize func(dst []uint8, acc, add []int32, mult []float32, to *requantizing)
}

var quadTable isa.Table[quadRoutines]

func init() {
	quadTable.Add(isa.Generic, func() *quadRoutines { return quadInGo(isa.Generic) })
}

// quadOn returns the routines of a set.
func quadOn(s *isa.Set) *quadRoutines { return quadTable.On(s) }
