// Package quad multiplies matrices of 8-bit integers.
package quad

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// Routines multiply matrices of 8-bit integers.
type Routines struct {
	// Quads multiply matrices of 8-bit integers. If the instruction takes one unsigned and one signed operand, the left
	// one is unsigned in quads[0] and the right one in quads[1]. requantize is dst[i] = clamp(round((acc[i] + add[i] +
	// base) * mult[i])) + zero; NaN counts as 0.
	Quads      [2]Product
	Requantize func(dst []uint8, acc, add []int32, mult []float32, to *Requantizing)
}

var table isa.Table[Routines]

func init() {
	table.Add(isa.Generic, func() *Routines { return inGo(isa.Generic) })
}

// On returns the routines of a set.
func On(s *isa.Set) *Routines { return table.On(s) }
