package ranking

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestSort compares Sort with the stable sort of package slices, on lines of many lengths, contiguous and strided, with
// ties and special values, in both directions, on 1 to 16 threads.
func TestSort(t *testing.T) {
	r := kerneltest.RNG(12)
	values := []float64{0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-45, -1e-45, 3,
		3 + 1e-15}
	for _, threads := range []int{3, 1, 2, 16}[:kerneltest.Some(4)] {
		p, err := pool.New(threads)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, c := range []struct{ outer, n, inner int }{
			{1, 1, 1}, {3, 7, 1}, {2, 256, 1}, {2, 257, 3}, {300, 33, 2}, {1, 20000, 1}, {1, 17001, 2}, {2, 0, 3},
			{0, 5, 1},
		} {
			for _, special := range []bool{false, true} {
				for _, descending := range []bool{false, true} {
					x := make([]float64, c.outer*c.n*c.inner)
					for i := range x {
						x[i] = r.NormFloat64()
						if special {
							x[i] = values[r.IntN(len(values))]
						}
					}
					checkSorted(t, p, x, c.outer, c.n, c.inner, descending, FloatOrder[float64]())
					narrow := make([]float32, len(x))
					for i := range x {
						narrow[i] = float32(x[i])
					}
					checkSorted(t, p, narrow, c.outer, c.n, c.inner, descending, FloatOrder[float32]())
					// keys that do not fit into words, many of which differ only in the last bits
					wide := make([]int64, len(x))
					for i := range wide {
						wide[i] = (r.Int64N(64)-32)<<58 | r.Int64N(5)
					}
					checkSorted(t, p, wide, c.outer, c.n, c.inner, descending, IntOrder[int64]())
				}
			}
		}
	}
}

func checkSorted[T int64 | float32 | float64](t *testing.T, p *pool.Pool, x []T, outer, n, inner int, descending bool,
	by Order[T]) {
	t.Helper()
	values, indices := make([]T, len(x)), make([]byte, 4*len(x))
	Sort(p, values, indices, dtype.I32, x, outer, n, inner, descending, by)
	order := make([]int, n)
	for line := range outer * inner {
		at := func(k int) int { return (line/inner*n+k)*inner + line%inner }
		for k := range order {
			order[k] = k
		}
		slices.SortStableFunc(order, func(j, k int) int {
			a, b := x[at(j)], x[at(k)]
			if descending {
				a, b = b, a
			}
			switch {
			case a < b, a != a && b == b:
				return -1
			case a > b, b != b && a == a:
				return 1
			}
			return 0
		})
		for k, from := range order {
			got, v, want := int(binary.LittleEndian.Uint32(indices[4*at(k):])), values[at(k)], x[at(from)]
			if got != from || math.Float64bits(float64(v)) != math.Float64bits(float64(want)) {
				t.Fatalf("%d threads, %T[%d,%d,%d], descending %v: place %d of line %d is %v from %d; want %v from %d",
					p.Threads(), x, outer, n, inner, descending, k, line, v, got, want, from)
			}
		}
	}
}

func BenchmarkSort(b *testing.B) {
	x := kerneltest.Randoms(kerneltest.RNG(1), 1<<20)
	values, indices := make([]float32, len(x)), make([]byte, 4*len(x))
	for _, c := range []struct {
		name     string
		outer, n int
	}{{"1x1M", 1, 1 << 20}, {"1x150k", 1, 150_000}, {"1024x1024", 1024, 1024}, {"16384x64", 16384, 64}} {
		b.Run(c.name, func(b *testing.B) {
			p, err := pool.New(2)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			for b.Loop() {
				Sort(p, values, indices, dtype.I32, x, c.outer, c.n, 1, false, FloatOrder[float32]())
			}
		})
	}
}
