package sample

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { table.Add(isa.NEON, func() *routines { return &routines{} }) }
