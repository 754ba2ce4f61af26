package norm

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Passes are the passes of a softmax down panels s[rows, n] of scores. Panels have two vectors of columns, or one.
type Passes struct {
	ScoreMax     func(s []float32, scale float32, max []float32)
	ScoreBiasMax func(s []float32, scale float32, row, each, max []float32)
	ExpSum       func(s []float32, max, sum []float32)
	ScaleRows    func(x []float32, by []float32)
}

// Routines compute softmax.
type Routines struct {
	Passes        // for panels of two vectors
	Narrow Passes // for panels of one
}

var table isa.Table[Routines]

func init() { table.Add(isa.Generic, generic) }

// On returns the routines of a set.
func On(s *isa.Set) *Routines { return table.On(s) }

func generic() *Routines {
	lanes := isa.Generic.Lanes
	return &Routines{passesInGo(2 * lanes), passesInGo(lanes)}
}

// passesInGo returns the passes over panels of nr columns.
func passesInGo(nr int) Passes {
	return Passes{
		ScoreMax: func(s []float32, scale float32, max []float32) {
			for j := range s {
				s[j] *= scale
				Raise(&max[j%nr], s[j])
			}
		},
		ScoreBiasMax: func(s []float32, scale float32, row, each, max []float32) {
			for j := range s {
				s[j] = s[j]*scale + row[j%nr] + each[j]
				Raise(&max[j%nr], s[j])
			}
		},
		ExpSum: func(s []float32, max, sum []float32) {
			for j := range s {
				s[j] = float32(math.Exp2(float64(s[j] - max[j%nr])))
				sum[j%nr] += s[j]
			}
		},
		ScaleRows: func(x []float32, by []float32) {
			for j := range x {
				x[j] *= by[j%nr]
			}
		},
	}
}

// Raise sets max to x if x is larger. NaN is never larger.
func Raise(max *float32, x float32) {
	if x > *max {
		*max = x
	}
}
