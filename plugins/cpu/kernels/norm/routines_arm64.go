package norm

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { table.Add(isa.NEON, neon) }

func neon() *Routines {
	lanes := isa.NEON.Lanes
	return &Routines{
		Passes: Passes{
			ScoreMax: scoreMaxOf(2*lanes, scoreMaxNEON), ScoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxNEON),
			ExpSum: expSumOf(2*lanes, expSumNEON), ScaleRows: scaleRowsOf(2*lanes, scaleRowsNEON),
		},
		Narrow: Passes{
			ScoreMax: scoreMaxOf(lanes, scoreMaxNarrowNEON), ScoreBiasMax: scoreBiasMaxOf(lanes,
				scoreBiasMaxNarrowNEON),
			ExpSum: expSumOf(lanes, expSumNarrowNEON), ScaleRows: scaleRowsOf(lanes, scaleRowsNarrowNEON),
		},
	}
}
