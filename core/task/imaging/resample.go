package imaging

import "math"

// Taps are the source positions and weights that make up one destination position: First and those after it.
type Taps struct {
	First  int
	Weight []float32 // sums to 1
}

// Bilinear returns the taps of a linear resize from in to out samples, pixel centres at half-integers (what PyTorch calls
// align_corners=false). With antialias the triangle widens by the scale when shrinking, so every source sample counts;
// without it only the two nearest do. Taps beyond the edge are dropped and the rest renormalised, which for two taps is the
// same as repeating the edge sample.
func Bilinear(in, out int, antialias bool) []Taps {
	scale := float64(in) / float64(out)
	support := 1.0
	if antialias && scale > 1 {
		support = scale
	}
	all := make([]Taps, out)
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
		all[i] = Taps{lo, make([]float32, len(w))}
		for j, v := range w {
			all[i].Weight[j] = float32(v / sum)
		}
	}
	return all
}

// ResizeRow computes dst from src by xs; both hold channels interleaved values per position.
func ResizeRow(dst, src []float32, xs []Taps, channels int) {
	for x, t := range xs {
		for c := range channels {
			var v float32
			at := t.First*channels + c
			for _, w := range t.Weight {
				v += w * src[at]
				at += channels
			}
			dst[x*channels+c] = v
		}
	}
}

// Resize resizes an image whose rows are delivered by row (srcW positions of channels values) from srcH rows to len(ys)
// rows of len(xs) positions. It holds the destination and one row, however large the source is: each source row is
// resized horizontally and added to the destination rows it belongs to. With round, values are rounded to whole numbers
// after either direction.
func Resize(srcW, srcH, channels int, xs, ys []Taps, round bool, row func(y int, dst []float32)) []float32 {
	width := len(xs) * channels
	dst, src, narrow := make([]float32, width*len(ys)), make([]float32, srcW*channels), make([]float32, width)
	from := 0 // destination rows before it are complete
	for y := range srcH {
		for from < len(ys) && ys[from].First+len(ys[from].Weight) <= y {
			from++
		}
		if from == len(ys) || ys[from].First > y {
			continue // no destination row needs it
		}
		row(y, src)
		ResizeRow(narrow, src, xs, channels)
		if round {
			roundAll(narrow)
		}
		for i := from; i < len(ys) && ys[i].First <= y; i++ {
			if y-ys[i].First >= len(ys[i].Weight) {
				continue
			}
			w := ys[i].Weight[y-ys[i].First]
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
