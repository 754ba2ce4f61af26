package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { fftTable.Add(isa.NEON, fftRoutinesInGo[float32]) }
