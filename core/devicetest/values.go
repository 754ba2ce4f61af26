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

// comparison compares got with want. If extra is not nil, extra[i] is added to the tolerance of element i.
type comparison func(got, want *tensor.Array, tol ir.Tolerance, extra []float64) error

// compare returns an error that names the worst element of got, if any differs from want by more than the tolerance.
// NaN equals only NaN. An infinity equals a finite number only if that number is at the end of the type's range.
// Integers must be equal.
func compare(got, want *tensor.Array, tol ir.Tolerance) error { return whole(got, want, tol, nil) }

// whole compares every element.
func whole(got, want *tensor.Array, tol ir.Tolerance, extra []float64) error {
	return compareSome(got, want, tol, extra, func(float64, float64) bool { return true })
}

// lost skips elements that are wrongly NaN. It finds elements that should be NaN and are not.
func lost(got, want *tensor.Array, tol ir.Tolerance, extra []float64) error {
	return compareSome(got, want, tol, extra, func(g, w float64) bool { return !math.IsNaN(g) || math.IsNaN(w) })
}

// spread compares only the elements that lost skips: elements that are wrongly NaN.
func spread(got, want *tensor.Array, tol ir.Tolerance, extra []float64) error {
	return compareSome(got, want, tol, extra, func(g, w float64) bool { return math.IsNaN(g) && !math.IsNaN(w) })
}

// compareSome compares the elements for which look returns true.
func compareSome(got, want *tensor.Array, tol ir.Tolerance, extra []float64, look func(got, want float64) bool) error {
	if g, w := interp.TypeOf(got), interp.TypeOf(want); !g.Equal(w) {
		return fmt.Errorf("result is %v; want %v", g, w)
	}
	if !bytes.Equal(got.Bytes, want.Bytes) {
		return fmt.Errorf("blocks of %v differ", interp.TypeOf(want))
	}
	worst, most, bad := -1, 0.0, 0
	for i := range max(len(want.Floats), len(want.Ints)) {
		e := 0.0
		if want.Floats != nil && !look(got.Floats[i], want.Floats[i]) {
			continue
		}
		if want.Floats != nil {
			e = excess(got.Floats[i], want.Floats[i], tol, want.DType)
			if extra != nil {
				e -= extra[i]
			}
		} else if got.Ints[i] != want.Ints[i] {
			e = math.Inf(1)
		}
		if e > 0 {
			bad++
			if worst < 0 || e > most {
				worst, most = i, e
			}
		}
	}
	if worst < 0 {
		return nil
	}
	show := func(a *tensor.Array) any {
		if a.Floats != nil {
			return a.Floats[worst]
		}
		return a.Ints[worst]
	}
	return fmt.Errorf("%d of %d elements differ; the worst is %d of %v: got %v, want %v within %g + %g*|want|",
		bad, want.Len(), worst, want.Shape, show(got), show(want), tol.Abs, tol.Rel)
}

// excess is interp.Excess, except that results may overflow. The reference does not round f32 results and may exceed
// the type's range.
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

// specials returns the numbers that float kernels most often get wrong, for type d.
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

// ordinary are finite numbers, among them those near which functions change their behaviour.
var ordinary = []float64{1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 20, -20, 100, -100, 0x1p-126, 0x1p-14, 1.0 / 3}

// dense fills float operands with special and ordinary numbers at random, so that binary ops meet most pairs of them.
func dense(rng *rand.Rand, in []*tensor.Array) {
	for _, x := range in {
		if x == nil || x.Floats == nil {
			continue
		}
		pool := append(specials(x.DType), ordinary...)
		for i := range x.Floats {
			x.Floats[i] = pool[rng.IntN(len(pool))]
		}
		copy(x.Floats, x.Tensor().Array().Floats)
	}
}

// extremes fills integer operands with the smallest and largest numbers of their type and with numbers near 0.
func extremes(rng *rand.Rand, in []*tensor.Array) {
	for _, x := range in {
		if x == nil || x.Ints == nil {
			continue
		}
		lo, hi := x.DType.IntRange()
		pool := []int64{lo, hi, lo + 1, hi - 1, 0, 1, 1, 2}
		if lo < 0 {
			pool = append(pool, -1)
		}
		for i := range x.Ints {
			x.Ints[i] = pool[rng.IntN(len(pool))]
			if x.DType == dtype.Bool {
				x.Ints[i] &= 1
			}
		}
	}
}

// near compares the results of an op with its definition. The ops' tolerances assume that operands do not cancel, and
// that numbers whose exponential is taken are small: exp(s) differs by |s| times the relative error of s. This does not
// hold in a norm of nearly equal values, or in attention with scores of 200. So near adds to the tolerance the change
// of the definition's result if operands change by a rounding.
func near(cmp comparison, def *ir.OpDef, attrs any, in, got, want []*tensor.Array) error {
	tols := def.Tol(attrs, typesOf(in), typesOf(want)...)
	for k, w := range want {
		err := cmp(got[k], w, tols[k], nil)
		if err != nil && w.Floats != nil && tols[k] != (ir.Tolerance{}) && def.Eval != nil {
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

// sensitivity returns how much each element of result k may change if the operands change by a rounding. It changes
// each element by itself, and all elements of a row, which is the last axis, together. A row that changes as one stands
// for the rounding of a sum over it: the sum of 32 equal products then changes by a rounding of its size, but by only a
// seventh of that if each product changes by itself. ok is false if the definition refuses such operands.
func sensitivity(def *ir.OpDef, attrs any, in, want []*tensor.Array, k int) (extra []float64, ok bool) {
	rng := rand.New(rand.NewPCG(1, 13))
	extra = make([]float64, want[k].Len())
	for try := range 16 {
		moved := make([]*tensor.Array, len(in))
		for j, x := range in {
			if x == nil {
				continue
			}
			m := *x
			m.Floats = slices.Clone(x.Floats)
			row, by := 1, 0.0
			if n := len(x.Shape); try%2 == 1 && n > 0 {
				row = max(1, x.Shape[n-1])
			}
			for i := range m.Floats {
				if i%row == 0 {
					by = float64(rng.IntN(3)-1) * unit(x.DType)
				}
				m.Floats[i] *= 1 + by
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
		for i, w := range want[k].Floats {
			if d := 4 * math.Abs(out[k].Floats[i]-w); d > extra[i] && !math.IsInf(d, 0) {
				extra[i] = d
			}
		}
	}
	return extra, true
}

// unit returns the relative rounding error of arithmetic on operands of type d. f16 and bf16 are computed in f32.
func unit(d dtype.DType) float64 {
	if d == dtype.F64 {
		return 0x1p-52
	}
	return 0x1p-23
}

// random returns operands for the subject. Equal seeds give equal operands.
func (s subject) random(seed uint64) []*tensor.Array {
	return interp.CaseInputs(s.Case, seed)
}
