package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { elemTable.Add(isa.NEON, elemNEON) }

func elemNEON() *elemRoutines {
	r := &elemRoutines{choose: chooseOf(isa.NEON.Lanes, chooseNEON)}
	return r.setElementwise(isa.NEON, unaryNEON, binaryNEON, compareNEON, testNEON, bitsNEON, nil, nil, nil).
		setCasts(castNEON, nil)
}
