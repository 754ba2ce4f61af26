// Command gemm measures matrix products against the peak of the machine, in one run:
//
//	go run ./bench/gemm [--threads N] [--features NAME] [--rounds N]
//
// Each round measures the peak and then every shape. If bfloat16 products run in AMX tiles, it also measures them as in
// a model, with packed weights and with operands and results in bfloat16. Rates are medians over the rounds. The peak
// is measured as in bench/peak and is the best of all rounds, so that disturbances can only lower a share.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/rlx-go/rlx/bench/measure"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// The linear layers of SAM ViT-B's blocks at 1024 pixels (x·wᵀ, as checkpoints store w), and square products.
var shapes = []struct {
	name    string
	m, n, k int
}{
	{"qkv", 4096, 2304, 768}, {"proj", 4096, 768, 768}, {"mlp up", 4096, 3072, 768}, {"mlp down", 4096, 768, 3072},
	{"square", 256, 256, 256}, {"square", 512, 512, 512}, {"square", 1024, 1024, 1024}, {"square", 2048, 2048, 2048},
	{"square", 4096, 4096, 4096},
}

func main() {
	threads := pflag.Int("threads", 0, "worker threads; 0 for all that the process may use")
	features := pflag.String("features", "", "instruction set, which the processor must support; empty for the best")
	rounds := pflag.Int("rounds", 3, "number of rounds")
	pflag.Parse()
	p, err := pool.NewFor(*threads, *features)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("%s, %d threads, median of %d rounds\n", p.Features(), p.Threads(), *rounds)
	r := rand.New(rand.NewPCG(1, 1))
	const most = 4096 * 4096
	a, b, c := randoms(r, most), randoms(r, most), make([]float32, most)
	bias := randoms(r, 4096)
	for _, precision := range []product.Precision{product.Float32, product.BFloat16} {
		peakOf := product.FMAFlops
		if precision == product.BFloat16 {
			peakOf = product.HalfFlops
		}
		if peakOf(p, 1000) == 0 {
			fmt.Printf("\n%s: no peak is known for these features\n", precision)
			continue
		}
		var peak float64
		rates, blocked := make([][]float64, len(shapes)), make([][]float64, len(shapes))
		for range *rounds {
			peak = max(
				peak, measure.Best(300*time.Millisecond, func() float64 { return peakOf(p, measure.PeakRounds) })/1e9)
			for i, s := range shapes {
				g := &product.GemmArgs{M: s.m, N: s.n, K: s.k, A: a, LDA: s.k, B: stored.F32(b), LDB: s.k,
					TransB: true, C: c, LDC: s.n, Bias: bias, Precision: precision}
				rates[i] = append(
					rates[i],
					rate(func() float64 { product.Gemm(p, g); return 2 * float64(s.m) * float64(s.n) * float64(s.k) }))
				// as between two products of a model, where nothing has to be packed
				if product.TakesBlocked(p, precision) {
					g.Packed = product.PackWeights(p, g)
					g.ABlocked, g.CBlocked = lines(product.BlockedLen(s.m, s.k)), lines(product.BlockedLen(s.m, s.n))
					blocked[i] = append(
						blocked[i],
						rate(
							func() float64 {
								product.Gemm(p, g)
								return 2 * float64(s.m) * float64(s.n) * float64(s.k)
							}))
				}
			}
		}
		fmt.Printf("\n%s: peak %.0f GFLOP/s\n", precision, peak)
		for i, s := range shapes {
			fmt.Printf("  %-9s %4d x %4d x %4d  %8.0f GFLOP/s  %5.1f %% of peak", s.name, s.m, s.k, s.n,
				median(rates[i]), 100*median(rates[i])/peak)
			if len(blocked[i]) > 0 {
				fmt.Printf("  %8.0f GFLOP/s  %5.1f %% of peak with packed weights, from blocked to blocked layout",
					median(blocked[i]), 100*median(blocked[i])/peak)
			}
			fmt.Println()
		}
	}
}

// rate runs f for at least 30 ms, after one run to warm up, and returns GFLOP/s. f returns its number of operations.
func rate(f func() float64) float64 {
	f()
	flops, start := 0.0, time.Now()
	for time.Since(start) < 30*time.Millisecond {
		flops += f()
	}
	return flops / time.Since(start).Seconds() / 1e9
}

// lines returns n floats that begin at a cache line of 64 bytes.
func lines(n int) []float32 { return tensor.View[float32](tensor.AlignedBytes(4 * n)) }

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[len(s)/2]
}

func randoms(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}
