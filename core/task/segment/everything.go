package segment

import (
	"cmp"
	"image"
	"image/color"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
)

// Everything holds the parameters for finding all objects of an image. A grid of points gives masks; those that are poor, unstable,
// or nearly equal to a better one are dropped (Kirillov et al., arXiv:2304.02643, section 4).
type Everything struct {
	Side         int     // points of the grid in each direction, 1 to 128
	MinIoU       float64 // lowest predicted quality
	MinStability float64 // lowest IoU between the masks at thresholds one above and one below the task's
	MaxOverlap   float64 // highest IoU of the boxes of two masks that are kept
}

// EverythingDefault holds the values that the authors of the model use.
var EverythingDefault = Everything{32, 0.88, 0.95, 0.7}

// Validate checks the values. The error is a *diag.Error with CodePrompt.
func (o Everything) Validate() error {
	for name, v := range map[string]float64{"quality": o.MinIoU, "stability": o.MinStability, "overlap of boxes": o.MaxOverlap} {
		if !(v >= 0 && v <= 1) {
			return diag.New(CodePrompt, "everything", "the bound of %s is %v; allowed are 0 to 1", name, v)
		}
	}
	if o.Side < 1 || o.Side > 128 {
		return diag.New(CodePrompt, "everything", "the grid has %d points in each direction; allowed are 1 to 128", o.Side)
	}
	return nil
}

// Points returns the centres of the cells of the grid in an image of w x h pixels, row by row.
func (o Everything) Points(w, h int) (out []Point) {
	n := float64(o.Side)
	for i := range o.Side * o.Side {
		out = append(out, Point{(float64(i%o.Side) + 0.5) / n * float64(w), (float64(i/o.Side) + 0.5) / n * float64(h), true})
	}
	return out
}

// A Region is one of the masks of an image.
type Region struct {
	Label     int     `json:"label"` // value in the label image, from 1
	Area      int     `json:"area"`  // pixels of the mask; smaller masks may cover some of them in the label image
	Box       [4]int  `json:"box"`   // x0, y0, x1, y1 in pixels; x1 and y1 are exclusive
	IoU       float32 `json:"iou"`   // quality predicted by the model
	Stability float32 `json:"stability"`
	Point     Point   `json:"-"` // point that gave the mask
	Token     int     `json:"-"` // index of the mask among those of the point
}

// Dropped counts masks that Everything dropped because of its bounds. A user who finds too few objects sees here which bounds to lower.
type Dropped struct {
	Poor     int `json:"poor"`     // masks whose predicted quality is below MinIoU
	Unstable int `json:"unstable"` // empty masks, and others whose stability is below MinStability
	// IoU and Stability are those of the mask that came closest to both bounds, or 0 if there is none.
	IoU       float32 `json:"closest_iou"`
	Stability float32 `json:"closest_stability"`

	closest float64 // share of the bounds that this mask reaches, at most 1
}

// Add adds the masks of e.
func (d *Dropped) Add(e Dropped) {
	d.Poor, d.Unstable = d.Poor+e.Poor, d.Unstable+e.Unstable
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

// Candidates returns the masks of one point that are good enough, and counts the others in d. logits has shape [Tokens,h,w], iou [Tokens]. Areas and boxes are
// estimates at the resolution of the logits; boxes are scaled to the image.
func (s *Task) Candidates(logits []float32, h, w int, iou []float32, g Geometry, o Everything, at Point, d *Dropped) (out []Region) {
	cover := func(scaled, n int) int { return min(n, (scaled*n+s.Size-1)/s.Size) } // logits that the image covers
	cw, ch := cover(g.ScaledW, w), cover(g.ScaledH, h)
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
				d.Add(Dropped{IoU: iou[t], Stability: float32(stability), closest: min(quality, reached(stability, o.MinStability))})
			}
			continue
		}
		px := func(v, n, scaled, size int) int { // converts a position from logits to the image
			return min(size, int(math.Round(float64(v)*float64(s.Size)/float64(n)*float64(size)/float64(scaled))))
		}
		out = append(out, Region{
			Area: area, IoU: iou[t], Stability: float32(stability), Point: at, Token: t,
			Box: [4]int{px(x0, w, g.ScaledW, g.Width), px(y0, h, g.ScaledH, g.Height), px(x1, w, g.ScaledW, g.Width), px(y1, h, g.ScaledH, g.Height)},
		})
	}
	return out
}

// Distinct drops each region whose box nearly equals that of a better region, and numbers the others from 1, the largest first.
func (o Everything) Distinct(all []Region) (out []Region) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Region) int { return cmp.Compare(b.IoU, a.IoU) })
	for _, r := range all {
		if !slices.ContainsFunc(out, func(k Region) bool { return overlap(k.Box, r.Box) > o.MaxOverlap }) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Region) int { return cmp.Compare(b.Area, a.Area) })
	for i := range out {
		out[i].Label = i + 1
	}
	return out
}

// overlap returns the IoU of two boxes: the area of their intersection divided by that of their union.
func overlap(a, b [4]int) float64 {
	side := func(a0, a1, b0, b1 int) float64 { return float64(max(0, min(a1, b1)-max(a0, b0))) }
	area := func(b [4]int) float64 { return float64(b[2]-b[0]) * float64(b[3]-b[1]) }
	both := side(a[0], a[2], b[0], b[2]) * side(a[1], a[3], b[1], b[3])
	return both / max(area(a)+area(b)-both, 1)
}

// Draw draws a region into a label image, and sets its area and box to those of the mask. logits [Tokens,h,w] are those of its
// point.
func (s *Task) Draw(labels *image.Gray16, r *Region, logits []float32, h, w int, g Geometry) {
	m := s.upscale(logits[r.Token*h*w:][:h*w], h, w, g)
	r.Area, r.Box = 0, [4]int{g.Width, g.Height, 0, 0}
	for y := range g.Height {
		for x, v := range m.Pix[y*m.Stride:][:g.Width] {
			if v == 0 {
				continue
			}
			labels.SetGray16(x, y, color.Gray16{Y: uint16(r.Label)})
			r.Area++
			r.Box = [4]int{min(r.Box[0], x), min(r.Box[1], y), max(r.Box[2], x+1), max(r.Box[3], y+1)}
		}
	}
	if r.Area == 0 {
		r.Box = [4]int{}
	}
}
