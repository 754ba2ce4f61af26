package conv

import "math"

// winogradLastSize returns the number of floats of the packed weights: [vectors, elements of a tile, channels of x,
// lanes].
func (g *convolution) winogradLastSize() int {
	lanes := g.p.Set.Lanes
	return (g.Cout + lanes - 1) / lanes * lanes * winogradParts * g.Cin
}

// packWeights transforms and packs the weights. It sets direct if their sums are not accurate enough.
func (w *winogradLast) packWeights() {
	kept := w.Packed
	kept.winograd = make([]float32, w.winogradLastSize())
	w.p.Share(w.vectors, 1, (*winogradLastWeights)(w))
	for _, v := range kept.winograd {
		kept.largest = max(kept.largest, float64(v), -float64(v))
	}
	if w.p.Bad.Swap(0) != 0 || math.IsInf(kept.largest, 0) || math.IsNaN(kept.largest) {
		kept.winograd, kept.largest, kept.direct = nil, 0, true
	}
}

type winogradLastWeights winogradLast

func (x *winogradLastWeights) Do(lo, hi, _ int) {
	w := (*winogradLast)(x)
	s, lanes, k := w.p.Set, w.p.Set.Lanes, w.Cin
	var row [9]float32
	var u [winogradParts]float32
	for v := lo; v < hi; v++ {
		to := w.Packed.winograd[v*winogradParts*k*lanes:][:winogradParts*k*lanes]
		for l := range min(lanes, w.Cout-v*lanes) {
			for c := range k {
				transformWeights(&u, w.Weight.Row(s, ((v*lanes+l)*k+c)*9, 9, row[:]))
				for i, x := range u {
					to[(i*k+c)*lanes+l] = x
				}
			}
			if !evenWeights(to[l:], lanes) {
				w.p.Bad.Store(1)
			}
		}
	}
}

// evenWeights reports whether the sums of a channel of the result are accurate enough. Its transformed weights are step
// elements apart.
func evenWeights(made []float32, step int) bool {
	most, used, large := float32(0), 0, 0
	for at := 0; at < len(made); at += step {
		if v := made[at]; v != 0 {
			most = max(most, v, -v)
			used++
		}
	}
	for at := 0; at < len(made); at += step {
		if v := made[at]; v != 0 && max(v, -v) >= most/winogradRange {
			large++
		}
	}
	return enough(large, used) && most-most == 0 // finite
}
