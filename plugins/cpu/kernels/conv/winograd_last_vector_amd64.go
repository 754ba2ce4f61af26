package conv

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func init() {
	winogradLastTable.Add(isa.AVX2, func() *winogradLastRoutines {
		return winogradLastOf(isa.AVX2, winogradLastInAVX2, winogradLastOutAVX2, winogradLastSeenAVX2)
	})
	winogradLastTable.Add(isa.AVX512, func() *winogradLastRoutines {
		return winogradLastOf(isa.AVX512, winogradLastInAVX512, winogradLastOutAVX512, winogradLastSeenAVX512)
	})
}

// winogradLastOf adapts a set's routines. The state describes slices of sufficient size.
func winogradLastOf(set *isa.Set, in, out func(t *byte),
	seen func(x *float32, ldx, pixels, vectors int, mask uintptr, most *float32)) *winogradLastRoutines {
	return &winogradLastRoutines{
		in:  func(_ *winogradLast, k *winogradLastWork) { in((*byte)(unsafe.Pointer(&k.in))) },
		out: func(_ *winogradLast, k *winogradLastWork) { out((*byte)(unsafe.Pointer(&k.out))) },
		seen: func(to, x []float32, channels int) {
			vectors := len(to) / 2 / set.Lanes
			mask := lastOn(set).mask(channels - (vectors-1)*set.Lanes)
			seen(&x[0], channels, len(x)/channels, vectors, mask, &to[0])
		},
	}
}
