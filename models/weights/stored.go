package weights

import (
	"io"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Stored is a checkpoint with the element types that an artifact will use: one type for all float and packed tensors,
// or their own.
type Stored struct {
	*Checkpoint
	// DType is f32, f16 or bf16. Invalid keeps the type of each tensor, except that f64 is rounded to f32, because no
	// backend computes in f64.
	DType dtype.DType
	// Packed lists the tensors that are stored in a packed type instead; see Quantize.
	Packed map[string]dtype.DType
	// Packings, if not nil, is called after each packed tensor was written. Calls may be concurrent.
	Packings func(Packing)
}

// Type returns the shape of a tensor and the element type in which it will be stored. The element type is Invalid if
// the stored type has no counterpart.
func (s Stored) Type(name string) (ir.Type, bool) {
	info, ok := s.Info(name)
	if !ok {
		return ir.Type{}, false
	}
	t := ir.TypeOf(info.DType, info.Shape...)
	if d, ok := s.Packed[name]; ok {
		n := len(info.Shape) - 1
		t.DType, t.Shape[n] = d, ir.Static(info.Shape[n]/int64(d.Values()))
		return t, true
	}
	if t.DType.IsPacked() && s.DType != dtype.Invalid {
		shape := slices.Clone(info.Shape)
		shape[len(shape)-1] *= int64(t.DType.Values())
		return ir.TypeOf(s.DType, shape...), true
	}
	switch {
	case !t.DType.IsFloat():
	case s.DType != dtype.Invalid:
		t.DType = s.DType
	case t.DType == dtype.F64:
		t.DType = dtype.F32
	}
	return t, true
}

// WriteTo streams a tensor in the type in which it will be stored. overflowed counts the values that became infinite.
func (s Stored) WriteTo(w io.Writer, name string) (overflowed int64, err error) {
	if d, ok := s.Packed[name]; ok {
		return 0, s.writePacked(w, name, d)
	}
	t, _ := s.Type(name)
	return s.Copy(w, name, t.DType)
}
