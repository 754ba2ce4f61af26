package vec

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func init() { table.Add(isa.NEON, neon) }

func neon() *Routines {
	lanes := isa.NEON.Lanes
	r := &Routines{
		Transpose:  transposeOf(lanes, transposeNEON),
		CopyRows:   copyRowsOf(lanes, copyRowsNEON),
		Reverse:    ReverseInGo[float32],
		DotRows:    dotRowsOf(dotRowsNEON),
		WidenF16:   convertOf(lanes, widenF16NEON, widenF16),
		WidenBF16:  convertOf(lanes, widenBF16NEON, dtype.BF16ToF32),
		NarrowF16:  convertOf(lanes, narrowF16NEON, dtype.F32ToF16),
		NarrowBF16: convertOf(lanes, narrowBF16NEON, dtype.F32ToBF16),
	}
	r.setStencilsInGo(lanes)
	r.CopyRuns = copyRunsOf(copyRunsNEON)
	return r
}
