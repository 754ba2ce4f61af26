package quad

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	table.Add(isa.NEON, func() *Routines { return inGo(isa.NEON) })
}
