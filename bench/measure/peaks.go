package measure

import (
	"runtime"
	"time"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// Peaks are the highest rates of a machine.
type Peaks struct {
	Features string `json:"features"` // instruction set of the loops
	Threads  int    `json:"threads"`
	// GFLOP/s of f32 multiply-adds, two operations each; 0 if the instruction set has no loop for them.
	FMA1 float64 `json:"fma_gflop_per_s_1_thread"`
	FMA  float64 `json:"fma_gflop_per_s"`
	// GFLOP/s of bfloat16 products with sums in f32; 0 if the processor has no instructions for them.
	Half1 float64 `json:"bf16_gflop_per_s_1_thread"`
	Half  float64 `json:"bf16_gflop_per_s"`
	// GB/s, bytes read plus bytes written.
	Copy1 float64 `json:"copy_gb_per_s_1_thread"`
	Copy  float64 `json:"copy_gb_per_s"`
}

// Of returns the peak of matrix products in a precision. A processor without instructions for bf16 computes these in
// f32.
func (p Peaks) Of(precision string) float64 {
	if precision == "bf16" && p.Half > 0 {
		return p.Half
	}
	return p.FMA
}

// Best returns the higher of two measurements of each peak, because disturbances only lower them.
func (p Peaks) Best(q Peaks) Peaks {
	if q.Features != "" {
		p.Features, p.Threads = q.Features, q.Threads
	}
	p.FMA1, p.FMA = max(p.FMA1, q.FMA1), max(p.FMA, q.FMA)
	p.Half1, p.Half = max(p.Half1, q.Half1), max(p.Half, q.Half)
	p.Copy1, p.Copy = max(p.Copy1, q.Copy1), max(p.Copy, q.Copy)
	return p
}

// Machine measures this machine on one thread and on the given number of threads (0 for one per processor), for span
// per figure. Arithmetic is measured in a loop that uses only registers, with the vectors or tiles of the cpu backend.
// Bandwidth is measured by copying between two buffers that are much larger than any cache.
func Machine(threads int, span time.Duration) (Peaks, error) {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	var p Peaks
	const size = 128 << 20
	src, dst := make([]byte, size), make([]byte, size)
	for i := range src { // otherwise all pages would map to the same page of zeros, which fits in a cache
		src[i] = byte(i)
	}
	for _, n := range []int{1, threads} {
		pool, err := pool.New(n)
		if err != nil {
			return p, err
		}
		p.Features, p.Threads = pool.Features(), n
		p.FMA = Best(span, func() float64 { return product.FMAFlops(pool, PeakRounds) }) / 1e9
		p.Half = Best(span, func() float64 { return product.HalfFlops(pool, PeakRounds) }) / 1e9
		p.Copy = Best(span, func() float64 { return copied(pool, dst, src) }) / 1e9
		if n == 1 {
			p.FMA1, p.Half1, p.Copy1 = p.FMA, p.Half, p.Copy
		}
		pool.Close()
	}
	return p, nil
}

// copied copies src to dst on all workers and returns the bytes read and written.
func copied(pool *pool.Pool, dst, src []byte) float64 {
	const piece = 4 << 20
	pool.Run((len(src)+piece-1)/piece, func(task, _ int) {
		at := task * piece
		end := min(at+piece, len(src))
		copy(dst[at:end], src[at:end])
	})
	return 2 * float64(len(src))
}
