package elementwise

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// TestStream compares results that bypass the caches with ordinary ones, bit by bit. They begin at any offset from a
// cache line.
func TestStream(t *testing.T) {
	r := kerneltest.RNG(41)
	for _, name := range isa.Features() {
		plain, p := kerneltest.NewPool(t, 2, name), kerneltest.NewPool(t, 2, name)
		p.StreamFrom = 0
		for _, rows := range []int{1, 3, 37} {
			for _, cols := range []int{1, 15, 16, 513, 1537} {
				n := rows * cols
				shape := []int{rows, cols}
				x, y := kerneltest.Randoms(r, n), kerneltest.Randoms(r, n)
				x[n/2], y[n/3] = float32(math.Inf(-1)), 1e-40
				for at := range 17 {
					check := func(what string, f func(p *pool.Pool, dst, x, y []float32)) {
						t.Helper()
						want := make([]float32, n)
						f(plain, want, x, y)
						got, guard := kerneltest.Guarded(n + at)
						clear(got[:at])
						f(p, got[at:], x, y)
						guard(t, what)
						if slices.ContainsFunc(got[:at], func(x float32) bool { return x != 0 }) {
							t.Fatalf("%s: %s writes before its result", name, what)
						}
						if !slices.Equal(pool.BytesOf(got[at:]), pool.BytesOf(want)) {
							t.Fatalf("%s: %s of %v at offset %d differs", name, what, shape, at)
						}
					}
					check("abs", func(p *pool.Pool, dst, x, _ []float32) { UnaryF32(p, Abs, dst, x) })
					check("add", func(p *pool.Pool, dst, x, y []float32) { Binary(p, Add, dst, x, shape, y, shape) })
					check("div by a row", func(p *pool.Pool, dst, x, y []float32) {
						Binary(p, Div, dst, x, shape, y[:cols], shape[1:])
					})
					check("max of a column", func(p *pool.Pool, dst, x, y []float32) {
						Binary(p, Max, dst, y[:rows], []int{rows, 1}, x, shape)
					})
					check("abs in place", func(p *pool.Pool, dst, x, _ []float32) {
						copy(dst, x)
						UnaryF32(p, Abs, dst, dst)
					})
				}
			}
		}
	}
}

// TestStreamDecision checks when results bypass the caches.
func TestStreamDecision(t *testing.T) {
	x, y := make([]float32, 8), make([]float32, 8)
	for _, name := range isa.Features() {
		p := kerneltest.NewPool(t, 1, name)
		p.StreamFrom = int(unsafe.Sizeof(x[0])) * (len(x) + len(y))
		can := vec.On(p.Set).Stream != nil
		if o := newOutput(p, true, y, x); o.stream.on != can {
			t.Errorf("%s: a large result bypasses the caches: %v, want %v", name, o.stream.on, can)
		}
		if newOutput(p, true, y[:7], x[:7]).stream.on || newOutput(p, true, y, y).stream.on ||
			newOutput(p, true, y, x, y).stream.on || newOutput(p, false, y, x).stream.on {
			t.Errorf("%s: a small result, one in place of an operand, or one of a slow function bypasses the caches",
				name)
		}
	}
}
