package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// storedRoutines read values as they are stored.
type storedRoutines struct {
	// dotF16 and dotBF16 are dst[r] = x·w[r] for rows of w that are ld elements apart. They return false if x is not a
	// whole number of vectors. nil: rows are widened first.
	dotF16, dotBF16 func(dst []float32, w []uint16, ld int, x []float32) bool

	packed map[dtype.DType]packedRoutines // for packed values; loops in Go decode the other types
}

var storedTable isa.Table[storedRoutines]

func init() { storedTable.Add(isa.Generic, func() *storedRoutines { return &storedRoutines{} }) }

// storedOn returns the routines of a set.
func storedOn(s *isa.Set) *storedRoutines { return storedTable.On(s) }
