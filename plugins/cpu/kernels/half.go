package kernels

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// Kernels of norms, softmax and reductions compute rows and blocks of f16 and bf16 in f32: Weights.row widens into a buffer, room gives the
// memory for results, put rounds them once. For f32 all three use the operands themselves.

// room is memory for n results that put stores from element i on.
func (w Weights) room(i, n int, buf []float32) []float32 {
	if w.kind == dtype.F32 {
		return w.f32[i : i+n]
	}
	return buf[:n]
}

// put stores what was computed in the memory that room gave.
func (w Weights) put(i int, x []float32) {
	switch w.kind {
	case dtype.F16:
		narrowF16(w.half[i:i+len(x)], x)
	case dtype.BF16:
		narrowBF16(w.half[i:i+len(x)], x)
	}
}

// buffer is memory to widen n elements into; nil if there is nothing to widen.
func (w Weights) buffer(s *scratch, n int) []float32 {
	if len(w.half) == 0 {
		return nil
	}
	return s.floats(n)
}

// narrowF16 rounds to half precision.
func narrowF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		b := math.Float32bits(x)
		if a := b & 0x7fffffff; a >= 0x38800000 && a < 0x477ff000 { // neither a denormal nor too large
			dst[i] = uint16(b>>16)&0x8000 | uint16((a-0x38000000+0xfff+a>>13&1)>>13)
		} else {
			dst[i] = dtype.F32ToF16(x)
		}
	}
}

// narrowBF16 rounds to bfloat16.
func narrowBF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = dtype.F32ToBF16(x)
	}
}
