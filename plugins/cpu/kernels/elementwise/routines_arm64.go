package elementwise

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { table.Add(isa.NEON, neon) }

func neon() *Routines {
	r := &Routines{choose: chooseOf(isa.NEON.Lanes, chooseNEON)}
	return r.setElementwise(isa.NEON, unaryNEON, binaryNEON, compareNEON, testNEON, bitsNEON, nil, nil, nil).
		setCasts(castNEON, nil)
}
