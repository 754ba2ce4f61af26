package interp

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/core/tensor"
)

// Compare returns an error that names the worst element of got, if any differs from want by more than the tolerance.
// NaN equals only NaN, and an infinity only itself. The types must be equal.
func Compare(got, want *tensor.Array, tol ir.Tolerance) error {
	if g, w := TypeOf(got), TypeOf(want); !g.Equal(w) {
		return fmt.Errorf("type is %v; want %v", g, w)
	}
	if !bytes.Equal(got.Bytes, want.Bytes) {
		return fmt.Errorf("blocks of %v differ", TypeOf(want))
	}
	worst, excess, bad := -1, 0.0, 0
	for i := range max(len(want.Floats), len(want.Ints)) {
		if e := Excess(got.At(i), want.At(i), tol); e > 0 {
			bad++
			if worst < 0 || e > excess {
				worst, excess = i, e
			}
		}
	}
	if worst < 0 {
		return nil
	}
	return fmt.Errorf("%d of %d elements differ; the worst is %d (at %v of %v): got %v, want %v within %g + %g*|want|",
		bad, want.Len(), worst, index(worst, want.Shape), want.Shape, got.At(worst), want.At(worst), tol.Abs, tol.Rel)
}

// Excess returns by how much |got - want| exceeds the tolerance. It is at most 0 if got is within the tolerance.
func Excess(got, want float64, tol ir.Tolerance) float64 {
	switch {
	case got == want || math.IsNaN(got) && math.IsNaN(want):
		return 0
	case math.IsNaN(got) || math.IsNaN(want) || math.IsInf(got, 0) || math.IsInf(want, 0):
		return math.Inf(1)
	}
	return math.Abs(got-want) - tol.Abs - tol.Rel*math.Abs(want)
}

func index(i int, shape []int) []int {
	idx := make([]int, len(shape))
	for a := len(shape) - 1; a >= 0; a-- {
		idx[a], i = i%shape[a], i/shape[a]
	}
	return idx
}

// CaseInputs returns random operands for a case, rounded to their element types; nil for absent ones. Equal seeds give
// equal operands.
func CaseInputs(c ir.Case[any], seed uint64) []*tensor.Array {
	rng := rand.New(rand.NewPCG(seed, 1))
	in := make([]*tensor.Array, len(c.In))
	for i, t := range c.In {
		if !t.Present() {
			continue
		}
		r := ir.Range{Lo: -2, Hi: 2}
		if !t.DType.IsFloat() {
			r = ir.Range{Lo: 0, Hi: 3}
		}
		if i < len(c.Fill) {
			r = c.Fill[i]
		}
		in[i] = Random(rng, t, nil, r)
		if i < len(c.Base) && len(c.Base[i]) == in[i].Len() {
			in[i] = shifted(in[i], c.Base[i])
		}
	}
	return in
}

// shifted returns a plus base, rounded to a's type.
func shifted(a *tensor.Array, base []float64) *tensor.Array {
	for i, b := range base {
		if a.Floats != nil {
			a.Floats[i] += b
		} else {
			a.Ints[i] += int64(b)
		}
	}
	if a.DType == dtype.F64 {
		return a
	}
	return a.Tensor().Array()
}

// Random returns a random value of type t with elements in r. Floats are rounded to their type. Integers include both
// ends of r and are clamped to their type. The blocks of packed types are random.
func Random(rng *rand.Rand, t ir.Type, syms map[string]int64, r ir.Range) *tensor.Array {
	a := tensor.NewArray(t.DType, t.Shape.Eval(syms)...)
	for i := range a.Floats {
		a.Floats[i] = r.Lo + (r.Hi-r.Lo)*rng.Float64()
	}
	if t.DType != dtype.F64 && t.DType.IsFloat() {
		return a.Tensor().Array()
	}
	if t.DType.IsPacked() {
		quant.Random(a.Bytes, t.DType, rng.Uint32)
	}
	for i := range a.Ints {
		lo, hi := t.DType.IntRange()
		lo, hi = max(lo, int64(r.Lo)), min(hi, int64(r.Hi))
		a.Ints[i] = lo + rng.Int64N(max(hi-lo, 0)+1)
	}
	return a
}
