package stored

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Room returns memory for n results, which put stores from element i on.
func (w Values) Room(i, n int, buf []float32) []float32 {
	if w.Kind == dtype.F32 {
		return w.Floats[i : i+n]
	}
	return buf[:n]
}

// Put rounds and stores the results x, computed in memory from room.
func (w Values) Put(s *isa.Set, i int, x []float32) {
	switch w.Kind {
	case dtype.F16:
		vec.On(s).NarrowF16(w.Halves[i:i+len(x)], x)
	case dtype.BF16:
		vec.On(s).NarrowBF16(w.Halves[i:i+len(x)], x)
	}
}

// Buffer returns memory to widen n elements into; nil if w is f32.
func (w Values) Buffer(s *pool.Scratch, n int) []float32 {
	if len(w.Halves) == 0 {
		return nil
	}
	return s.Floats(n)
}
