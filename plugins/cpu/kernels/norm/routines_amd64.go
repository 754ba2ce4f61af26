package norm

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	table.Add(isa.AVX2, avx2)
	table.Add(isa.AVX512, avx512)
}

func avx2() *Routines {
	lanes := isa.AVX2.Lanes
	return &Routines{
		Passes: Passes{
			ScoreMax: scoreMaxOf(2*lanes, scoreMaxAVX2), ScoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxAVX2),
			ExpSum: expSumOf(2*lanes, expSumAVX2), ScaleRows: scaleRowsOf(2*lanes, scaleRowsAVX2),
		},
		Narrow: Passes{
			ScoreMax: scoreMaxOf(lanes, scoreMaxNarrowAVX2), ScoreBiasMax: scoreBiasMaxOf(lanes,
				scoreBiasMaxNarrowAVX2),
			ExpSum: expSumOf(lanes, expSumNarrowAVX2), ScaleRows: scaleRowsOf(lanes, scaleRowsNarrowAVX2),
		},
	}
}

func avx512() *Routines {
	lanes := isa.AVX512.Lanes
	return &Routines{
		Passes: Passes{
			ScoreMax: scoreMaxOf(2*lanes, scoreMaxAVX512), ScoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxAVX512),
			ExpSum: expSumOf(2*lanes, expSumAVX512), ScaleRows: scaleRowsOf(2*lanes, scaleRowsAVX512),
		},
		Narrow: Passes{
			ScoreMax: scoreMaxOf(lanes, scoreMaxNarrowAVX512), ScoreBiasMax: scoreBiasMaxOf(lanes,
				scoreBiasMaxNarrowAVX512),
			ExpSum: expSumOf(lanes, expSumNarrowAVX512), ScaleRows: scaleRowsOf(lanes, scaleRowsNarrowAVX512),
		},
	}
}
