package ranking

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

func TestTopKScratch(t *testing.T) {
	const rows, n, k = 50, 3000, 2900
	src := kerneltest.Randoms(kerneltest.RNG(9), rows*n)
	kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
		TopK(p, make([]float32, rows*k), make([]byte, 4*rows*k), dtype.I32, src, rows, n, k, FloatOrder[float32]())
		var other int64
		for i := range p.Threads() {
			other += pool.SizeOf[ranked](cap(*pool.Own[[]ranked](p.Scratch(i))))
		}
		kerneltest.Fits(t, p, TopKScratch(p, n, k), other, "top_k")
	})
}
