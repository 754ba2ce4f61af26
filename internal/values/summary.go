package values

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// A Summary describes the elements of a value. Min, Max and MeanAbs are over the finite elements; without finite
// elements they are 0.
type Summary struct {
	Len, Zeros, NaN, Inf int
	Min, Max, MeanAbs    float64
	FirstNaN, FirstInf   int // index of the first one in row-major order, or -1
}

// Finite reports whether the value has neither NaN nor infinities.
func (s *Summary) Finite() bool { return s.NaN+s.Inf == 0 }

// Merge adds the elements of another value, or of the same value in another run.
func (s *Summary) Merge(t Summary) {
	a, b := s.Len-s.NaN-s.Inf, t.Len-t.NaN-t.Inf
	switch {
	case b == 0:
	case a == 0:
		s.Min, s.Max, s.MeanAbs = t.Min, t.Max, t.MeanAbs
	default:
		s.Min, s.Max = min(s.Min, t.Min), max(s.Max, t.Max)
		s.MeanAbs = (s.MeanAbs*float64(a) + t.MeanAbs*float64(b)) / float64(a+b)
	}
	s.Len, s.Zeros, s.NaN, s.Inf = s.Len+t.Len, s.Zeros+t.Zeros, s.NaN+t.NaN, s.Inf+t.Inf
}

// chunk is the number of elements that are converted to float64 at a time.
const chunk = 1 << 14

// Summarise describes a value. ok is false for packed element types, which have no elements.
func Summarise(t tensor.Tensor) (s Summary, ok bool) {
	s = Summary{Len: tensor.Numel(t.Shape), FirstNaN: -1, FirstInf: -1, Min: math.Inf(1), Max: math.Inf(-1)}
	if t.DType.IsPacked() {
		return s, false
	}
	sum := 0.0
	each(t, func(i int, v float64) {
		switch {
		case math.IsNaN(v):
			s.NaN++
			if s.FirstNaN < 0 {
				s.FirstNaN = i
			}
			return
		case math.IsInf(v, 0):
			s.Inf++
			if s.FirstInf < 0 {
				s.FirstInf = i
			}
			return
		case v == 0:
			s.Zeros++
		}
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
		sum += math.Abs(v)
	})
	if n := s.Len - s.NaN - s.Inf; n > 0 {
		s.MeanAbs = sum / float64(n)
	} else {
		s.Min, s.Max = 0, 0
	}
	return s, true
}

// each calls f for each element of a value whose element type is not packed.
func each(t tensor.Tensor, f func(i int, v float64)) {
	if t.DType == dtype.F32 && tensor.Aligned(t.Data, 4) {
		for i, v := range tensor.View[float32](t.Data) {
			f(i, float64(v))
		}
		return
	}
	size, n := t.DType.Size(), tensor.Numel(t.Shape)
	for at := 0; at < n; at += chunk {
		some := min(chunk, n-at)
		data := append(tensor.AlignedBytes(some * size)[:0], t.Data[at*size:(at+some)*size]...)
		a := tensor.Tensor{DType: t.DType, Shape: []int{some}, Data: data}.Array()
		for i := range some {
			f(at+i, a.At(i))
		}
	}
}

// around returns up to 2*reach+1 elements of a value: those at and beside index i.
func around(t tensor.Tensor, i, reach int) []Number {
	size, n := t.DType.Size(), tensor.Numel(t.Shape)
	lo, hi := max(0, i-reach), min(n, i+reach+1)
	data := append(tensor.AlignedBytes((hi - lo) * size)[:0], t.Data[lo*size:hi*size]...)
	a := tensor.Tensor{DType: t.DType, Shape: []int{hi - lo}, Data: data}.Array()
	out := make([]Number, hi-lo)
	for k := range out {
		out[k] = Number(a.At(k))
	}
	return out
}

// index returns the position of element i in a shape.
func index(i int, shape []int) []int {
	at := make([]int, len(shape))
	for a := len(shape) - 1; a >= 0; a-- {
		at[a], i = i%shape[a], i/shape[a]
	}
	return at
}
