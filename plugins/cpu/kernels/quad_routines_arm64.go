package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	quadTable.Add(isa.NEON, func() *quadRoutines { return quadInGo(isa.NEON) })
}
