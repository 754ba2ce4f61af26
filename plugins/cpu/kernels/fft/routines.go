package fft

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// table has the routines for float32.
var table isa.Table[routines[float32]]

func init() { table.Add(isa.Generic, inGo[float32]) }
