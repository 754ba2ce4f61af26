package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// randomRoutines make random numbers.
type randomRoutines struct {
	// threefry is dst[i] = random.Threefry({counter, first+i}, key)[0], for whole vectors; nil: computed one by one.
	threefry func(dst []uint32, counter, first uint32, key [2]uint32)
}

var randomTable isa.Table[randomRoutines]

func init() { randomTable.Add(isa.Generic, func() *randomRoutines { return &randomRoutines{} }) }

// randomOn returns the routines of a set.
func randomOn(s *isa.Set) *randomRoutines { return randomTable.On(s) }
