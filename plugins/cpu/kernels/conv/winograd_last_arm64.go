package conv

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	winogradLastTable.Add(isa.NEON, func() *winogradLastRoutines { return &winogradLastRoutines{} }) // none yet
}
