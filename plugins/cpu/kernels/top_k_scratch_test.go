package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
)

func TestTopKScratch(t *testing.T) {
	const rows, n, k = 50, 3000, 2900
	src := randoms(rng(9), rows*n)
	eachNewPool(t, func(t *testing.T, p *Pool) {
		TopK(p, make([]float32, rows*k), make([]byte, 4*rows*k), dtype.I32, src, rows, n, k, FloatOrder[float32]())
		var other int64
		for i := range p.Threads() {
			other += sizeOf[ranked](cap(*own[[]ranked](p.scratch(i))))
		}
		fits(t, p, TopKScratch(p, n, k), other, "top_k")
	})
}
