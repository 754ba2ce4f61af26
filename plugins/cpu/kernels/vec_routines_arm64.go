package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func init() { vecTable.Add(isa.NEON, vecNEON) }

func vecNEON() *vecRoutines {
	lanes := isa.NEON.Lanes
	r := &vecRoutines{
		transpose:  transposeOf(lanes, transposeNEON),
		copyRows:   copyRowsOf(lanes, copyRowsNEON),
		reverse:    reverseInGo[float32],
		dotRows:    dotRowsOf(dotRowsNEON),
		widenF16:   convertOf(lanes, widenF16NEON, dtype.F16ToF32),
		widenBF16:  convertOf(lanes, widenBF16NEON, dtype.BF16ToF32),
		narrowF16:  convertOf(lanes, narrowF16NEON, dtype.F32ToF16),
		narrowBF16: convertOf(lanes, narrowBF16NEON, dtype.F32ToBF16),
	}
	return r.setStencilsInGo(lanes)
}
