package attention

import (
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// eachTiledPool is kerneltest.EachPool, also with emulated tiles if the processor has none.
func eachTiledPool(t *testing.T, f func(t *testing.T, p *pool.Pool)) {
	kerneltest.EachPool(t, f, product.EmulatedTiles()...)
}
