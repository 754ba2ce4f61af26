package kernels

// A masked key has a weight of 0. That does not mask a value that is infinite or NaN, since 0*Inf is NaN. Such values of a masked tile
// are therefore left out of the product, and added one by one to the queries that give them a weight.

// outlier is element e of the value of a key of the tile.
type outlier struct {
	key, e int
	x      float32
}

// setAside takes the elements that are not finite out of the n values in a.rows.
func (a *attnTile) setAside(n int) {
	a.outliers = a.outliers[:0]
	rows := a.rows[:n*a.dv]
	if allFinite(a.s, rows) {
		return
	}
	for i, x := range rows {
		if x-x != 0 {
			a.outliers = append(a.outliers, outlier{i / a.dv, i % a.dv, x})
			rows[i] = 0
		}
	}
}

// addOutliers adds what setAside took to a panel, after accumulate has left the weights in a.score.
func (a *attnTile) addOutliers(p span) {
	o := a.o[p.at*a.rowsO:]
	for _, v := range a.outliers {
		for i, weight := range a.score[v.key*p.nr:][:p.n] {
			if weight != 0 {
				o[v.e*p.nr+i] += weight * v.x
			}
		}
	}
}
