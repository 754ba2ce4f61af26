package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// fftTable has the routines for float32.
var fftTable isa.Table[fftRoutines[float32]]

func init() { fftTable.Add(isa.Generic, fftRoutinesInGo[float32]) }
