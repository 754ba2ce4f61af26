package elementwise

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// regionRoutine computes a block of a step.
type regionRoutine = func(s *isa.Set, dst RegionValue, in *[3]RegionValue)

// regionRun returns the routine of a step and the type of its result. run is nil if no routine takes operands of these
// types.
func regionRun(st RegionStep, in []dtype.DType) (run regionRoutine, out dtype.DType) {
	if to, ok := dtype.Parse(st.Op); ok && len(in) == 1 {
		return regionCast(in[0], to), to
	}
	if st.Op == affineStep && len(in) == 3 && in[2] == dtype.F32 {
		return regionAffine(in[0]), dtype.F32
	}
	var bools []bool
	for _, d := range in {
		if !slices.Contains(regionTypes[:2], d) {
			return nil, out
		}
		bools = append(bools, d == dtype.Bool)
	}
	switch {
	case len(bools) == 1:
		return regionUnary(st, bools[0])
	case len(bools) == 2 && bools[0] == bools[1]:
		return regionBinary(st.Op, bools[0])
	case len(bools) == 3 && st.Op == "where" && bools[1] == bools[2]:
		return regionWhere(bools[0], bools[1])
	}
	return nil, out
}

// regionAffine returns the routine of an affine step from integers.
func regionAffine(from dtype.DType) regionRoutine {
	return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) {
		if On(s).affine == nil && &dst.F32[0] != &in[2].F32[0] {
			Widen(s, dst.F32, from, in[0].Bytes)
			On(s).Binary[Sub](dst.F32, dst.F32, in[1].F32)
			On(s).Binary[Mul](dst.F32, dst.F32, in[2].F32)
			return
		}
		affineOf(s, dst.F32, from, in[0].Bytes, in[1].F32, in[2].F32)
	}
}

// regionUnary is regionRun for a step with one operand, of bools or of float32.
func regionUnary(st RegionStep, bools bool) (regionRoutine, dtype.DType) {
	if bools {
		if st.Op != "not" {
			return nil, dtype.Bool
		}
		return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) {
			On(s).bits[boolNot](dst.Bytes, in[0].Bytes, in[0].Bytes)
		}, dtype.Bool
	}
	if u, ok := ParseUnary(st.Op); ok {
		u = u.With(st.Params...)
		return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) { Apply(s, u, dst.F32, in[0].F32) }, dtype.F32
	}
	if t, ok := ParsePredicate(st.Op); ok {
		return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) { On(s).test[t](dst.Bytes, in[0].F32) }, dtype.Bool
	}
	return nil, dtype.F32
}

// regionBinary is regionRun for a step with two operands, both of bools or of float32.
func regionBinary(op string, bools bool) (regionRoutine, dtype.DType) {
	b, binary := ParseBinary(op)
	c, compares := ParseCompare(op)
	switch {
	case bools && binary && b.TakesBools():
		return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) {
			On(s).bits[logical(b)](dst.Bytes, in[0].Bytes, in[1].Bytes)
		}, dtype.Bool
	case !bools && binary && b.TakesFloats():
		return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) {
			On(s).Binary[b](dst.F32, in[0].F32, in[1].F32)
		}, dtype.F32
	case bools && compares:
		return func(_ *isa.Set, dst RegionValue, in *[3]RegionValue) {
			for i := range dst.Bytes { // true may be any byte but 0
				dst.Bytes[i] = truth(c, Bit(in[0].Bytes[i] != 0), Bit(in[1].Bytes[i] != 0))
			}
		}, dtype.Bool
	case compares:
		return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) {
			On(s).compare[c](dst.Bytes, in[0].F32, in[1].F32)
		}, dtype.Bool
	}
	return nil, dtype.F32
}

// regionWhere returns the routine of where, whose condition and arms are of bools or of float32.
func regionWhere(decides, bools bool) (regionRoutine, dtype.DType) {
	switch {
	case !decides && bools:
		return func(_ *isa.Set, dst RegionValue, in *[3]RegionValue) {
			whereNot0(dst.Bytes, in[0].F32, in[1].Bytes, in[2].Bytes)
		}, dtype.Bool
	case !decides:
		return func(_ *isa.Set, dst RegionValue, in *[3]RegionValue) {
			whereNot0(dst.F32, in[0].F32, in[1].F32, in[2].F32)
		}, dtype.F32
	case bools:
		return func(_ *isa.Set, dst RegionValue, in *[3]RegionValue) {
			whereRow(dst.Bytes, in[0].Bytes, in[1].Bytes, in[2].Bytes, 1, 1, 1)
		}, dtype.Bool
	}
	return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) {
		On(s).choose(dst.F32, in[0].Bytes, in[1].F32, in[2].F32)
	}, dtype.F32
}

// whereNot0 is dst = yes where cond is not 0, and no elsewhere.
func whereNot0[T any](dst []T, cond []float32, yes, no []T) {
	for i, c := range cond {
		if c != 0 {
			dst[i] = yes[i]
		} else {
			dst[i] = no[i]
		}
	}
}

// regionCast returns the routine of a cast between f32 and any type of regions, or from bool to bool; nil for other
// casts.
func regionCast(from, to dtype.DType) regionRoutine {
	if !slices.Contains(regionTypes, from) || !slices.Contains(regionTypes, to) {
		return nil
	}
	switch {
	case from == dtype.Bool && to == dtype.Bool:
		return func(_ *isa.Set, dst RegionValue, in *[3]RegionValue) {
			for i, x := range in[0].Bytes {
				dst.Bytes[i] = min(x, 1)
			}
		}
	case from == dtype.F32 && to == dtype.F32:
		return func(_ *isa.Set, dst RegionValue, in *[3]RegionValue) { copy(dst.F32, in[0].F32) }
	case to == dtype.F32:
		return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) { Widen(s, dst.F32, from, in[0].Bytes) }
	case from == dtype.F32:
		return func(s *isa.Set, dst RegionValue, in *[3]RegionValue) { narrowTo(s, to, dst.Bytes, in[0].F32) }
	}
	return nil
}
