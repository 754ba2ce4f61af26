package kernels

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// reduceRoutines add up rows and columns.
type reduceRoutines struct {
	sum        func(x []float32) float32
	deviations func(x []float32, mean float32) (distance, squares float32)     // sums of mean-x and of its square
	normalize  func(dst, x, gamma, beta []float32, mean, scale, shift float32) // ((x-mean)*scale + shift)*gamma + beta

	folds   *foldRoutines    // nil: reductions use the binary routines
	softmax *softmaxRoutines // nil: see softmaxRowByParts
}

var reduceTable isa.Table[reduceRoutines]

func init() { reduceTable.Add(isa.Generic, reduceGeneric) }

// reduceOn returns the routines of a set.
func reduceOn(s *isa.Set) *reduceRoutines { return reduceTable.On(s) }

func reduceGeneric() *reduceRoutines {
	return &reduceRoutines{
		sum: func(x []float32) float32 {
			s := 0.0
			for _, v := range x {
				s += float64(v)
			}
			return float32(s)
		},
		deviations: func(x []float32, mean float32) (distance, squares float32) {
			s, t := 0.0, 0.0
			for _, v := range x {
				d := float64(mean) - float64(v)
				s += d
				t += d * d
			}
			return float32(s), float32(t)
		},
		normalize: func(dst, x, gamma, beta []float32, mean, scale, shift float32) {
			for i, v := range x {
				dst[i] = ((v-mean)*scale+shift)*gamma[i] + beta[i]
			}
		},
	}
}
