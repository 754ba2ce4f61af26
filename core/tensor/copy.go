package tensor

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Large copies use several goroutines: one core moves some 12 GB/s, and a dozen reach the bandwidth of the memory. A
// goroutine is started for each copyChunk bytes, up to copyParts, because starting one for less costs more than it
// saves. Goroutines take copyGrain bytes at a time, so a late one leaves more to the others.
const (
	copyChunk = 512 << 10
	copyParts = 16
	copyGrain = 128 << 10
)

// Copy copies src to dst, which must have the same length, on several cores if it is long.
func Copy(dst, src []byte) {
	checkCopy(dst, src)
	if len(src) < 2*copyChunk { // without the allocation for the function below
		copy(dst, src)
		return
	}
	inParts(len(src), func(from, to int) { copy(dst[from:to], src[from:to]) })
}

// Move copies src to dst, which must have the same length, and clears src. Each part is cleared while it is in the
// cache, which is faster than Copy and Clear.
func Move(dst, src []byte) {
	checkCopy(dst, src)
	if len(src) < 2*copyChunk {
		copy(dst, src)
		clear(src)
		return
	}
	inParts(len(src), func(from, to int) {
		copy(dst[from:to], src[from:to])
		clear(src[from:to])
	})
}

func checkCopy(dst, src []byte) {
	if len(dst) != len(src) {
		panic("BUG: a copy between slices of different lengths")
	}
}

// Clear sets b to zero, on several cores if it is long.
func Clear(b []byte) { inParts(len(b), func(from, to int) { clear(b[from:to]) }) }

// Touch makes the system provide the pages of b, whose bytes are zero or will be overwritten, now and not when it is
// first written. A copy into new memory otherwise spends most of its time on page faults.
func Touch(b []byte) {
	const page = 4096
	inParts(len(b), func(from, to int) {
		for i := from; i < to; i += page {
			b[i] = 0
		}
	})
}

// InParts calls f for all elements [from, to) of an array of n elements, in parts on several cores if it is long.
func InParts(n int, f func(from, to int)) {
	const size = 8 // of an element of an Array
	inParts(n*size, func(from, to int) { f(from/size, to/size) })
}

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
