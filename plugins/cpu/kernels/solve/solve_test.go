package solve_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/solve"
)

func random(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

func newPool(t testing.TB, threads int) *pool.Pool {
	p, err := pool.New(threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestDense checks that solutions have small residuals, and that their bits do not depend on the number of threads.
func TestDense(t *testing.T) {
	one, three := newPool(t, 1), newPool(t, 3)
	for _, c := range []struct{ batch, n, k int }{{1, 1, 1}, {3, 31, 2}, {2, 32, 1}, {2, 33, 5}, {1, 64, 64},
		{1, 65, 300}, {1, 200, 1}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(c.n), 1))
			a, b := random(r, c.batch*c.n*c.n), random(r, c.batch*c.n*c.k)
			a[0] = 0 // rows must be exchanged
			if c.n == 1 {
				a[0] = 2
			}
			x, y := make([]float64, len(b)), make([]float64, len(b))
			solve.Dense(one, solve.Args[float64]{X: x, A: a, B: b, Batch: c.batch, N: c.n, K: c.k})
			solve.Dense(three, solve.Args[float64]{X: y, A: a, B: b, Batch: c.batch, N: c.n, K: c.k})
			if !slices.Equal(x, y) {
				t.Error("other bits with three threads")
			}
			for i := range b {
				row, col := i/c.k, i%c.k
				sum, size := 0.0, math.Abs(b[i])
				for j := range c.n {
					v := a[row*c.n+j] * x[(row/c.n*c.n+j)*c.k+col]
					sum, size = sum+v, size+math.Abs(v)
				}
				if math.Abs(sum-b[i]) > 1e-12*size*float64(c.n) {
					t.Fatalf("row %d, column %d: %v; want %v", row, col, sum, b[i])
				}
			}
		})
	}
}

// TestDenseSingular checks that the solution of a singular system is NaN, and that the solution of the next system is
// not.
func TestDenseSingular(t *testing.T) {
	x := make([]float32, 4)
	solve.Dense(newPool(t, 2), solve.Args[float32]{X: x, A: []float32{1, 2, 2, 4, 1, 2, 2, 5}, B: []float32{1, 3, 1, 3},
		Batch: 2, N: 2, K: 1})
	if x[0] == x[0] || x[1] == x[1] || x[2] != -1 || x[3] != 1 {
		t.Errorf("%v; want NaN, NaN, -1, 1", x)
	}
}

func BenchmarkDense(b *testing.B) {
	p, r := newPool(b, 2), rand.New(rand.NewPCG(1, 1))
	const n = 1000
	a, right := random(r, n*n), random(r, n)
	x := make([]float64, n)
	for b.Loop() {
		solve.Dense(p, solve.Args[float64]{X: x, A: a, B: right, Batch: 1, N: n, K: 1})
	}
}
