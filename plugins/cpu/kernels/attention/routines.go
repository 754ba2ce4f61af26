package attention

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// routines compute attention in tiles. All are nil if the set has no tiles.
type routines struct {
	// attend computes attention for one panel of queries, see attendPanel.
	attend func(a *attendPanel)
	// tileRows rounds n <= 16 rows of 32*steps floats, ld apart, to rows of steps consecutive tiles of bfloat16.
	// tileRowsSplit also rounds the rounding errors, into low, and prefetches src from ahead floats on. tilePairs is
	// pair for rows of 16*vectors floats, ld apart. tileTerms multiplies sums of two bfloat16, see termTiles. tileOut
	// computes the final results of attend: dst[j*ldd+i] = o[i*16+j] / l[j], i < 16*tiles, j < n.
	tileRows      func(dst, src []float32, ld, n, steps int)
	tileRowsSplit func(dst, low, src []float32, ld, n, steps, ahead int)
	tilePairs     func(dst, src []float32, ld, n, vectors int)
	tileTerms     func(t *termTiles)
	tileOut       func(dst []float32, ldd int, o, l []float32, n, tiles int)
}

var setTable isa.Table[routines]

func init() { setTable.Add(isa.Generic, func() *routines { return &routines{} }) }

// on returns the routines of a set.
func on(s *isa.Set) *routines { return setTable.On(s) }
