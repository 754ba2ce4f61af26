package imaging

import "math"

// Taps lists the source positions that contribute to one destination position: First and the ones after it, one for
// each weight.
type Taps struct {
	First  int
	Weight []float32 // sums to 1
}

// Bilinear returns the taps of a linear resize from in to out samples. Pixel centres are at half-integers, which
// PyTorch calls align_corners=false. With antialias, the triangle widens by the scale when shrinking, and every source
// sample counts; without it, only the two nearest do. Taps beyond the edge are dropped and the others renormalised. For
// two taps this equals repeating the edge.
func Bilinear(in, out int, antialias bool) []Taps {
	return taps(in, out, antialias, 1, func(x float64) float64 { return max(0, 1-math.Abs(x)) })
}

// Bicubic is like Bilinear with Keys' cubic, a = -0.5, in place of the triangle (Keys 1981,
// doi:10.1109/TASSP.1981.1163711). Pillow uses it, and PyTorch with antialias. Some weights are negative, so results
// may exceed the range of the samples.
func Bicubic(in, out int, antialias bool) []Taps {
	const a = -0.5
	return taps(in, out, antialias, 2, func(x float64) float64 {
		switch x = math.Abs(x); {
		case x < 1:
			return ((a+2)*x-(a+3))*x*x + 1
		case x < 2:
			return ((x-5)*x+8)*x*a - 4*a
		}
		return 0
	})
}

// taps returns the taps of a filter that is 0 beyond reach source samples from its centre.
func taps(in, out int, antialias bool, reach float64, filter func(float64) float64) []Taps {
	scale := float64(in) / float64(out)
	wider := 1.0
	if antialias && scale > 1 {
		wider = scale
	}
	all := make([]Taps, out)
	for i := range all {
		centre := (float64(i) + 0.5) * scale
		lo := max(int(math.Floor(centre-reach*wider+0.5)), 0)
		hi := min(int(math.Floor(centre+reach*wider+0.5)), in)
		w := make([]float64, 0, hi-lo)
		sum := 0.0
		for j := lo; j < hi; j++ {
			v := filter((float64(j) + 0.5 - centre) / wider)
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

// ResizeRow computes the row dst from the row src by the taps xs. Both have channels interleaved values per position.
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

// Resize resizes an image of srcH rows to len(ys) rows of len(xs) positions. row reads a source row: srcW positions of
// channels values. Each source row is resized horizontally and then added to the destination rows that it contributes
// to, so Resize holds only the destination and one row. With round, values are rounded to whole numbers from 0 to 255
// after each direction.
func Resize(srcW, srcH, channels int, xs, ys []Taps, round bool, row func(y int, dst []float32)) []float32 {
	width := len(xs) * channels
	dst, src, narrow := make([]float32, width*len(ys)), make([]float32, srcW*channels), make([]float32, width)
	from := 0 // destination rows before it are complete
	for y := range srcH {
		for from < len(ys) && ys[from].First+len(ys[from].Weight) <= y {
			from++
		}
		if from == len(ys) || ys[from].First > y {
			continue // no destination row uses it
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

// roundAll rounds values to the nearest whole number from 0 to 255, halves up.
func roundAll(v []float32) {
	for i, x := range v {
		v[i] = float32(int32(min(max(x, 0), 255) + 0.5))
	}
}
