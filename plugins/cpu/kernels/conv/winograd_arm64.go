package conv

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	winogradTable.Add(isa.NEON, func() *winogradRoutines { return &winogradRoutines{} }) // none yet
}
