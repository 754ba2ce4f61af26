package reduce

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// Routines add up rows and columns.
type Routines struct {
	Sum        func(x []float32) float32
	Deviations func(x []float32, mean float32) (distance, squares float32)     // sums of mean-x and of its square
	Normalize  func(dst, x, gamma, beta []float32, mean, scale, shift float32) // ((x-mean)*scale + shift)*gamma + beta

	// NormRows normalizes rows of n elements, as norm.Normalize does. It returns false for an n that it does not take.
	// Nil means none.
	NormRows func(dst, x, gamma, beta []float32, n int, eps float32, center bool) bool

	Folds   *foldRoutines    // nil: reductions use the binary routines
	Softmax *softmaxRoutines // nil: see norm.softmaxRowByParts
}

var table isa.Table[Routines]

func init() { table.Add(isa.Generic, generic) }

// On returns the routines of a set.
func On(s *isa.Set) *Routines { return table.On(s) }

func generic() *Routines {
	return &Routines{
		Sum: func(x []float32) float32 {
			s := 0.0
			for _, v := range x {
				s += float64(v)
			}
			return float32(s)
		},
		Deviations: func(x []float32, mean float32) (distance, squares float32) {
			s, t := 0.0, 0.0
			for _, v := range x {
				d := float64(mean) - float64(v)
				s += d
				t += d * d
			}
			return float32(s), float32(t)
		},
		Normalize: func(dst, x, gamma, beta []float32, mean, scale, shift float32) {
			for i, v := range x {
				dst[i] = ((v-mean)*scale+shift)*gamma[i] + beta[i]
			}
		},
	}
}
