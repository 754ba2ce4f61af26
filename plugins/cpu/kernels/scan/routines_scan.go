package scan

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// scanRoutines are running sums, products and maxima: dst[i] = acc op src[0] op ... op src[i]. They return the last
// one, unrounded. nil: loops in Go.
type scanRoutines [scanCount]func(dst, src []float32, acc float64) float64

var scanTable isa.Table[scanRoutines]

func init() { scanTable.Add(isa.Generic, func() *scanRoutines { return &scanRoutines{} }) }

// scanOn returns the routines of a set.
func scanOn(s *isa.Set) *scanRoutines { return scanTable.On(s) }
