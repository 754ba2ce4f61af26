package kernels

import "github.com/rlx-go/rlx/core/dtype"

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
func (w Weights) put(s *isa, i int, x []float32) {
	switch w.kind {
	case dtype.F16:
		s.narrowF16(w.half[i:i+len(x)], x)
	case dtype.BF16:
		s.narrowBF16(w.half[i:i+len(x)], x)
	}
}

// buffer is memory to widen n elements into; nil if there is nothing to widen.
func (w Weights) buffer(s *scratch, n int) []float32 {
	if len(w.half) == 0 {
		return nil
	}
	return s.floats(n)
}

// halfFunction is a function of two operands of f16 or bf16.
type halfFunction struct {
	op  BinaryOp
	typ dtype.DType
}

// halvesInGo computes it one element at a time.
func halvesInGo(op BinaryOp, d dtype.DType) func(dst, a, b []uint16) {
	f, widen, narrow := binaries[op].f, dtype.F16ToF32, dtype.F32ToF16
	if d == dtype.BF16 {
		widen, narrow = dtype.BF16ToF32, dtype.F32ToBF16
	}
	return func(dst, a, b []uint16) {
		for i, x := range a {
			dst[i] = narrow(float32(f(float64(widen(x)), float64(widen(b[i])))))
		}
	}
}
