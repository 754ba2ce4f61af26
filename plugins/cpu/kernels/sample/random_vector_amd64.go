package sample

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	table.Add(isa.AVX2, func() *routines {
		return &routines{threefryOf(isa.AVX2.Lanes, threefryAVX2)}
	})
	table.Add(isa.AVX512, func() *routines {
		return &routines{threefryOf(isa.AVX512.Lanes, threefryAVX512)}
	})
}

func threefryOf(lanes int, f func(dst *uint32, blocks int, counter, first, key0, key1 uint32)) func(
	dst []uint32, counter, first uint32, key [2]uint32) {
	return func(dst []uint32, counter, first uint32, key [2]uint32) {
		if n := len(dst) / lanes; n > 0 {
			f(&dst[0], n, counter, first, key[0], key[1])
		}
	}
}
