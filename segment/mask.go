package segment

import (
	"fmt"
	"image"
	"strconv"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/task"
)

// A Mask is a mask of the size of the image.
type Mask struct {
	Token  int         // number of the mask among those that the model makes for a prompt
	IoU    float32     // quality that the model predicts, about 0 to 1
	Image  *image.Gray // 255 inside, 0 outside
	Logits []float32   // as the model makes them, at their resolution; an input for Prompts.Mask, if it takes masks
}

// A Choice selects among the masks that a model makes for one prompt: Best, All, or the number of a mask, such as "0".
// The zero value means Best.
type Choice string

const (
	Best Choice = "best" // the mask with the highest predicted quality
	All  Choice = "all"
)

// postprocess turns the logits [Tokens,h,w] and the predicted qualities iou [Tokens] into masks. The logits are resized
// to the square bilinearly (half-pixel centres, no antialiasing), cropped to the image inside it, resized in the same
// way to the image, and compared with Threshold. With ResizeStretch they are resized to the image at once.
// Errors are *diag.Error with code.MaskChoice or code.NoBestMask.
func (s *spec) postprocess(logits []float32, h, w int, iou []float32, g geometry, c Choice) ([]Mask, error) {
	if len(logits) != s.Tokens*h*w || len(iou) != s.Tokens || h < 1 || w < 1 {
		panic(
			fmt.Sprintf("BUG: %d logits of %d x %d and %d qualities for %d masks", len(logits), h, w, len(iou),
				s.Tokens))
	}
	tokens, err := s.choose(c, iou)
	if err != nil {
		return nil, err
	}
	var out []Mask
	for _, t := range tokens {
		own := logits[t*h*w:][:h*w]
		out = append(out, Mask{t, iou[t], s.upscale(own, h, w, g), own})
	}
	return out, nil
}

// maskBytes returns the peak number of bytes that postprocess needs in addition to the logits: every mask that it
// returns and, for one of them, the logits at the size of the square and at the width of the image. Logits have at most
// the given number of rows.
func (s *spec) maskBytes(rows int64, g geometry, c Choice) int64 {
	n := int64(1)
	if c == All {
		n = int64(s.Tokens)
	}
	if s.Resize == task.ResizeStretch {
		return n*int64(g.Width)*int64(g.Height) + 4*rows*int64(g.Width)
	}
	return n*int64(g.Width)*int64(g.Height) + 4*int64(g.ScaledH)*(int64(g.ScaledW)+int64(g.Width))
}

// checkChoice checks that postprocess accepts c.
func (s *spec) checkChoice(c Choice) error {
	if c == "" || c == Best || c == All {
		return nil
	}
	if t, err := strconv.Atoi(string(c)); err == nil && t >= 0 && t < s.Tokens && strconv.Itoa(t) == string(c) {
		return nil
	}
	return diag.New(code.MaskChoice, "mask "+strconv.Quote(string(c)),
		"is not one of the model's; allowed are %s, %s and 0 to %d", Best, All, s.Tokens-1)
}

func (s *spec) choose(c Choice, iou []float32) ([]int, error) {
	if err := s.checkChoice(c); err != nil {
		return nil, err
	}
	switch c {
	case All:
		all := make([]int, s.Tokens)
		for i := range all {
			all[i] = i
		}
		return all, nil
	case Best, "":
		best := -1
		for t := s.BestFirst; t <= s.BestLast; t++ {
			if iou[t] == iou[t] && (best < 0 || iou[t] > iou[best]) { // not NaN
				best = t
			}
		}
		if best < 0 {
			return nil, diag.New(code.NoBestMask, "masks", "every predicted IoU of masks %d to %d is NaN", s.BestFirst,
				s.BestLast)
		}
		return []int{best}, nil
	}
	t, _ := strconv.Atoi(string(c))
	return []int{t}, nil
}

// upscale returns the mask of one token. It computes only the part of the square that the image covers.
func (s *spec) upscale(logits []float32, h, w int, g geometry) *image.Gray {
	square := logits
	if s.Resize == task.ResizeStretch { // the published code resizes logits to the image at once
		g.ScaledW, g.ScaledH = w, h
	} else {
		crop := func(y int, dst []float32) { copy(dst, logits[y*w:][:w]) }
		square = imaging.Resize(w, h, 1, imaging.Bilinear(w, s.Size, false)[:g.ScaledW],
			imaging.Bilinear(h, s.Size, false)[:g.ScaledH], imaging.Floats, crop)
	}
	return drawn(square, g, float32(s.Threshold))
}

// drawn returns a mask of the size of the image from values [ScaledH,ScaledW], which are resized bilinearly. A pixel is
// inside if its value is larger than threshold.
func drawn(square []float32, g geometry, threshold float32) *image.Gray {
	out := image.NewGray(image.Rect(0, 0, g.Width, g.Height))
	xs, ys := imaging.Bilinear(g.ScaledW, g.Width, false), imaging.Bilinear(g.ScaledH, g.Height, false)
	wide, line := make([]float32, 0, g.ScaledH*g.Width), make([]float32, g.Width)
	for y := range g.ScaledH {
		wide = wide[:(y+1)*g.Width]
		imaging.ResizeRow(wide[y*g.Width:], square[y*g.ScaledW:][:g.ScaledW], xs, 1)
	}
	for y, t := range ys {
		row := out.Pix[y*out.Stride:][:g.Width]
		if len(t.Weight) == 2 { // almost every row; this loop takes half the time of the general one
			a, b := wide[t.First*g.Width:][:len(row)], wide[(t.First+1)*g.Width:][:len(row)]
			wa, wb := t.Weight[0], t.Weight[1]
			for x := range row {
				if wa*a[x]+wb*b[x] > threshold {
					row[x] = 255
				}
			}
			continue
		}
		clear(line)
		for i, weight := range t.Weight {
			for x, v := range wide[(t.First+i)*g.Width:][:g.Width] {
				line[x] += weight * v
			}
		}
		for x, v := range line {
			if v > threshold {
				row[x] = 255
			}
		}
	}
	return out
}
