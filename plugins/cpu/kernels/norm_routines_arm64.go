package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { normTable.Add(isa.NEON, normNEON) }

func normNEON() *normRoutines {
	lanes := isa.NEON.Lanes
	return &normRoutines{
		passes: passes{
			scoreMax: scoreMaxOf(2*lanes, scoreMaxNEON), scoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxNEON),
			expSum: expSumOf(2*lanes, expSumNEON), scaleRows: scaleRowsOf(2*lanes, scaleRowsNEON),
		},
		narrow: passes{
			scoreMax: scoreMaxOf(lanes, scoreMaxNarrowNEON), scoreBiasMax: scoreBiasMaxOf(lanes, scoreBiasMaxNarrowNEON),
			expSum: expSumOf(lanes, expSumNarrowNEON), scaleRows: scaleRowsOf(lanes, scaleRowsNarrowNEON),
		},
	}
}
