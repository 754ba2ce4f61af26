package elementwise

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// TestRowNumbers compares products and sums of rows and numbers with Go's own, bit by bit, for shapes that threads
// divide within rows.
func TestRowNumbers(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(5)
		for i := range kerneltest.Some(40) {
			n, c, area := 1+r.IntN(3), 1+r.IntN(40), 1+r.IntN([]int{5, 70, 3000}[i%3])
			x, dst := kerneltest.Randoms(r, n*c*area), make([]float32, n*c*area)
			for j, v := range []float64{math.Copysign(0, -1), 0, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40} {
				x[(7*j+i)%len(x)] = float32(v)
			}
			for _, shape := range [][]int{{n, c, 1}, {c, 1}, {n, 1, 1}} {
				y := kerneltest.Randoms(r, Elements(shape))
				y[r.IntN(len(y))] = 0
				number := func(at int) float32 {
					row := at / area
					if len(shape) == 3 && shape[1] < c {
						return y[row/c]
					}
					return y[row%len(y)]
				}
				for _, op := range []BinaryOp{Mul, Add} {
					for k := range 2 {
						var err error
						if k == 0 {
							err = Binary(p, op, dst, x, []int{n, c, area}, y, shape)
						} else {
							err = Binary(p, op, dst, y, shape, x, []int{n, c, area})
						}
						if err != nil {
							t.Fatal(err)
						}
						for j, v := range x {
							want := v * number(j)
							if op == Add {
								want = v + number(j)
							}
							if math.Float32bits(dst[j]) != math.Float32bits(want) && want == want {
								t.Fatalf("%v of [%d %d %d] and %v: element %d is %v, want %v", op, n, c, area, shape,
									j, dst[j], want)
							}
						}
					}
				}
			}
		}
	})
}

// BenchmarkRowNumbers multiplies the channels of an image by a number each, on one thread.
func BenchmarkRowNumbers(b *testing.B) {
	p, _ := pool.New(1)
	defer p.Close()
	for _, area := range []int{49, 196, 784, 3136} {
		c := 150528 / area
		x, y := kerneltest.Randoms(kerneltest.RNG(1), c*area), kerneltest.Randoms(kerneltest.RNG(2), c)
		dst := make([]float32, len(x))
		b.Run(fmt.Sprint(area), func(b *testing.B) {
			b.SetBytes(int64(8 * len(x)))
			for b.Loop() {
				if err := Binary(p, Mul, dst, x, []int{1, c, area}, y, []int{1, c, 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
