package attention

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// No set of arm64 has tiles.
func init() { setTable.Add(isa.NEON, func() *routines { return &routines{} }) }
