package tensor

import (
	"runtime"
	"sync"
)

// copyChunk is what one goroutine copies at least: below it, starting another one costs more than it gains. copyParts is
// how many there are at most: one core moves some 12 GB/s, a handful reach what memory gives.
const (
	copyChunk = 1 << 20
	copyParts = 8
)

// Copy copies src to dst, which must be as long, with several goroutines where that is faster. It is for the ways that images
// and embeddings take between buffers and processes, which would otherwise cost more than small steps.
func Copy(dst, src []byte) {
	if len(dst) != len(src) {
		panic("BUG: tensor.Copy between lengths that differ")
	}
	parts := min(len(src)/copyChunk, copyParts, runtime.GOMAXPROCS(0))
	if parts < 2 {
		copy(dst, src)
		return
	}
	var wg sync.WaitGroup
	for i := range parts {
		from, to := len(src)*i/parts, len(src)*(i+1)/parts
		wg.Go(func() { copy(dst[from:to], src[from:to]) })
	}
	wg.Wait()
}
