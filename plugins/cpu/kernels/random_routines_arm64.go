package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { randomTable.Add(isa.NEON, func() *randomRoutines { return &randomRoutines{} }) }
