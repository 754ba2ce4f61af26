package segment

import (
	"fmt"
	"image"
	"math"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
)

// A Point is a prompt point in pixels of the image.
type Point struct {
	X, Y       float64
	Foreground bool
}

// A Box is a prompt box in pixels of the image. X0 < X1 and Y0 < Y1.
type Box struct{ X0, Y0, X1, Y1 float64 }

// check returns an error if the box is empty, or outside an image of w x h pixels.
func (b Box) check(w, h int) error {
	name := fmt.Sprintf("box %g,%g,%g,%g", b.X0, b.Y0, b.X1, b.Y1)
	if !(b.X0 < b.X1 && b.Y0 < b.Y1) {
		return diag.New(code.MaskPrompt, name, "is empty; allowed is X0,Y0,X1,Y1 with X0 < X1 and Y0 < Y1")
	}
	if !(b.X0 >= 0 && b.X1 <= float64(w) && b.Y0 >= 0 && b.Y1 <= float64(h)) {
		return diag.New(code.MaskPrompt, name,
			"is outside the image, which has %d x %d pixels; allowed are x from 0 to %d and y from 0 to %d", w, h, w, h)
	}
	return nil
}

// Prompts select an object by points on it and beside it, a box around it, or both.
type Prompts struct {
	Points []Point
	Box    *Box // may be nil
	// Mask is a first guess that the model improves, as logits [side,side] with side Facts.MaskSide. Use Mask.Logits of
	// an earlier mask, or the result of Segmenter.MaskPrompt. nil means no guess.
	Mask []float32
}

// prompt returns the points [1,N,2] (f32, x and y in pixels of the square) and the labels [1,N] (i32) of p. The corners
// of the box follow the points; without a box, or with PadBoxes, a padding point goes last. Errors are *diag.Error with
// code.MaskPrompt: there is no point and no box, one is outside the image, the box is empty, or there are more than
// MaxPoints. It ignores the mask; see maskPrompt.
func (s *spec) prompt(p Prompts, g geometry) (points []float32, labels []int32, err error) {
	if len(p.Points) == 0 && p.Box == nil {
		return nil, nil, diag.New(code.MaskPrompt, "", "no prompt").WithHint("give at least one point or a box")
	}
	extra, what := 1, "one padding point"
	switch {
	case p.Box != nil && s.PadBoxes:
		extra, what = 3, "two corners of the box and a padding point"
	case p.Box != nil:
		extra, what = 2, "two corners of the box"
	}
	if n := len(p.Points) + extra; n > s.MaxPoints {
		return nil, nil, diag.New(code.MaskPrompt, "", "%d points and %s; the artifact allows %d together",
			len(p.Points), what, s.MaxPoints)
	}
	add := func(x, y float64, label int32) {
		points = append(points, float32(x*float64(g.ScaledW)/float64(g.Width)),
			float32(y*float64(g.ScaledH)/float64(g.Height)))
		labels = append(labels, label)
	}
	for _, pt := range p.Points {
		name := fmt.Sprintf("point %g,%g", pt.X, pt.Y)
		if !(pt.X >= 0 && pt.X < float64(g.Width) && pt.Y >= 0 && pt.Y < float64(g.Height)) { // also rejects NaN
			return nil, nil,
				diag.New(code.MaskPrompt, name, "is outside the image, which has %d x %d pixels; the last is %d,%d",
					g.Width, g.Height, g.Width-1, g.Height-1)
		}
		label := s.Labels.Background
		if pt.Foreground {
			label = s.Labels.Foreground
		}
		add(pt.X, pt.Y, label)
	}
	if b := p.Box; b != nil {
		if err := b.check(g.Width, g.Height); err != nil {
			return nil, nil, err
		}
		add(b.X0, b.Y0, s.Labels.BoxStart)
		add(b.X1, b.Y1, s.Labels.BoxEnd)
	}
	if p.Box == nil || s.PadBoxes {
		points, labels = append(points, 0, 0), append(labels, s.Labels.Pad)
	}
	return points, labels, nil
}

// maskPrompt returns the mask [1,1,side,side] of p, which must have one. Errors are *diag.Error with code.MaskPrompt:
// the model takes no masks, or masks of another size, or a logit is not finite.
func (s *spec) maskPrompt(p Prompts) ([]float32, error) {
	if err := s.takesMasks(); err != nil {
		return nil, err
	}
	if len(p.Mask) != s.MaskSide*s.MaskSide {
		return nil, diag.New(code.MaskPrompt, "mask", "has %d logits; the model takes %d x %d", len(p.Mask), s.MaskSide,
			s.MaskSide)
	}
	for i, v := range p.Mask {
		if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, diag.New(code.MaskPrompt, "mask", "logit %d is %v; want finite numbers", i, v)
		}
	}
	return p.Mask, nil
}

// takesMasks returns an error if the model takes no masks.
func (s *spec) takesMasks() error {
	if s.MaskInput == "" {
		return diag.New(
			code.MaskPrompt, "mask", "the model takes points and boxes only: its checkpoint has no weights for masks")
	}
	return nil
}

// certain is the logit of a white pixel of a mask; a black one has -certain. Its sigmoid is 0.9999, and logits of
// models have about this magnitude.
const certain = 10

// maskLogits turns a picture of a mask into a mask prompt. White is inside and black outside, as in the masks of
// postprocess. It is scaled as the image is. The error is a *diag.Error with code.MaskPrompt if the sizes of mask and
// image differ.
func (s *spec) maskLogits(mask image.Image, g geometry) ([]float32, error) {
	if b := mask.Bounds(); b.Dx() != g.Width || b.Dy() != g.Height {
		return nil, diag.New(code.MaskPrompt, "mask", "has %d x %d pixels, and the image %d x %d; they must be equal",
			b.Dx(), b.Dy(), g.Width, g.Height)
	}
	w, h := max(1, g.ScaledW*s.MaskSide/s.Size), max(1, g.ScaledH*s.MaskSide/s.Size)
	rgb := imaging.Resize(g.Width, g.Height, 3, imaging.Bilinear(g.Width, w, true), imaging.Bilinear(g.Height, h, true),
		imaging.Floats, imaging.RGBRow(mask))
	out := make([]float32, s.MaskSide*s.MaskSide)
	for i := range out {
		out[i] = -certain
		if y, x := i/s.MaskSide, i%s.MaskSide; y < h && x < w {
			p := rgb[3*(y*w+x):]
			out[i] = certain * (2*(p[0]+p[1]+p[2])/(3*255) - 1)
		}
	}
	return out, nil
}
