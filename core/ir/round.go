package ir

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// roundToType rounds a result of the reference evaluation to values of its element type. It leaves f32 in float64.
func roundToType(a *tensor.Array) {
	switch a.DType {
	case dtype.F16:
		for i, x := range a.Floats {
			a.Floats[i] = float64(dtype.F16ToF32(dtype.F64ToF16(x)))
		}
	case dtype.BF16:
		for i, x := range a.Floats {
			a.Floats[i] = float64(dtype.BF16ToF32(dtype.F64ToBF16(x)))
		}
	case dtype.I8:
		for i, x := range a.Ints {
			a.Ints[i] = int64(int8(x))
		}
	case dtype.I16:
		for i, x := range a.Ints {
			a.Ints[i] = int64(int16(x))
		}
	case dtype.I32:
		for i, x := range a.Ints {
			a.Ints[i] = int64(int32(x))
		}
	case dtype.U8:
		for i, x := range a.Ints {
			a.Ints[i] = int64(uint8(x))
		}
	case dtype.U32:
		for i, x := range a.Ints {
			a.Ints[i] = int64(uint32(x))
		}
	}
}
