package ranking

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestTopK compares TopK with a stable sort, on rows of many lengths, with ties and special values, on 1 to 16 threads.
func TestTopK(t *testing.T) {
	r := kerneltest.RNG(11)
	values := []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.NaN()), float32(math.Inf(1)),
		float32(math.Inf(-1)), 1e-45, -1e-45, 3}
	for _, threads := range []int{1, 2, 3, 16} {
		p, err := pool.New(threads)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, c := range []struct{ rows, n, k int }{
			{1, 1, 1}, {3, 7, 7}, {5, 255, 4}, {5, 256, 256}, {5, 257, 33}, {2000, 33, 3}, {70, 1000, 10},
			{2, 40000, 100}, {1, 16384, 200}, {1, 50001, 3}, {0, 9, 2},
			{8, 1000, 3}, {8, 2077, 15}, {8, 65, 1}, {2, 40003, 7}, // longer than 2*k blocks
		} {
			src := make([]float32, c.rows*c.n)
			for i := range src {
				src[i] = float32(r.NormFloat64())
				switch kind := i / c.n % 4; {
				case c.n < 300, kind == 1 && r.IntN(c.n) < 40, kind == 2 && r.IntN(c.n) > 20:
					src[i] = values[r.IntN(len(values))]
				case kind == 3: // NaN in all blocks but a few, and few different numbers
					src[i] = float32(r.IntN(4))
					if r.IntN(20) == 0 {
						src[i] = float32(math.NaN())
					}
				}
			}
			values, indices := make([]float32, c.rows*c.k), make([]byte, 4*c.rows*c.k)
			TopK(p, values, indices, dtype.I32, src, c.rows, c.n, c.k, FloatOrder[float32]())
			for row := range c.rows {
				x := src[row*c.n:][:c.n]
				for j, i := range sorted(x)[:c.k] {
					at := row*c.k + j
					if got := int(int32(binary.LittleEndian.Uint32(indices[4*at:]))); got != i ||
						math.Float32bits(values[at]) != math.Float32bits(x[i]) {
						t.Fatalf("%d threads, %+v: place %d of row %d is %v at %d; want %v at %d", threads, c, j, row,
							values[at], got, x[i], i)
					}
				}
			}
		}
	}
}

// sorted returns the indices of a row's elements, the largest first, NaN last.
func sorted(x []float32) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := x[i], x[j]
		switch {
		case a > b, a == a && b != b:
			return -1
		case a < b, a != a && b == b:
			return 1
		}
		return 0
	})
	return order
}

// BenchmarkTopK searches rows of random f32. MB/s counts the operand.
func BenchmarkTopK(b *testing.B) {
	p, err := pool.New(0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for _, c := range []struct{ rows, n, k int }{{4096, 256, 8}, {64, 32000, 50}, {1, 150000, 50}} {
		b.Run(fmt.Sprintf("%dx%d/k=%d", c.rows, c.n, c.k), func(b *testing.B) {
			src := kerneltest.Randoms(kerneltest.RNG(1), c.rows*c.n)
			values, indices := make([]float32, c.rows*c.k), make([]byte, 4*c.rows*c.k)
			b.SetBytes(int64(4 * len(src)))
			for b.Loop() {
				TopK(p, values, indices, dtype.I32, src, c.rows, c.n, c.k, FloatOrder[float32]())
			}
		})
	}
}
