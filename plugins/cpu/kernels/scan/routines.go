package scan

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// recTable has the routines for one token of each recurrence.
var recTable isa.Table[strips]

func init() { recTable.Add(isa.Generic, stripsInGo) }

// recOn returns the routines of a set.
func recOn(s *isa.Set) *strips { return recTable.On(s) }
