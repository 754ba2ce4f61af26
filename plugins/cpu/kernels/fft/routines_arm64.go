package fft

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { table.Add(isa.NEON, inGo[float32]) }
