package ranking

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

func TestSortScratch(t *testing.T) {
	const n = 30_000
	src := make([]int64, 3*n)
	for i := range src {
		src[i] = int64(i%3)<<60 | int64(i%5)
	}
	for _, outer := range []int{1, 3} { // threads share one line, but take three whole
		kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
			Sort(p, make([]int64, outer*n), make([]byte, 4*outer*n), dtype.I32, src, 1, n, outer, false,
				IntOrder[int64]())
			kerneltest.Fits(t, p, SortScratch(p, n, 8), 0, "sort")
		})
	}
}
