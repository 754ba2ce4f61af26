package elementwise

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// halfRegion is a region that computes one binary function of f16 or bf16: casts of its inputs to f32, the function,
// and a cast back. One operand may instead be f32, such as a row of weights, or a number. With a routine for the
// function, one pass replaces three or four.
type halfRegion struct {
	function halfFunction
	in       [2]RegionRef // inputs, which may be the same, or a number
	wide     int          // the operand that is f32, or -1
}

// asHalf returns the steps as a halfRegion, or nil if they are something else.
func asHalf(types []dtype.DType, steps []RegionStep) *halfRegion {
	n := len(steps)
	if n < 3 || n > 4 {
		return nil
	}
	function, cast := steps[n-2], steps[n-1]
	op, ok := ParseBinary(function.Op)
	d, _ := dtype.Parse(cast.Op)
	if !ok || d != dtype.F16 && d != dtype.BF16 ||
		!slices.Equal(cast.In, []RegionRef{{Kind: RegionResult, Index: n - 2}}) || len(function.In) != 2 {
		return nil
	}
	h := &halfRegion{function: halfFunction{op, d}, wide: -1}
	for k, ref := range function.In {
		switch x := ref; {
		case ref.Kind == RegionNumber || ref.Kind == RegionInput && types[ref.Index] == dtype.F32:
			if h.wide >= 0 {
				return nil
			}
			h.wide, h.in[k] = k, x
		case ref.Kind == RegionResult && steps[ref.Index].Op == dtype.F32.String() && len(steps[ref.Index].In) == 1:
			if x = steps[ref.Index].In[0]; x.Kind != RegionInput || types[x.Index] != d {
				return nil
			}
			h.in[k] = x
		default:
			return nil
		}
	}
	return h
}

// runHalf is run for a halfRegion, if the set has a routine for its function.
func (b *regionBlocks) runHalf(dst RegionValue, in []RegionValue, lo, n int) {
	h := b.r.half
	var x [2]RegionValue
	for k, ref := range h.in {
		if ref.Kind == RegionNumber {
			x[k] = RegionValue{F32: b.nums[len(b.nums)-2][k][:n]}
		} else {
			x[k] = b.input(ref.Index, in[ref.Index], lo, n)
		}
	}
	out := pool.ElementsOf[uint16](dst.Bytes)
	if h.wide < 0 {
		b.half(out, pool.ElementsOf[uint16](x[0].Bytes), pool.ElementsOf[uint16](x[1].Bytes))
	} else {
		b.mixed(out, pool.ElementsOf[uint16](x[1-h.wide].Bytes), x[h.wide].F32)
	}
}
