package conv

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	lastTable.Add(isa.NEON, func() *lastRoutines { return &lastRoutines{} }) // none yet
}
