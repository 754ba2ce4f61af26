package task

import "math"

// taps are the source positions and weights that make up one destination position.
type taps struct {
	first  int
	weight []float32 // sums to 1
}

// bilinear gives the taps of a linear resize from in to out samples, pixel centres at half-integers (what PyTorch calls
// align_corners=false). With antialias the triangle widens by the scale when shrinking, so every source sample counts;
// without it only the two nearest do. Taps beyond the edge are dropped and the rest renormalised, which for two taps is the
// same as repeating the edge sample.
func bilinear(in, out int, antialias bool) []taps {
	scale := float64(in) / float64(out)
	support := 1.0
	if antialias && scale > 1 {
		support = scale
	}
	all := make([]taps, out)
	for i := range all {
		centre := (float64(i) + 0.5) * scale
		lo := max(int(math.Floor(centre-support+0.5)), 0)
		hi := min(int(math.Floor(centre+support+0.5)), in)
		w := make([]float64, 0, hi-lo)
		sum := 0.0
		for j := lo; j < hi; j++ {
			v := max(0, 1-math.Abs(float64(j)+0.5-centre)/support)
			w = append(w, v)
			sum += v
		}
		all[i] = taps{lo, make([]float32, len(w))}
		for j, v := range w {
			all[i].weight[j] = float32(v / sum)
		}
	}
	return all
}

// resizeRow computes dst from src by xs; both hold channels interleaved values per position.
func resizeRow(dst, src []float32, xs []taps, channels int) {
	for x, t := range xs {
		for c := range channels {
			var v float32
			at := t.first*channels + c
			for _, w := range t.weight {
				v += w * src[at]
				at += channels
			}
			dst[x*channels+c] = v
		}
	}
}

// resize resizes an image whose rows are delivered by row (srcW positions of channels values) from srcH rows to len(ys)
// rows of len(xs) positions. It holds the destination and one row, however large the source is: each source row is
// resized horizontally and added to the destination rows it belongs to. With round, values are rounded to whole numbers
// after either direction.
func resize(srcW, srcH, channels int, xs, ys []taps, round bool, row func(y int, dst []float32)) []float32 {
	width := len(xs) * channels
	dst, src, narrow := make([]float32, width*len(ys)), make([]float32, srcW*channels), make([]float32, width)
	from := 0 // destination rows before it are complete
	for y := range srcH {
		for from < len(ys) && ys[from].first+len(ys[from].weight) <= y {
			from++
		}
		if from == len(ys) || ys[from].first > y {
			continue // no destination row needs it
		}
		row(y, src)
		resizeRow(narrow, src, xs, channels)
		if round {
			roundAll(narrow)
		}
		for i := from; i < len(ys) && ys[i].first <= y; i++ {
			if y-ys[i].first >= len(ys[i].weight) {
				continue
			}
			w := ys[i].weight[y-ys[i].first]
			for x, v := range narrow {
				dst[i*width+x] += w * v
			}
		}
	}
	if round {
		roundAll(dst)
	}
	return dst
}

// roundAll rounds non-negative values to the nearest whole number, halves up.
func roundAll(v []float32) {
	for i, x := range v {
		v[i] = float32(int32(x + 0.5))
	}
}
