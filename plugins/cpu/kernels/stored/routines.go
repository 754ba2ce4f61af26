package stored

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Routines read values as they are stored.
type Routines struct {
	// DotF16 and dotBF16 are dst[r] = x·w[r] for rows of w that are ld elements apart. They return false if x is not a
	// whole number of vectors. nil: rows are widened first.
	DotF16, dotBF16 func(dst []float32, w []uint16, ld int, x []float32) bool

	Packed map[dtype.DType]PackedRoutines // for packed values; loops in Go decode the other types
}

var table isa.Table[Routines]

func init() { table.Add(isa.Generic, func() *Routines { return &Routines{} }) }

// On returns the routines of a set.
func On(s *isa.Set) *Routines { return table.On(s) }
