package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	normTable.Add(isa.AVX2, normAVX2)
	normTable.Add(isa.AVX512, normAVX512)
}

func normAVX2() *normRoutines {
	lanes := isa.AVX2.Lanes
	return &normRoutines{
		passes: passes{
			scoreMax: scoreMaxOf(2*lanes, scoreMaxAVX2), scoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxAVX2),
			expSum: expSumOf(2*lanes, expSumAVX2), scaleRows: scaleRowsOf(2*lanes, scaleRowsAVX2),
		},
		narrow: passes{
			scoreMax: scoreMaxOf(lanes, scoreMaxNarrowAVX2), scoreBiasMax: scoreBiasMaxOf(lanes, scoreBiasMaxNarrowAVX2),
			expSum: expSumOf(lanes, expSumNarrowAVX2), scaleRows: scaleRowsOf(lanes, scaleRowsNarrowAVX2),
		},
	}
}

func normAVX512() *normRoutines {
	lanes := isa.AVX512.Lanes
	return &normRoutines{
		passes: passes{
			scoreMax: scoreMaxOf(2*lanes, scoreMaxAVX512), scoreBiasMax: scoreBiasMaxOf(2*lanes, scoreBiasMaxAVX512),
			expSum: expSumOf(2*lanes, expSumAVX512), scaleRows: scaleRowsOf(2*lanes, scaleRowsAVX512),
		},
		narrow: passes{
			scoreMax: scoreMaxOf(lanes, scoreMaxNarrowAVX512), scoreBiasMax: scoreBiasMaxOf(lanes, scoreBiasMaxNarrowAVX512),
			expSum: expSumOf(lanes, expSumNarrowAVX512), scaleRows: scaleRowsOf(lanes, scaleRowsNarrowAVX512),
		},
	}
}
