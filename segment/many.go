package segment

import (
	"context"
	"fmt"
	"image"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
)

// A Segmentation holds all objects of an image.
type Segmentation struct {
	Labels  *image.Gray16 // as large as the image: 0, or the highest Region.Label of the regions at a pixel
	Regions []Region      // the largest first, by area at the resolution of the model's masks
	Dropped Dropped       // masks that are not among Regions
}

// MasksOf finds the objects of several prompts. If the model has a method for several prompts, those with the same
// number of points and without a mask share runs. each is called with the masks of prompt i, in any order of prompts;
// its error stops the work. Other errors are those of Masks, with the number of the prompt if it is wrong.
func (m *Image) MasksOf(ctx context.Context, prompts []Prompts, c Choice, each func(i int, masks []Mask) error) error {
	if err := m.s.spec.checkChoice(c); err != nil {
		return err
	}
	return m.decode(ctx, prompts, func(prompt int, r *rlx.Result, i int) error {
		masks, err := m.s.masks(r, i, m.size, c)
		if err != nil {
			return fmt.Errorf("prompt %d: %w", prompt, err)
		}
		return each(prompt, masks)
	})
}

// decode makes the runs for prompts. each is called with the number of a prompt, its run, and its index in the run.
func (m *Image) decode(ctx context.Context, prompts []Prompts,
	each func(prompt int, r *rlx.Result, i int) error) error {
	t := m.s.spec
	type group struct {
		of     []int // prompts
		points []float32
		labels []int32
	}
	var single []int
	groups, order := map[int]*group{}, []int(nil) // by number of points
	for i, p := range prompts {
		points, labels, err := t.prompt(p, t.geometry(m.size.X, m.size.Y))
		if err != nil {
			return fmt.Errorf("prompt %d: %w", i, err)
		}
		n := len(labels)
		switch {
		case p.Mask != nil || t.BatchMethod == "":
			single = append(single, i)
			continue
		case groups[n] == nil:
			groups[n], order = &group{}, append(order, n)
		}
		x := groups[n]
		x.of, x.points, x.labels = append(x.of, i), append(x.points, points...), append(x.labels, labels...)
	}
	for _, i := range single {
		req, err := m.s.request(prompts[i], m.size)
		if err != nil {
			return fmt.Errorf("prompt %d: %w", i, err)
		}
		m.addTo(req)
		r, err := m.s.run.Run(ctx, req)
		if err == nil {
			err = each(i, r, 0)
		}
		if err != nil {
			return err
		}
	}
	for _, n := range order {
		x := groups[n]
		for at := 0; at < len(x.of); at += t.MaxPrompts {
			of := x.of[at:min(at+t.MaxPrompts, len(x.of))]
			req := rlx.Request{Method: t.BatchMethod, Inputs: map[string]rlx.Tensor{
				t.PointsInput: {DType: rlx.F32, Shape: []int{len(of), n, 2},
					Data: tensor.Bytes(x.points[2*n*at:][:2*n*len(of)])},
				t.LabelsInput: {DType: rlx.I32, Shape: []int{len(of), n},
					Data: tensor.Bytes(x.labels[n*at:][:n*len(of)])},
			}}
			m.addTo(req)
			r, err := m.s.run.Run(ctx, req)
			for i := 0; err == nil && i < len(of); i++ {
				err = each(of[i], r, i)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Everything finds all objects of the image. Masks are compared at the resolution at which the model makes them, and
// kept as bits: 8 KB each for masks of 256 x 256. No mask of the image's size is kept; the points that found a region
// are decoded again to draw it. The error matches ErrPrompt if o has values that are not allowed, or is one of
// rlx.Session.Run.
func (m *Image) Everything(ctx context.Context, o EverythingOptions) (*Segmentation, error) {
	return m.EverythingMasks(ctx, o, nil, nil)
}

// EverythingMasks is Everything, and also passes whole masks: Segmentation.Labels has only the pixels of a region that
// no other region hides. each is called with the mask of each region, 255 inside and 0 outside, from the last of
// Segmentation.Regions to the first. The mask is valid during the call. progress is called with the share of the work
// that is done. Either may be nil. Errors are those of Everything and of each.
func (m *Image) EverythingMasks(ctx context.Context, o EverythingOptions, each func(mask *image.Gray) error,
	progress func(done float64)) (*Segmentation, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o = o.explicit()
	at := func(points []Point) (out []Prompts) {
		for _, p := range points {
			out = append(out, Prompts{Points: []Point{p}})
		}
		return out
	}
	t, size := m.s.spec, m.size
	g, points := t.geometry(size.X, size.Y), o.points(size.X, size.Y)
	found := make([][]candidate, len(points))
	var dropped Dropped
	const search = 0.8 // share of the work, about
	report := func(done float64) {
		if progress != nil {
			progress(done)
		}
	}
	err := m.decode(ctx, at(points), func(prompt int, r *rlx.Result, i int) error {
		report(search * float64(prompt) / float64(len(points)))
		logits, h, w, quality, err := m.s.logits(r, i)
		if err == nil {
			found[prompt] = t.candidates(logits, h, w, quality, g, o, points[prompt], &dropped)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	regions, err := o.distinct(ctx, slices.Concat(found...), &dropped)
	if err != nil {
		return nil, err
	}
	var again []Point
	for i := range regions {
		regions[i].Label = i + 1
		again = append(again, regions[i].Point)
	}
	labels := image.NewGray16(image.Rect(0, 0, size.X, size.Y))
	// All prompts have the same number of points, so each is called in their order, the smallest region first.
	err = m.decode(ctx, at(again), func(prompt int, r *rlx.Result, i int) error {
		report(search + (1-search)*float64(prompt)/float64(len(again)))
		logits, h, w, _, err := m.s.logits(r, i)
		if err != nil {
			return err
		}
		mask := t.draw(labels, &regions[prompt], logits, h, w, g)
		if each == nil || regions[prompt].Visible == 0 {
			return nil
		}
		return each(mask)
	})
	if err != nil {
		return nil, err
	}
	regions = number(labels, regions, &dropped)
	return &Segmentation{labels, regions, dropped}, nil
}

// EverythingMemory bounds the memory in bytes that Everything takes for an image of the given size, in addition to
// tensors.
func (s *Segmenter) EverythingMemory(size image.Point, o EverythingOptions) int64 {
	t, n := s.spec, 2*int64(size.X)*int64(size.Y)+s.Memory(size, Best)
	h, w := s.maskSize()
	return n + t.candidateBytes(int(h), int(w), t.geometry(size.X, size.Y), o.explicit())
}
