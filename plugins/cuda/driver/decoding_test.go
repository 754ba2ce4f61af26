package driver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/op"
)

// decodingCases have one query. What lies after its position is NaN.
var decodingCases = []attentionCase{
	{1, 1, 700, 8, 2, 64, op.BSE, op.MaskCausal, 0, 0, dtype.F32, []int{576}, false},
	{1, 1, 300, 4, 4, 128, op.BSHD, op.MaskCausal, 0, 0, dtype.F32, []int{0}, false},
	{2, 1, 1100, 6, 2, 32, op.BHSD, op.MaskCausal, 0, 0, dtype.F32, []int{1099, 5}, false},
	{1, 1, 90, 8, 1, 64, op.BSE, op.MaskSliding, 20, 0, dtype.F32, []int{70}, false},
	{2, 1, 130, 2, 1, 64, op.BSHD, op.MaskNone, 0, 0, dtype.F32, nil, false},
	{1, 1, 50, 2, 1, 32, op.BSE, op.MaskCausal, 0, 0, dtype.F32, []int{-5}, false}, // without keys
}

// TestInterpretedDecoding compares attention of one query with its definition, on the interpreter.
func TestInterpretedDecoding(t *testing.T) {
	on := interpreted(withMMA, strings.Clone)
	for _, c := range decodingCases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { c.test(t, on, "f32") })
	}
}

// TestDecoding is TestInterpretedDecoding on the device.
func TestDecoding(t *testing.T) {
	for _, c := range append(decodingCases, attentionCase{1, 1, 4096, 32, 8, 64, op.BSE, op.MaskCausal, 0, 0, dtype.F32,
		[]int{4000}, false}) {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { c.test(t, shared, "f32") })
	}
}
