package devicetest

import (
	"math/rand/v2"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// sizes are sizes near which kernels change their code path: one, odd sizes, and sizes next to the width of a vector or
// tile.
var sizes = []int64{1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129}

// Limits of resized subjects. They keep the reference fast.
const (
	maxElements = 60_000
	maxFLOPs    = 1_000_000
)

// resized returns a copy of s with other sizes that its op accepts. ok is false if a few tries find no such sizes.
// Related sizes are changed together. This is guesswork: type inference decides which sizes the op accepts.
func (s subject) resized(rng *rand.Rand) (subject, bool) {
	for range 40 {
		if n, ok := s.tryResized(rng, maxElements, maxFLOPs); ok {
			return n, true
		}
	}
	return s, false
}

// tryResized makes one guess.
func (s subject) tryResized(rng *rand.Rand, elements, flops int64) (subject, bool) {
	c := s.Case
	types := make([]ir.Type, 0, len(s.In)+1)
	for _, t := range append(slices.Clone(s.In), s.Case.Out) {
		types = append(types, ir.Type{DType: t.DType, Shape: slices.Clone(t.Shape)})
	}
	if s.leaf() {
		types = types[len(types)-1:]
	}
	var dims []*int64
	for i := range types {
		for k := range types[i].Shape {
			dims = append(dims, &types[i].Shape[k].Const)
		}
	}
	if len(dims) == 0 {
		return s, false
	}
	change(rng, types, dims)
	c.In, c.Out = types[:len(types)-1], types[len(types)-1]
	n, err := newSubject(s.def, c)
	if err != nil || n.elements() > elements || s.def.FLOPs(c.Attrs, n.In, n.outs...) > flops || n.sameTypes(s) {
		return s, false
	}
	return n, true
}

func (s subject) sameTypes(o subject) bool {
	return slices.EqualFunc(s.outs, o.outs, ir.Type.Equal) && slices.EqualFunc(s.In, o.In, ir.Type.Equal)
}

// change changes a random size, and other sizes that may have to match it.
func change(rng *rand.Rand, types []ir.Type, dims []*int64) {
	old := *dims[rng.IntN(len(dims))]
	size := sizes[rng.IntN(len(sizes))]
	switch rng.IntN(10) {
	case 0:
		size = 0
	case 1:
		size = 2*old + 1
	case 2:
		size = 3 * old
	}
	switch rng.IntN(4) {
	case 0: // all equal sizes
		for _, d := range dims {
			if *d == old {
				*d = size
			}
		}
	case 1: // all multiples of it
		for _, d := range dims {
			if old > 1 && *d%old == 0 {
				*d = *d / old * size
			}
		}
	case 2: // equal sizes on the same axis of values of the same rank
		first := types[0].Shape
		if len(first) == 0 {
			first = types[len(types)-1].Shape
		}
		if len(first) == 0 {
			return
		}
		a := rng.IntN(len(first))
		old, rank := first[a].Const, len(first)
		for _, t := range types {
			if len(t.Shape) == rank && t.Shape[a].Const == old {
				t.Shape[a].Const = size
			}
		}
	case 3: // the leading axis of everything, by a factor
		k := 2 + rng.Int64N(4)
		for _, t := range types {
			if len(t.Shape) > 0 {
				t.Shape[0].Const *= k
			}
		}
	}
}
