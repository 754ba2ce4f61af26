package reduce

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { table.Add(isa.NEON, neon) }

func neon() *Routines {
	lanes := isa.NEON.Lanes
	return &Routines{
		Sum: sumOf(lanes, sumNEON), Deviations: deviationsOf(lanes, deviationsNEON),
		Normalize: normalizeOf(lanes, normalizeNEON),
	}
}
