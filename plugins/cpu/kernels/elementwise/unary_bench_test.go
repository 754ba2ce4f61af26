package elementwise

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// BenchmarkElementwise runs functions over operands that stay in the L1 cache, on one thread.
func BenchmarkElementwise(b *testing.B) {
	const n = 2048
	r := kerneltest.RNG(1)
	x, y, dst := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
	}
	positive := make([]float32, n)
	for i, v := range x {
		positive[i] = max(v, -v)
	}
	for _, name := range isa.Features()[1:] {
		p := kerneltest.NewPool(b, 1, name)
		for _, op := range Unaries() {
			if functions[op.id].params > 0 {
				continue
			}
			src := x
			if op == Log || op == Log2 {
				src = positive
			}
			b.Run(name+"/"+op.String(), func(b *testing.B) {
				b.SetBytes(4 * n)
				for b.Loop() {
					Apply(p.Set, op, dst, src)
				}
			})
		}
		b.Run(name+"/pow", func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				On(p.Set).Binary[Pow](dst, positive, y)
			}
		})
	}
}

// BenchmarkShortRows calls a function for rows whose last elements do not fill a vector, on one thread.
func BenchmarkShortRows(b *testing.B) {
	p := kerneltest.NewPool(b, 1, isa.Features()[len(isa.Features())-1])
	r := kerneltest.RNG(1)
	for _, n := range []int{5, 49, 64, 196, 225} {
		x, dst := kerneltest.Randoms(r, n), make([]float32, n)
		for _, op := range []UnaryOp{Relu, Silu} {
			b.Run(fmt.Sprint(op, "/", n), func(b *testing.B) {
				for b.Loop() {
					Apply(p.Set, op, dst, x)
				}
			})
			b.Run(fmt.Sprint(op, "/inplace/", n), func(b *testing.B) {
				for b.Loop() {
					Apply(p.Set, op, dst, dst)
				}
			})
		}
	}
}
