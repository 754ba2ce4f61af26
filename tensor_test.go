package rlx_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx"
)

func roundTrip[T rlx.Element](t *testing.T, d rlx.DType, data ...T) {
	t.Helper()
	x := tensorOf(t, data, 1, len(data))
	got, err := rlx.Values[T](x)
	if err != nil || !slices.Equal(got, data) || x.DType != d || len(x.Data) != d.Size()*len(data) ||
		x.Len() != len(data) {
		t.Errorf("%v: %v, %v; want %v", x, got, err, data)
	}
	// Bytes from a file may be unaligned.
	odd := append([]byte{0}, x.Data...)[1:]
	x.Data = odd
	if got, err := rlx.Values[T](x); err != nil || !slices.Equal(got, data) {
		t.Errorf("%v, not aligned: %v, %v; want %v", x, got, err, data)
	}
}

func TestTensors(t *testing.T) {
	roundTrip[float32](t, rlx.F32, 1, -2.5, math.MaxFloat32)
	roundTrip[float64](t, rlx.F64, 1, -2.5, math.MaxFloat64)
	roundTrip[rlx.Float16](t, rlx.F16, 0x3c00, 0xc100)
	roundTrip[rlx.BFloat16](t, rlx.BF16, 0x3f80, 0xc020)
	roundTrip[int8](t, rlx.I8, 1, -2, 127)
	roundTrip[int16](t, rlx.I16, 1, -2, 32767)
	roundTrip[int32](t, rlx.I32, 1, -2, math.MaxInt32)
	roundTrip[int64](t, rlx.I64, 1, -2, math.MaxInt64)
	roundTrip[uint8](t, rlx.U8, 1, 255)
	roundTrip[uint32](t, rlx.U32, 1, math.MaxUint32)
	roundTrip(t, rlx.Bool, true, false, true)
	if rlx.Float16(0xc100).Float32() != -2.5 || rlx.BFloat16(0xc020).Float32() != -2.5 {
		t.Error("halves")
	}
	if x := tensorOf(t, []float32{3}); x.String() != "f32[]" || x.Len() != 1 {
		t.Errorf("scalar: %v", x)
	}
	if x := tensorOf(t, []float32{}, 0, 4); x.String() != "f32[0,4]" || x.Len() != 0 {
		t.Errorf("empty: %v", x)
	}
	for _, shape := range [][]int{{}, {3}, {-1, -2}, {2, 2}, {math.MaxInt, 2}, {1 << 32, 1 << 32}} {
		_, err := rlx.NewTensor([]float32{1, 2}, shape...)
		wantError(t, "a shape of another size", err, rlx.ErrInput)
	}
	_, err := rlx.Values[float64](tensorOf(t, []float32{1, 2}, 2))
	wantError(t, "another element type", err, rlx.ErrInput)
	for _, bad := range []rlx.Tensor{{DType: rlx.F32, Shape: []int{2}, Data: make([]byte, 7)},
		{DType: rlx.F32, Shape: []int{-2, -1}, Data: make([]byte, 8)}} {
		_, err := rlx.Values[float32](bad)
		wantError(t, "parts that do not fit together", err, rlx.ErrInput)
	}
}
