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

// put stores what was computed in the memory that room gave, and may overwrite that.
func (w Weights) put(s *isa, i int, x []float32) {
	switch w.kind {
	case dtype.F16:
		narrowF16(w.half[i:i+len(x)], x)
	case dtype.BF16:
		s.round(x, x)
		dst := w.half[i : i+len(x)]
		for j, v := range x {
			dst[j] = uint16(math.Float32bits(v) >> 16)
		}
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
		sign, a := uint16(b>>16)&0x8000, b&0x7fffffff
		switch {
		case a < 0x38800000: // a multiple of 2^-24, which is the last place of 0.5
			dst[i] = sign | uint16(math.Float32bits(math.Float32frombits(a)+0.5)-0x3f000000)
		case a < 0x477ff000:
			dst[i] = sign | uint16((a-0x38000000+0xfff+a>>13&1)>>13)
		default:
			dst[i] = dtype.F32ToF16(x)
		}
	}
}
