package conv

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

func init() {
	lastTable.Add(isa.AVX2, func() *lastRoutines {
		return &lastRoutines{sums: 12, vectors: 3,
			tile: lastOf(last1AVX2, last2AVX2, last3AVX2),
			each: lastOf(lastEach1AVX2, lastEach2AVX2, lastEach3AVX2),
			mask: func(channels int) uintptr {
				return uintptr(unsafe.Pointer(&maskLanes[isa.AVX2.Lanes-channels]))
			}}
	})
	lastTable.Add(isa.AVX512, func() *lastRoutines {
		return &lastRoutines{sums: 24, vectors: 4,
			tile: lastOf(last1AVX512, last2AVX512, last3AVX512, last4AVX512),
			each: lastOf(lastEach1AVX512, lastEach2AVX512, lastEach3AVX512, lastEach4AVX512),
			mask: func(channels int) uintptr { return 1<<channels - 1 }}
	})
}

// maskLanes[8-n:] is a mask of 8 lanes whose first n are set.
var maskLanes = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

// lastOf adapts a set's routines for one vector, two and so on. lastRun has checked the bounds.
func lastOf(routines ...func(t *byte, pixels int)) func(*convolution, *lastTiles, []int, int, int) {
	return func(_ *convolution, t *lastTiles, list []int, pixels, vectors int) {
		t.list = uintptr(unsafe.Pointer(&list[0]))
		routines[vectors-1]((*byte)(unsafe.Pointer(t)), pixels)
	}
}
