package rlx

import (
	"context"
	"fmt"
	"image"
	"slices"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task/segment"
)

// Everything holds the parameters for finding all objects of an image.
type Everything = segment.Everything

// EverythingDefault holds the values of the model's authors: 32 x 32 points, quality 0.88, stability 0.95, overlap 0.7.
var EverythingDefault = segment.EverythingDefault

// A Region is one of the masks of all objects of an image.
type Region = segment.Region

// Dropped counts the masks that are not regions, with the best of those that were not good enough.
type Dropped = segment.Dropped

// A Segmentation holds all objects of an image.
type Segmentation struct {
	Labels  *image.Gray16 // as large as the image: 0, or the highest Region.Label of the regions at a pixel
	Regions []Region      // the largest first, by area at the resolution of the model's masks
	Dropped Dropped       // masks that are not among Regions
}

// A Runner executes a run, as Session.Run does.
type Runner func(context.Context, Request) (*Result, error)

// MasksOf finds the objects of several prompts in one image. embedding is the output of the run made by Encode. If the model has a
// method for several prompts, those with the same number of points and without a mask share runs. each is called with the masks of
// prompt i, in any order of prompts; its error stops the work. Other errors are those of run, and those of Prompt with the number
// of the prompt.
func (g *Segmenter) MasksOf(ctx context.Context, run Runner, embedding Tensor, prompts []Prompts, size image.Point, which string, each func(i int, masks []Mask) error) error {
	return g.decode(ctx, run, embedding, prompts, size, func(prompt int, r *Result, i int) error {
		masks, err := g.masks(r, i, size, which)
		if err != nil {
			return fmt.Errorf("prompt %d: %w", prompt, err)
		}
		return each(prompt, masks)
	})
}

// decode makes the runs for prompts. each is called with the number of a prompt, its run, and its index in the run.
func (g *Segmenter) decode(ctx context.Context, run Runner, embedding Tensor, prompts []Prompts, size image.Point, each func(prompt int, r *Result, i int) error) error {
	t := &g.Task
	type group struct {
		of     []int // prompts
		points []float32
		labels []int32
	}
	var single []int
	groups, order := map[int]*group{}, []int(nil) // by number of points
	for i, p := range prompts {
		points, labels, err := t.Prompt(p, t.Geometry(size.X, size.Y))
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
		req, err := g.Prompt(prompts[i], size)
		if err != nil {
			return fmt.Errorf("prompt %d: %w", i, err)
		}
		req.Inputs[t.EmbeddingInput] = embedding
		r, err := run(ctx, req)
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
			r, err := run(ctx, Request{Method: t.BatchMethod, Inputs: map[string]Tensor{
				t.EmbeddingInput: embedding,
				t.PointsInput:    {F32, []int{len(of), n, 2}, tensor.Bytes(x.points[2*n*at:][:2*n*len(of)])},
				t.LabelsInput:    {I32, []int{len(of), n}, tensor.Bytes(x.labels[n*at:][:n*len(of)])},
			}})
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

// Everything finds all objects of an image. embedding is the output of the run made by Encode. Masks are compared at the resolution at
// which the model makes them, and kept as bits: 8 KB each for masks of 256 x 256. No mask of the image's size is kept; the points that
// found a region are decoded again to draw it. Errors are those of run, or match ErrUsage if o has values that are not allowed.
func (g *Segmenter) Everything(ctx context.Context, run Runner, embedding Tensor, size image.Point, o Everything) (*Segmentation, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	at := func(points []Point) (out []Prompts) {
		for _, p := range points {
			out = append(out, Prompts{Points: []Point{p}})
		}
		return out
	}
	geometry, points := g.Task.Geometry(size.X, size.Y), o.Points(size.X, size.Y)
	found := make([][]segment.Candidate, len(points))
	var dropped Dropped
	err := g.decode(ctx, run, embedding, at(points), size, func(prompt int, r *Result, i int) error {
		logits, h, w, quality, err := g.logits(r, i)
		if err == nil {
			found[prompt] = g.Task.Candidates(logits, h, w, quality, geometry, o, points[prompt], &dropped)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	regions, err := o.Distinct(ctx, slices.Concat(found...), &dropped)
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
	err = g.decode(ctx, run, embedding, at(again), size, func(prompt int, r *Result, i int) error {
		logits, h, w, _, err := g.logits(r, i)
		if err == nil {
			g.Task.Draw(labels, &regions[prompt], logits, h, w, geometry)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	regions = segment.Number(labels, regions, &dropped)
	return &Segmentation{labels, regions, dropped}, nil
}

// Everything finds all objects of the image. Errors are those of Run, or match ErrUsage if o has values that are not allowed.
func (e *EncodedImage) Everything(ctx context.Context, o Everything) (*Segmentation, error) {
	return e.segmenter.Everything(ctx, e.session.Run, e.Embedding, e.size, o)
}
