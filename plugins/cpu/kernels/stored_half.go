package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// room returns memory for n results, which put stores from element i on.
func (w Weights) room(i, n int, buf []float32) []float32 {
	if w.kind == dtype.F32 {
		return w.f32[i : i+n]
	}
	return buf[:n]
}

// put rounds and stores the results x, computed in memory from room.
func (w Weights) put(s *isa.Set, i int, x []float32) {
	switch w.kind {
	case dtype.F16:
		vecOn(s).narrowF16(w.half[i:i+len(x)], x)
	case dtype.BF16:
		vecOn(s).narrowBF16(w.half[i:i+len(x)], x)
	}
}

// buffer returns memory to widen n elements into; nil if w is f32.
func (w Weights) buffer(s *scratch, n int) []float32 {
	if len(w.half) == 0 {
		return nil
	}
	return s.floats(n)
}
