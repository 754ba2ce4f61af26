package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { reduceTable.Add(isa.NEON, reduceNEON) }

func reduceNEON() *reduceRoutines {
	lanes := isa.NEON.Lanes
	return &reduceRoutines{
		sum: sumOf(lanes, sumNEON), deviations: deviationsOf(lanes, deviationsNEON), normalize: normalizeOf(lanes, normalizeNEON),
	}
}
