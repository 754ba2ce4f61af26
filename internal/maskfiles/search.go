package maskfiles

import (
	"context"
	"fmt"
	"image"
	"io"

	"github.com/rlx-go/rlx/segment"
)

// A Search is a concept whose objects are looked for in images.
type Search struct {
	Concept     segment.Concept
	Threshold   float64
	ObjectMasks bool // whether each object has a picture of its own
}

// Key identifies what the objects of an image depend on: the model and the precision, the image's bytes and the search.
func (q Search) Key(ctx context.Context, identity, precision string, img io.Reader) (string, error) {
	return keyOf(ctx, img, identity, precision, version, "concept", q)
}

// Find finds the objects of the concept in an image, and adds them to the record.
func (q Search) Find(ctx context.Context, scene *segment.Scene, img image.Image, rec *Record, h Hooks) (
	*segment.Found, error) {
	found, err := scene.Find(ctx, q.Concept, q.Threshold)
	if err != nil {
		return nil, err
	}
	rec.Text, rec.Found, rec.Closest = q.Concept.Text, []Object{}, found.Closest
	if rec.Labels, err = h.Picture("labels.png", found.Picture()); err != nil {
		return nil, err
	}
	if rec.Overlay, err = h.Picture("overlay.png", found.Overlay(img)); err != nil {
		return nil, err
	}
	held := int64(0)
	for _, o := range found.Objects {
		held += int64(len(o.Mask.Counts))
		if h.Fits != nil {
			if err := h.Fits(held); err != nil {
				return nil, err
			}
		}
		out := Object{Object: o}
		if q.ObjectMasks {
			mask, err := o.Mask.Mask()
			if err != nil {
				return nil, err
			}
			if out.File, err = h.Picture(fmt.Sprintf("%d.png", o.Label), mask); err != nil {
				return nil, err
			}
		}
		rec.Found = append(rec.Found, out)
	}
	return found, nil
}
