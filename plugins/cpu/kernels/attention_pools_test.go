package kernels

import "testing"

// eachTiledPool is eachPool, also with emulated tiles if the processor has none.
func eachTiledPool(t *testing.T, f func(t *testing.T, p *Pool)) { eachPool(t, f, EmulatedTiles()...) }
