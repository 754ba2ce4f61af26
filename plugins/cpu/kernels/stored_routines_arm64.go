package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	storedTable.Add(isa.NEON, func() *storedRoutines { return &storedRoutines{packed: packedNEON()} })
}
