package attention

import "github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"

// A masked key has weight 0. That does not mask a value that is infinite or NaN, since 0*Inf is NaN. Under a mask, such
// elements are therefore replaced by 0 in the product, and added one by one to the queries for which their weight is
// not 0.

// outlier is an infinite or NaN element of a value: x is element e of the value of a key of the tile.
type outlier struct {
	key, e int
	x      float32
}

// setAside moves the elements that are not finite from the n values in a.rows to a.outliers.
func (a *attnTile) setAside(n int) {
	a.outliers = a.outliers[:0]
	rows := a.rows[:n*a.dv]
	if reduce.AllFinite(a.s, rows) {
		return
	}
	for i, x := range rows {
		if x-x != 0 {
			a.outliers = append(a.outliers, outlier{i / a.dv, i % a.dv, x})
			rows[i] = 0
		}
	}
}

// addOutliers adds the outliers to a panel. accumulate must have left the weights in a.score.
func (a *attnTile) addOutliers(p span) {
	o := a.o[p.at*a.rowsO:]
	for _, v := range a.outliers {
		for i, weight := range a.score[v.key*p.NR:][:p.n] {
			if weight != 0 {
				o[v.e*p.NR+i] += weight * v.x
			}
		}
	}
}
