package tensor_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/tensor"
)

// TestWalk compares the positions of Walk, which joins axes, with those computed from each index, for random shapes and
// strides: dense ones, transposed ones, and those of operands that are repeated along some axes.
func TestWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		shape := make([]int, r.IntN(6))
		for a := range shape {
			shape[a] = r.IntN(4)
			if r.IntN(2) == 0 {
				shape[a] = 1 + r.IntN(3)
			}
		}
		steps := make([][]int, 1+r.IntN(3))
		for k := range steps {
			steps[k] = tensor.Strides(shape)
			if r.IntN(3) == 0 {
				r.Shuffle(len(shape), func(i, j int) { steps[k][i], steps[k][j] = steps[k][j], steps[k][i] })
			}
			for a := range shape {
				if r.IntN(4) == 0 {
					steps[k][a] = 0
				}
			}
		}
		next := 0
		tensor.Walk(shape, steps, func(i int, pos []int) {
			want, rest := make([]int, len(steps)), i
			for a := len(shape) - 1; a >= 0; a-- {
				for k := range steps {
					want[k] += rest % shape[a] * steps[k][a]
				}
				rest /= shape[a]
			}
			if i != next || !slices.Equal(pos, want) {
				t.Fatalf("shape %v, strides %v: visit %d is number %d at %v; want %v", shape, steps, next, i, pos, want)
			}
			next++
		})
		if next != tensor.Numel(shape) {
			t.Fatalf("shape %v: %d visits", shape, next)
		}
	}
}
