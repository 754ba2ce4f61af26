package product

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// BenchmarkRoutines measures the products of packed panels on one thread, for all sets, by the number of rows. The data
// is in the first-level cache. ns is the time of the fastest call, since other processes slow down most of them on a
// shared machine. crc is a checksum of the result: a change that only makes a routine shorter keeps it. Routines for
// packed weights are in BenchmarkPackedCached.
func BenchmarkRoutines(b *testing.B) {
	type product = func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int)
	for _, s := range isa.Available() {
		measure := func(name string, multiply product, nr, rows, k int) {
			if multiply == nil {
				return
			}
			b.Run(fmt.Sprintf("%s/%s/%dx%dx%d", s.Name, name, rows, nr, k), func(b *testing.B) {
				const calls = 8
				rng := rand.New(rand.NewPCG(1, 2))
				x, y, c := kerneltest.Randoms(rng, rows*k), kerneltest.Randoms(rng, nr*(k+64)), make([]float32, rows*nr)
				best := time.Hour
				for range b.N {
					start := time.Now()
					for range calls {
						multiply(rows, k, x, y, c, nr, false, nil, nil, 0)
					}
					best = min(best, time.Since(start)/calls)
				}
				all, err := binary.Append(nil, binary.LittleEndian, c)
				if err != nil {
					b.Fatal(err)
				}
				multiply(rows, k, x, y, c, nr, true, kerneltest.Randoms(rng, nr), kerneltest.Randoms(rng, rows*nr), nr)
				if all, err = binary.Append(all, binary.LittleEndian, c); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(best.Nanoseconds()), "ns")
				b.ReportMetric(float64(crc32.ChecksumIEEE(all)), "crc")
				b.ReportMetric(0, "ns/op")
			})
		}
		r := On(s)
		for _, p := range []Panel{r.Panel, r.Narrow} {
			for rows := 1; rows <= r.MR; rows++ {
				for _, k := range []int{16, 256} {
					measure("gemm", p.Gemm, p.NR, rows, k)
					measure("pairs", p.Pairs, p.NR, rows, k)
				}
			}
		}
	}
}
