package kernels

import "testing"

// eachTiled is eachPool, also with emulated tiles if the processor has none.
func eachTiled(t *testing.T, f func(t *testing.T, p *Pool)) { eachPool(t, f, EmulatedTiles()...) }
