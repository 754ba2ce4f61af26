package tensor

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// There is a goroutine for each copyChunk bytes: for less, starting one costs more than it gains. copyParts is how many there
// are at most: one core moves some 12 GB/s, a handful reach what memory gives. They take copyGrain bytes at a time, since a
// processor that slept comes late.
const (
	copyChunk = 512 << 10
	copyParts = 8
	copyGrain = 128 << 10
)

// Copy copies src to dst, which must be as long, with several goroutines where that is faster. It is for the ways that images
// and embeddings take between buffers and processes, which would otherwise cost more than small steps.
func Copy(dst, src []byte) {
	if len(dst) != len(src) {
		panic("BUG: tensor.Copy between lengths that differ")
	}
	inParts(len(src), func(from, to int) { copy(dst[from:to], src[from:to]) })
}

// Clear sets b to zero, as Copy copies.
func Clear(b []byte) { inParts(len(b), func(from, to int) { clear(b[from:to]) }) }

func inParts(n int, f func(from, to int)) {
	parts := min(n/copyChunk, copyParts, runtime.GOMAXPROCS(0))
	if parts < 2 {
		f(0, n)
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			to := int(next.Add(copyGrain))
			if from := to - copyGrain; from < n {
				f(from, min(to, n))
			} else {
				return
			}
		}
	}
	var wg sync.WaitGroup
	for range parts - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
