// Peak measures what this machine can do at most, so that other figures can be given as shares of it: fused multiply-adds in
// f32, products of bfloat16 (AMX tiles, or vectors where there are none) and copying of memory, on one thread and on all. It
// prints JSON.
//
//	go run ./bench/peak [-threads N] [-for 1s]
//
// The arithmetic is a loop over registers only, in the vectors that the cpu backend would use. The bandwidth is that of
// copying between two buffers far larger than any cache, counting bytes read and bytes written. Each figure is the best of
// several short runs, because what disturbs them only ever slows them down.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/rlx-go/rlx/bench/measure"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

// peaks is what is printed.
type peaks struct {
	Features string `json:"features"` // instruction set of the loop
	Threads  int    `json:"threads"`
	// GFLOP/s of f32 multiply-adds, two operations each; 0 where the instruction set has no loop for it.
	FMA1 float64 `json:"fma_gflop_per_s_1_thread"`
	FMA  float64 `json:"fma_gflop_per_s"`
	// GFLOP/s of products of bfloat16 with sums in f32; 0 where the processor has no instructions for them.
	Half1 float64 `json:"bf16_gflop_per_s_1_thread"`
	Half  float64 `json:"bf16_gflop_per_s"`
	// GB/s read plus written.
	Copy1 float64 `json:"copy_gb_per_s_1_thread"`
	Copy  float64 `json:"copy_gb_per_s"`
}

func main() {
	threads := flag.Int("threads", 0, "threads; 0 is one for each processor")
	span := flag.Duration("for", time.Second, "time to spend on each figure")
	flag.Parse()
	if err := run(*threads, *span); err != nil {
		fmt.Fprintln(os.Stderr, "peak:", err)
		os.Exit(1)
	}
}

func run(threads int, span time.Duration) error {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	var p peaks
	const size = 128 << 20
	src, dst := make([]byte, size), make([]byte, size)
	for i := range src { // memory that was never written is one page of zeros, which a cache holds
		src[i] = byte(i)
	}
	for _, n := range []int{1, threads} {
		pool, err := kernels.NewPool(n)
		if err != nil {
			return err
		}
		p.Features, p.Threads = pool.Features(), n
		p.FMA = measure.Best(span, func() float64 { return kernels.FMAFlops(pool, measure.PeakRounds) }) / 1e9
		if kernels.HalfFlops(pool, 1) > 0 {
			p.Half = measure.Best(span, func() float64 { return kernels.HalfFlops(pool, measure.PeakRounds) }) / 1e9
		}
		p.Copy = measure.Best(span, func() float64 { return copied(pool, dst, src) }) / 1e9
		if n == 1 {
			p.FMA1, p.Half1, p.Copy1 = p.FMA, p.Half, p.Copy
		}
		pool.Close()
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(p)
}

// copied copies src to dst on all workers and returns the bytes read and written.
func copied(pool *kernels.Pool, dst, src []byte) float64 {
	const piece = 4 << 20
	pool.Run((len(src)+piece-1)/piece, func(task, _ int) {
		at := task * piece
		end := min(at+piece, len(src))
		copy(dst[at:end], src[at:end])
	})
	return 2 * float64(len(src))
}
