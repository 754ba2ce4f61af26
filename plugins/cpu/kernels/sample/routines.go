package sample

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// routines make random numbers.
type routines struct {
	// threefry is dst[i] = random.Threefry({counter, first+i}, key)[0], for whole vectors; nil: computed one by one.
	threefry func(dst []uint32, counter, first uint32, key [2]uint32)
}

var table isa.Table[routines]

func init() { table.Add(isa.Generic, func() *routines { return &routines{} }) }

// on returns the routines of a set.
func on(s *isa.Set) *routines { return table.On(s) }
