package imaging

import (
	"math"
	"slices"
)

// Taps lists the source positions that contribute to one destination position: First and the ones after it, one for
// each weight.
type Taps struct {
	First  int
	Weight []float32 // sums to 1
	exact  []float64 // the same before rounding
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
		all[i] = Taps{lo, make([]float32, len(w)), w}
		for j, v := range w {
			w[j] = v / sum
			all[i].Weight[j] = float32(w[j])
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
// to, so Resize holds only the destination and a few rows.
func Resize(srcW, srcH, channels int, xs, ys []Taps, as Arithmetic, row func(y int, dst []float32)) []float32 {
	if as != Floats {
		return resizeBytes(srcW, srcH, channels, fixed(xs, as), fixed(ys, as), row)
	}
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
	return dst
}

// An Arithmetic says how Resize rounds.
type Arithmetic int

const (
	Floats Arithmetic = iota
	// Pillow and PyTorch take and give whole numbers from 0 to 255, in each direction, and give the same as these
	// programs. The weights of PyTorch's have 16 bits.
	Pillow
	PyTorch
)

// fixedTaps are taps whose weights are multiples of 2^-bits.
type fixedTaps struct {
	bits uint
	taps []fixedTap
}

type fixedTap struct {
	first  int
	weight []int32
}

// fixed rounds weights as Pillow or PyTorch does.
func fixed(taps []Taps, as Arithmetic) fixedTaps {
	out := fixedTaps{22, make([]fixedTap, len(taps))}
	if as == PyTorch {
		most := 0.0
		for _, t := range taps {
			most = max(most, slices.Max(t.exact))
		}
		for out.bits = 0; out.bits < 22 && 0.5+most*float64(int(2)<<out.bits) < 1<<15; out.bits++ {
		}
	}
	for i, t := range taps {
		out.taps[i] = fixedTap{t.First, make([]int32, len(t.Weight))}
		for j, w := range t.exact {
			out.taps[i].weight[j] = int32(math.Round(w * float64(int(1)<<out.bits)))
		}
	}
	return out
}

// clip rounds a sum of values times weights, halves up, to 0 to 255.
func (f fixedTaps) clip(sum int64) int32 {
	return int32(min(max((sum+1<<f.bits>>1)>>f.bits, 0), 255))
}

// resizeBytes is Resize for whole numbers from 0 to 255. Sums are exact, so it does not matter that they are made in
// another order than elsewhere.
func resizeBytes(srcW, srcH, channels int, xs, down fixedTaps, row func(y int, dst []float32)) []float32 {
	ys, width := down.taps, len(xs.taps)*channels
	dst, src, narrow := make([]float32, width*len(ys)), make([]float32, srcW*channels), make([]int32, width)
	var open, free [][]int64 // sums of the destination rows from the first incomplete one on
	from := 0
	finish := func() {
		if len(open) > 0 {
			for x, v := range open[0] {
				dst[from*width+x] = float32(down.clip(v))
			}
			clear(open[0])
			open, free = open[1:], append(free, open[0])
		}
		from++
	}
	for y := range srcH {
		for from < len(ys) && ys[from].first+len(ys[from].weight) <= y {
			finish()
		}
		if from == len(ys) || ys[from].first > y {
			continue // no destination row uses it
		}
		row(y, src)
		resizeRowBytes(narrow, src, xs, channels)
		for i := from; i < len(ys) && ys[i].first <= y; i++ {
			if i-from == len(open) {
				if len(free) == 0 {
					free = append(free, make([]int64, width))
				}
				open, free = append(open, free[len(free)-1]), free[:len(free)-1]
			}
			if y-ys[i].first >= len(ys[i].weight) {
				continue
			}
			w, sums := int64(ys[i].weight[y-ys[i].first]), open[i-from]
			for x, v := range narrow {
				sums[x] += w * int64(v)
			}
		}
	}
	for from < len(ys) {
		finish()
	}
	return dst
}

// resizeRowBytes is ResizeRow for whole numbers from 0 to 255.
func resizeRowBytes(dst []int32, src []float32, xs fixedTaps, channels int) {
	for x, t := range xs.taps {
		for c := range channels {
			var sum int64
			at := t.first*channels + c
			for _, w := range t.weight {
				sum += int64(w) * int64(src[at])
				at += channels
			}
			dst[x*channels+c] = xs.clip(sum)
		}
	}
}
