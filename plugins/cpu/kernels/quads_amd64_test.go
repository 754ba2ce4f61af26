package kernels

import (
	"sync"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// withoutQuads returns a set that is AVX-512 but multiplies integers of 16 bits.
var withoutQuads = sync.OnceValue(func() *isa.Set {
	s := isa.Extend(isa.AVX512, "avx512 without quads")
	quadTable.Add(s, halvesAVX512)
	return s
})
