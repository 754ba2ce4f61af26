package devicetest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// comparison tells got from want. Extra, where it is not nil, widens the tolerance element by element.
type comparison func(got, want *tensor.Array, tol ir.Tolerance, extra []float64) error

// compare reports the element of got that is furthest from want beyond the tolerance. NaN equals NaN only; an infinity
// equals a finite number only where that is at the end of the type's range. Integers are exact.
func compare(got, want *tensor.Array, tol ir.Tolerance) error { return whole(got, want, tol, nil) }

// whole compares every element.
func whole(got, want *tensor.Array, tol ir.Tolerance, extra []float64) error {
	return compareSome(got, want, tol, extra, func(float64, float64) bool { return true })
}

// lost skips elements that wrongly became NaN. It finds NaN that was lost.
func lost(got, want *tensor.Array, tol ir.Tolerance, extra []float64) error {
	return compareSome(got, want, tol, extra, func(g, w float64) bool { return !math.IsNaN(g) || math.IsNaN(w) })
}

// spread compares the rest: elements that wrongly became NaN.
func spread(got, want *tensor.Array, tol ir.Tolerance, extra []float64) error {
	return compareSome(got, want, tol, extra, func(g, w float64) bool { return math.IsNaN(g) && !math.IsNaN(w) })
}

// compareSome compares the elements that look selects.
func compareSome(got, want *tensor.Array, tol ir.Tolerance, extra []float64, look func(got, want float64) bool) error {
	if g, w := interp.TypeOf(got), interp.TypeOf(want); !g.Equal(w) {
		return fmt.Errorf("result is %v; want %v", g, w)
	}
	if !bytes.Equal(got.B, want.B) {
		return fmt.Errorf("blocks of %v differ", interp.TypeOf(want))
	}
	worst, most, bad := -1, 0.0, 0
	for i := range max(len(want.F), len(want.I)) {
		e := 0.0
		if want.F != nil && !look(got.F[i], want.F[i]) {
			continue
		}
		if want.F != nil {
			if e = excess(got.F[i], want.F[i], tol, want.DType); extra != nil {
				e -= extra[i]
			}
		} else if got.I[i] != want.I[i] {
			e = math.Inf(1)
		}
		if e > 0 {
			if bad++; worst < 0 || e > most {
				worst, most = i, e
			}
		}
	}
	if worst < 0 {
		return nil
	}
	show := func(a *tensor.Array) any {
		if a.F != nil {
			return a.F[worst]
		}
		return a.I[worst]
	}
	return fmt.Errorf("%d of %d elements differ; the worst is %d of %v: got %v, want %v within %g + %g*|want|",
		bad, want.Len(), worst, want.Shape, show(got), show(want), tol.Abs, tol.Rel)
}

// excess is interp.Excess with overflow: the reference of f32 results is not rounded, and may exceed the type's range.
func excess(got, want float64, tol ir.Tolerance, d dtype.DType) float64 {
	limit := math.MaxFloat64
	switch d {
	case dtype.F32, dtype.BF16:
		limit = math.MaxFloat32
	case dtype.F16:
		limit = 65504
	}
	if math.IsInf(got, 0) != math.IsInf(want, 0) && math.Signbit(got) == math.Signbit(want) &&
		math.Min(math.Abs(got), math.Abs(want)) >= limit*(1-tol.Rel-0x1p-8) {
		return 0
	}
	return interp.Excess(got, want, tol)
}

// specials are the numbers at which float kernels go wrong. Each type rounds them to its own.
func specials(d dtype.DType) []float64 {
	tiny := math.SmallestNonzeroFloat32
	switch d {
	case dtype.F16:
		tiny = 0x1p-24
	case dtype.BF16:
		tiny = 0x1p-133
	case dtype.F64:
		tiny = math.SmallestNonzeroFloat64
	}
	return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), tiny, -3 * tiny}
}

// ordinary are finite numbers around which functions change.
var ordinary = []float64{1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 20, -20, 100, -100, 0x1p-126, 0x1p-14, 1.0 / 3}

// dense fills float operands with special and ordinary numbers, so that each meets each in binary ops sooner or later.
func dense(rng *rand.Rand, in []*tensor.Array) {
	for _, x := range in {
		if x.F == nil {
			continue
		}
		pool := append(specials(x.DType), ordinary...)
		for i := range x.F {
			x.F[i] = pool[rng.IntN(len(pool))]
		}
		copy(x.F, x.Tensor().Array().F)
	}
}

// extremes fills integer operands with the ends of their type and numbers near 0.
func extremes(rng *rand.Rand, in []*tensor.Array) {
	for _, x := range in {
		if x.I == nil {
			continue
		}
		lo, hi := x.DType.IntRange()
		pool := []int64{lo, hi, lo + 1, hi - 1, 0, 1, 1, 2}
		if lo < 0 {
			pool = append(pool, -1)
		}
		for i := range x.I {
			x.I[i] = pool[rng.IntN(len(pool))]
			if x.DType == dtype.Bool {
				x.I[i] &= 1
			}
		}
	}
}

// near compares the results of an op with its definition. Tolerances suppose operands that do not cancel; where they do (a
// norm of values that are almost equal), the tolerance is widened by how far the definition moves for operands a few roundings
// away.
func near(cmp comparison, def *ir.OpDef, attrs any, in, got, want []*tensor.Array) error {
	tols := def.Tol(attrs, typesOf(in), typesOf(want)...)
	for k, w := range want {
		err := cmp(got[k], w, tols[k], nil)
		if err != nil && w.F != nil && tols[k] != (ir.Tolerance{}) && def.Eval != nil {
			if extra, ok := sensitivity(def, attrs, in, want, k); ok {
				err = cmp(got[k], w, tols[k], extra)
			}
		}
		if err != nil && len(want) > 1 {
			err = fmt.Errorf("result %d: %w", k, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func typesOf(arrays []*tensor.Array) []ir.Type {
	types := make([]ir.Type, len(arrays))
	for k, x := range arrays {
		types[k] = interp.TypeOf(x)
	}
	return types
}

// sensitivity is how far each element of result k moves where the operands move by a rounding; ok is false where the
// definition refuses such operands.
func sensitivity(def *ir.OpDef, attrs any, in, want []*tensor.Array, k int) (extra []float64, ok bool) {
	rng := rand.New(rand.NewPCG(1, 13))
	extra = make([]float64, want[k].Len())
	for range 8 {
		moved := make([]*tensor.Array, len(in))
		for j, x := range in {
			m := *x
			m.F = slices.Clone(x.F)
			for i := range m.F {
				m.F[i] *= 1 + float64(rng.IntN(3)-1)*unit(x.DType)
			}
			moved[j] = &m
		}
		out := make([]*tensor.Array, len(want))
		for j, w := range want {
			out[j] = tensor.NewArray(w.DType, w.Shape...)
		}
		if def.Eval(attrs, moved, out...) != nil {
			return nil, false
		}
		for i, w := range want[k].F {
			if d := 4 * math.Abs(out[k].F[i]-w); d > extra[i] && !math.IsInf(d, 0) {
				extra[i] = d
			}
		}
	}
	return extra, true
}

// unit is the relative rounding error of arithmetic on operands of type d: f16 and bf16 are computed in f32.
func unit(d dtype.DType) float64 {
	if d == dtype.F64 {
		return 0x1p-52
	}
	return 0x1p-23
}

// random makes operands for a subject, the same for the same seed.
func (s subject) random(seed uint64) []*tensor.Array {
	return interp.CaseInputs(s.Case, seed)
}
