package kernels

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// passes are the passes of a softmax down panels s[rows, n] of scores. Panels have two vectors of columns, or one.
type passes struct {
	scoreMax     func(s []float32, scale float32, max []float32)
	scoreBiasMax func(s []float32, scale float32, row, each, max []float32)
	expSum       func(s []float32, max, sum []float32)
	scaleRows    func(x []float32, by []float32)
}

// normRoutines compute softmax.
type normRoutines struct {
	passes        // for panels of two vectors
	narrow passes // for panels of one
}

var normTable isa.Table[normRoutines]

func init() { normTable.Add(isa.Generic, normGeneric) }

// normOn returns the routines of a set.
func normOn(s *isa.Set) *normRoutines { return normTable.On(s) }

func normGeneric() *normRoutines {
	lanes := isa.Generic.Lanes
	return &normRoutines{passesInGo(2 * lanes), passesInGo(lanes)}
}

// passesInGo returns the passes over panels of nr columns.
func passesInGo(nr int) passes {
	return passes{
		scoreMax: func(s []float32, scale float32, max []float32) {
			for j := range s {
				s[j] *= scale
				raise(&max[j%nr], s[j])
			}
		},
		scoreBiasMax: func(s []float32, scale float32, row, each, max []float32) {
			for j := range s {
				s[j] = s[j]*scale + row[j%nr] + each[j]
				raise(&max[j%nr], s[j])
			}
		},
		expSum: func(s []float32, max, sum []float32) {
			for j := range s {
				s[j] = float32(math.Exp2(float64(s[j] - max[j%nr])))
				sum[j%nr] += s[j]
			}
		},
		scaleRows: func(x []float32, by []float32) {
			for j := range x {
				x[j] *= by[j%nr]
			}
		},
	}
}

// raise sets max to x if x is larger. NaN is never larger.
func raise(max *float32, x float32) {
	if x > *max {
		*max = x
	}
}
