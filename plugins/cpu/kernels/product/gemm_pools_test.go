package product

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// eachTiled is kerneltest.EachPool, also with emulated tiles if the processor has none.
func eachTiled(t *testing.T, f func(t *testing.T, p *pool.Pool)) {
	kerneltest.EachPool(t, f, EmulatedTiles()...)
}
