package layout

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// RoiAxis maps the bins of boxes along one axis to elements: bins have Ratio samples.
type RoiAxis struct{ Bins, Size int }

// Roi are the arguments of RoiAlign; see op.RoiAlignDef. Images is [Count, Channels, Y.Size, X.Size].
type Roi struct {
	Dst, Images, Boxes []float32
	Count              int // of images
	Channels, Ratio    int
	Y, X               RoiAxis
	Scale              float32
	Half, Max          bool
}

// RoiAlign computes op.RoiAlignDef for boxes in the images of the given numbers.
//
// The mean of samples on a grid is a product of three matrices: the weights of rows, the image, the weights of columns.
// So for each row of bins the rows of the image that it reads are added up, as vectors, and then the columns.
func RoiAlign[I Index](p *pool.Pool, g Roi, images []I) error {
	for r, b := range images {
		if b < 0 || int64(b) >= int64(g.Count) {
			return fmt.Errorf("image %v of box %d is out of range 0 to %d", b, r, g.Count-1)
		}
	}
	if len(g.Images) < g.Count*g.Channels*g.Y.Size*g.X.Size ||
		len(g.Boxes) < 4*len(images) || len(g.Dst) < len(images)*g.Channels*g.Y.Bins*g.X.Bins {
		panic("BUG: RoiAlign: a slice is short")
	}
	work := g.Y.Bins * g.Ratio * (2*g.X.Size + g.X.Bins*g.Ratio)
	pool.Split(p, len(images)*g.Channels, 1+pool.Grain/(4*work), roiPlanes[I]{g, p, images})
	return nil
}

// RoiScratch returns what RoiAlign needs for images of so many columns.
func RoiScratch(g Roi) pool.Size {
	y, x := 2*g.Y.Bins*g.Ratio, 2*g.X.Bins*g.Ratio
	return pool.Size{Worker: pool.FloatBytes(y, x, g.X.Size) + pool.SizeOf[int](y+x)}
}

// roiPlanes computes planes: a channel of a box each.
type roiPlanes[I Index] struct {
	Roi
	p      *pool.Pool
	images []I
}

// roiTaps are the elements that samples along an axis read, two each, and their weights.
type roiTaps struct {
	at     []int
	weight []float32
}

func (g *roiPlanes[I]) Do(lo, hi, worker int) {
	sc := g.p.Scratch(worker)
	ys, xs := 2*g.Y.Bins*g.Ratio, 2*g.X.Bins*g.Ratio
	sc.At = pool.Sized(sc.At, ys+xs)
	y, x := roiTaps{sc.At[:ys], sc.Floats(ys)}, roiTaps{sc.At[ys:], sc.Floats(xs)}
	row, first := sc.Floats(g.X.Size), 0
	last := -1
	for i := lo; i < hi; i++ {
		box := i / g.Channels
		if box != last {
			b := g.Boxes[4*box:]
			g.taps(y, g.Y, b[1], b[3], g.X.Size)
			g.taps(x, g.X, b[0], b[2], 1)
			if !g.Max {
				first, row = g.columns(x.at, row[:cap(row)])
			}
			last = box
		}
		area := g.Y.Size * g.X.Size
		plane := g.Images[(int(g.images[box])*g.Channels+i%g.Channels)*area:][:area]
		bins := g.Y.Bins * g.X.Bins
		if dst := g.Dst[i*bins:][:bins]; g.Max {
			g.largest(dst, plane, y, x)
		} else {
			g.mean(dst, plane[first:], y, x, row)
		}
	}
}

// taps sets the elements and weights along an axis, for a box from lo to hi. Elements are stride apart.
func (g *Roi) taps(t roiTaps, x RoiAxis, lo, hi float32, stride int) {
	lo, hi = lo*g.Scale, hi*g.Scale
	if g.Half {
		lo, hi = lo-0.5, hi-0.5
	}
	length := hi - lo
	if !g.Half {
		length = max(length, 1)
	}
	bin, last := length/float32(x.Bins), float32(x.Size-1)
	for k := range len(t.at) / 2 {
		in := (float32(k%g.Ratio) + 0.5) / float32(g.Ratio)
		p := lo + (float32(float32(k/g.Ratio)*bin) + float32(in*bin))
		inside := p >= -1 && p <= float32(x.Size)
		if !(p > 0) { // also NaN
			p = 0
		}
		p = min(p, last)
		low := int(p)
		second := p - float32(low)
		first := 1 - second
		if !inside {
			first, second = 0, 0
		}
		t.at[2*k], t.at[2*k+1] = low*stride, min(low+1, x.Size-1)*stride
		t.weight[2*k], t.weight[2*k+1] = first, second
	}
}

// columns returns the first of the columns that are read, and a row for them: whole vectors, if the image is as wide.
// It makes the elements at relative to the first column.
func (g *roiPlanes[I]) columns(at []int, row []float32) (first int, of []float32) {
	lanes, end := g.p.Set.Lanes, 0
	first = g.X.Size
	for _, x := range at {
		first, end = min(first, x), max(end, x+1)
	}
	n := min(pool.CeilDiv(end-first, lanes)*lanes, g.X.Size)
	first = min(first, g.X.Size-n)
	for i := range at {
		at[i] -= first
	}
	return first, row[:n]
}

// mean sets the bins of a plane to the means of their samples. The plane begins with the first column that is read.
func (g *roiPlanes[I]) mean(dst, plane []float32, y, x roiTaps, row []float32) {
	n, by, stencil := 2*g.Ratio, 1/float32(g.Ratio*g.Ratio), vec.On(g.p.Set).Stencil
	most := (g.Y.Size - 1) * g.X.Size
	for b := range g.Y.Bins {
		stencil(row, plane, y.at[b*n:][:n], most, y.weight[b*n:][:n], 0)
		at, weights := x.at, x.weight
		for k := range g.X.Bins {
			var sum float32
			for j := 0; j+1 < n; j += 2 {
				sum += weights[j]*row[at[j]] + weights[j+1]*row[at[j+1]]
			}
			at, weights = at[n:], weights[n:]
			dst[b*g.X.Bins+k] = sum * by
		}
	}
}

// largest sets the bins of a plane to their largest weighted elements.
func (g *Roi) largest(dst, plane []float32, y, x roiTaps) {
	n := 2 * g.Ratio
	for b := range dst {
		most := float32(math.Inf(-1))
		rows, cols := b/g.X.Bins*n, b%g.X.Bins*n
		for i := range n {
			line := plane[y.at[rows+i]:][:g.X.Size]
			for j := range n {
				most = max(most, line[x.at[cols+j]]*(y.weight[rows+i]*x.weight[cols+j]))
			}
		}
		dst[b] = most
	}
}
