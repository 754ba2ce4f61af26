package segment

import (
	"cmp"
	"context"
	"image"
	"image/color"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// EverythingOptions holds the parameters for finding all objects of an image. A grid of points gives masks; those that
// are poor, unstable, or nearly equal to a better one are dropped (Kirillov et al., arXiv:2304.02643, section 4, which
// compares boxes instead of masks). A field that is 0 means the default, and a negative bound means 0.
type EverythingOptions struct {
	Side         int     // points of the grid in each direction, 1 to 128
	MinIoU       float64 // lowest predicted quality, up to 1
	MinStability float64 // lowest IoU, up to 1, between the masks at thresholds one above and one below the model's
	MaxOverlap   float64 // highest IoU, up to 1, of two masks that are kept, at the resolution of the model's masks
}

// Defaults of EverythingOptions, which the authors of the model use.
const (
	DefaultSide         = 32
	DefaultMinIoU       = 0.88
	DefaultMinStability = 0.95
	DefaultMaxOverlap   = 0.7
)

// explicit replaces fields that stand for other values.
func (o EverythingOptions) explicit() EverythingOptions {
	bound := func(v, otherwise float64) float64 {
		switch {
		case v == 0:
			return otherwise
		case v < 0:
			return 0
		}
		return v
	}
	return EverythingOptions{cmp.Or(o.Side, DefaultSide), bound(o.MinIoU, DefaultMinIoU),
		bound(o.MinStability, DefaultMinStability),
		bound(o.MaxOverlap, DefaultMaxOverlap)}
}

// Check checks the values. Everything does the same. The error matches ErrPrompt.
func (o EverythingOptions) Check() error {
	o = o.explicit()
	for _, b := range []struct {
		name string
		v    float64
	}{{"quality", o.MinIoU}, {"stability", o.MinStability}, {"overlap of masks", o.MaxOverlap}} {
		if !(b.v >= 0 && b.v <= 1) {
			return diag.New(code.MaskPrompt, "everything", "the bound of %s is %v; allowed are 0 to 1", b.name, b.v)
		}
	}
	if o.Side < 1 || o.Side > 128 {
		return diag.New(code.MaskPrompt, "everything", "the grid has %d points in each direction; allowed are 1 to 128",
			o.Side)
	}
	return nil
}

// points returns the centres of the cells of the grid in an image of w x h pixels, row by row.
func (o EverythingOptions) points(w, h int) (out []Point) {
	n := float64(o.Side)
	for i := range o.Side * o.Side {
		out = append(
			out, Point{(float64(i%o.Side) + 0.5) / n * float64(w), (float64(i/o.Side) + 0.5) / n * float64(h), true})
	}
	return out
}

// A Region is one of the masks of an image.
type Region struct {
	Label     int     `json:"label"`   // value in the label image, from 1
	Area      int     `json:"area"`    // pixels of the mask
	Visible   int     `json:"visible"` // those with Label in the label image; the others belong to smaller regions
	Box       [4]int  `json:"box"`     // x0, y0, x1, y1 of the mask in pixels; x1 and y1 are exclusive
	IoU       float32 `json:"iou"`     // quality predicted by the model
	Stability float32 `json:"stability"`
	Point     Point   `json:"-"` // point that gave the mask
	Token     int     `json:"-"` // index of the mask among those of the point
}

// A candidate is a mask that is good enough. It becomes a Region unless a better one has nearly the same pixels.
type candidate struct {
	Region // Area is that at the resolution of the model's masks, and Box an estimate
	shape  *shape
}

// Dropped counts masks that Everything dropped, and describes the best of those that were not good enough. If
// Everything finds too few objects, Dropped shows which bounds to lower.
type Dropped struct {
	Poor     int `json:"poor"`     // masks whose predicted quality is below MinIoU
	Unstable int `json:"unstable"` // empty masks, and others whose stability is below MinStability
	Same     int `json:"same"`     // masks whose IoU with a better one is above MaxOverlap
	Hidden   int `json:"hidden"`   // masks that smaller ones cover almost entirely
	// IoU and Stability are those of the mask that came closest to both bounds, or 0 without such a mask.
	IoU       float32 `json:"closest_iou"`
	Stability float32 `json:"closest_stability"`

	closest float64 // share of the bounds that this mask reaches, at most 1
}

// Add adds the counts of e, and keeps the closer of the two closest masks.
func (d *Dropped) Add(e Dropped) {
	d.Poor, d.Unstable, d.Same, d.Hidden = d.Poor+e.Poor, d.Unstable+e.Unstable, d.Same+e.Same, d.Hidden+e.Hidden
	if e.closest > d.closest || d.IoU == 0 && e.IoU > 0 { // an e from a file has no closest
		d.IoU, d.Stability, d.closest = e.IoU, e.Stability, e.closest
	}
}

// reached returns the share of a bound that v reaches, at most 1, or 0 for a NaN.
func reached(v, bound float64) float64 {
	switch {
	case v >= bound:
		return 1
	case v > 0:
		return v / bound
	}
	return 0
}

// candidates returns the masks of one point that are good enough, and counts the others in d. logits has shape
// [Tokens,h,w], iou [Tokens]. A candidate holds a copy of its mask; candidateBytes bounds their memory.
func (s *spec) candidates(logits []float32, h, w int, iou []float32, g geometry, o EverythingOptions, at Point,
	d *Dropped) (out []candidate) {
	cw, ch := s.covered(w, h, g)
	threshold := float32(s.Threshold)
	for t := s.BestFirst; t <= s.BestLast; t++ {
		quality := reached(float64(iou[t]), o.MinIoU)
		if quality < 1 {
			d.Poor++
			if quality <= d.closest { // its stability does not matter
				continue
			}
		}
		inner, outer, area := 0, 0, 0
		x0, y0, x1, y1 := cw, ch, 0, 0
		for y := range ch {
			for x, v := range logits[(t*h+y)*w:][:cw] {
				if v > threshold-1 {
					outer++
				}
				if v > threshold+1 {
					inner++
				}
				if v > threshold {
					area++
					x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x+1), max(y1, y+1)
				}
			}
		}
		stability := float64(inner) / float64(max(outer, 1))
		if quality < 1 || area == 0 || stability < o.MinStability {
			if quality == 1 {
				d.Unstable++
			}
			if area > 0 {
				d.Add(
					Dropped{IoU: iou[t], Stability: float32(stability),
						closest: min(quality, reached(stability, o.MinStability))})
			}
			continue
		}
		px := func(v, n, scaled, size int) int { // converts a position from logits to the image
			return min(size, int(math.Round(float64(v)*float64(s.Size)/float64(n)*float64(size)/float64(scaled))))
		}
		out = append(out, candidate{Region{
			Area: area, IoU: iou[t], Stability: float32(stability), Point: at, Token: t,
			Box: [4]int{px(x0, w, g.ScaledW, g.Width), px(y0, h, g.ScaledH, g.Height), px(x1, w, g.ScaledW, g.Width),
				px(y1, h, g.ScaledH, g.Height)},
		}, shapeOf(logits[t*h*w:][:h*w], w, [4]int{x0, y0, x1, y1}, threshold)})
	}
	return out
}

// covered returns the size of the part of the logits [h,w] that the image covers.
func (s *spec) covered(w, h int, g geometry) (cw, ch int) {
	return min(w, (g.ScaledW*w+s.Size-1)/s.Size), min(h, (g.ScaledH*h+s.Size-1)/s.Size)
}

// candidateBytes bounds the memory of all candidates of an image, if logits have h rows of w.
func (s *spec) candidateBytes(h, w int, g geometry, o EverythingOptions) int64 {
	const fixed = 256 // a candidate, its shape, and room for growth of the list
	cw, ch := s.covered(w, h, g)
	return int64(o.Side*o.Side) * int64(s.BestLast-s.BestFirst+1) * ((8*int64((cw+63)/64)+4)*int64(ch) + fixed)
}

// maxRegions bounds the number of regions, because a label has 16 bits.
const maxRegions = math.MaxUint16

// distinct drops each candidate whose mask nearly equals that of a better one, counts it in d, and returns the others
// as regions, the smallest first. Of candidates with equal quality, the one that comes first is better. Boxes do not
// matter: two objects may have the same box, and a single stray pixel changes the box of a mask. Beyond maxRegions, the
// worst are dropped. The time may grow with the square of the number of candidates, so the context is checked; its
// cause is the only error.
func (o EverythingOptions) distinct(ctx context.Context, all []candidate, d *Dropped) (out []Region, err error) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.IoU, a.IoU) })
	var kept []*shape
	for _, c := range all {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(out) == maxRegions {
			break
		}
		if slices.ContainsFunc(kept, func(k *shape) bool { return k.overlaps(c.shape, o.MaxOverlap) }) {
			d.Same++
			continue
		}
		kept, out = append(kept, c.shape), append(out, c.Region)
	}
	slices.SortStableFunc(out, func(a, b Region) int { return cmp.Compare(a.Area, b.Area) })
	return out, nil
}

// minVisible is the lowest share of a region's mask that must be left after smaller regions have taken their pixels. An
// object whose parts are regions, too, often has only a seam a few pixels wide left, which is not an object.
const minVisible = 0.05

// draw draws a region into the pixels of a label image that are still 0, and sets its area and box to those of the
// mask. The caller draws the smallest region first, so that larger ones do not hide it. If less than minVisible of the
// mask is free, or the mask is empty, draw draws nothing and Visible is 0. logits [Tokens,h,w] are those of the
// region's point. It returns the mask.
func (s *spec) draw(labels *image.Gray16, r *Region, logits []float32, h, w int, g geometry) *image.Gray {
	m := s.upscale(logits[r.Token*h*w:][:h*w], h, w, g)
	r.Area, r.Visible, r.Box = 0, 0, [4]int{g.Width, g.Height, 0, 0}
	free := func(x, y int) bool { i := labels.PixOffset(x, y); return labels.Pix[i]|labels.Pix[i+1] == 0 }
	for y := range g.Height {
		for x, v := range m.Pix[y*m.Stride:][:g.Width] {
			if v == 0 {
				continue
			}
			r.Area++
			if free(x, y) {
				r.Visible++
			}
			r.Box = [4]int{min(r.Box[0], x), min(r.Box[1], y), max(r.Box[2], x+1), max(r.Box[3], y+1)}
		}
	}
	if r.Area == 0 {
		r.Box = [4]int{}
	}
	if float64(r.Visible) < minVisible*float64(r.Area) {
		r.Visible = 0
	}
	if r.Visible == 0 {
		return m
	}
	for y := r.Box[1]; y < r.Box[3]; y++ {
		for x, v := range m.Pix[y*m.Stride:][:g.Width] {
			if v != 0 && free(x, y) {
				labels.SetGray16(x, y, color.Gray16{Y: uint16(r.Label)})
			}
		}
	}
	return m
}

// number drops the regions that draw did not draw, counts them in d, and numbers the others from 1, the largest first,
// also in the label image. all are the regions of distinct; the label of all[i] is i+1.
func number(labels *image.Gray16, all []Region, d *Dropped) (out []Region) {
	to := make([]uint16, len(all)+1)
	for i, r := range slices.Backward(all) {
		if r.Visible == 0 {
			d.Hidden++
			continue
		}
		r.Label = len(out) + 1
		to[i+1], out = uint16(r.Label), append(out, r)
	}
	for i := 0; i < len(labels.Pix); i += 2 {
		v := to[int(labels.Pix[i])<<8|int(labels.Pix[i+1])]
		labels.Pix[i], labels.Pix[i+1] = uint8(v>>8), uint8(v)
	}
	return out
}
