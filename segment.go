package rlx

import (
	"context"
	"image"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task/segment"
)

// Prompts select an object in an image by points on it and beside it, a box around it, or both, and optionally a rough mask.
// Coordinates are pixels of the image.
type Prompts = segment.Prompts

// A Point is a prompt point.
type Point = segment.Point

// A Box is a prompt box. X0 < X1 and Y0 < Y1.
type Box = segment.Box

// A Mask is a mask of the size of the image, 255 inside and 0 outside, with the quality that the model predicts for it.
type Mask = segment.Mask

// Values for the masks to return. The number of a mask, such as "0", is also allowed.
const (
	MaskBest = segment.MaskBest // the mask with the highest predicted quality
	MaskAll  = segment.MaskAll  // all masks of the model
)

// A Segmenter converts images and prompts to tensors for a model that declares the task "segment", and its output tensors to masks.
// One method of such a model encodes an image, another finds objects in the encoded image. A Segmenter runs nothing; see
// Session.EncodeImage.
type Segmenter struct {
	Task segment.Task // as the artifact declares it
}

// Segmenter returns the Segmenter of a model that declares the task "segment". ok is false for other models.
func (m *Model) Segmenter() (g *Segmenter, ok bool) {
	s, ok := m.v.Meta().Task.(*segment.Task)
	if !ok {
		return nil, false
	}
	return &Segmenter{*s}, true
}

// Encode returns the request that encodes an image: scaled, normalised and padded as in training.
func (g *Segmenter) Encode(img image.Image) Request {
	pixels, _ := g.Task.Preprocess(img)
	t := Tensor{F32, []int{1, 3, g.Task.Size, g.Task.Size}, tensor.Bytes(pixels)}
	return Request{Method: g.Task.ImageMethod, Inputs: map[string]Tensor{g.Task.ImageInput: t}}
}

// Prompt returns the request that finds the object of prompts in an image of the given size. The caller must add the input
// Task.EmbeddingInput, which is the output Task.Embedding of the run that encoded the image. The error is about invalid prompts.
func (g *Segmenter) Prompt(p Prompts, size image.Point) (Request, error) {
	points, labels, err := g.Task.Prompt(p, g.Task.Geometry(size.X, size.Y))
	if err != nil {
		return Request{}, err
	}
	r := Request{Method: g.Task.PromptMethod, Inputs: map[string]Tensor{
		g.Task.PointsInput: {F32, []int{1, len(labels), 2}, tensor.Bytes(points)},
		g.Task.LabelsInput: {I32, []int{1, len(labels)}, tensor.Bytes(labels)},
	}}
	if p.Mask != nil {
		mask, err := g.Task.MaskPrompt(p)
		if err != nil {
			return Request{}, err
		}
		r.Inputs[g.Task.MaskInput] = Tensor{F32, []int{1, 1, g.Task.MaskSide, g.Task.MaskSide}, tensor.Bytes(mask)}
	}
	return r, nil
}

// Masks returns the masks of a run made by Prompt. which is MaskBest, MaskAll, or the number of a mask.
func (g *Segmenter) Masks(r *Result, size image.Point, which string) ([]Mask, error) {
	return g.masks(r, 0, size, which)
}

// masks returns the masks of prompt i of a run.
func (g *Segmenter) masks(r *Result, i int, size image.Point, which string) ([]Mask, error) {
	logits, h, w, quality, err := g.logits(r, i)
	if err != nil {
		return nil, err
	}
	return g.Task.Postprocess(logits, h, w, quality, g.Task.Geometry(size.X, size.Y), which)
}

// logits returns the logits [Tokens,h,w] and the qualities of prompt i of a run.
func (g *Segmenter) logits(r *Result, i int) (logits []float32, h, w int, quality []float32, err error) {
	all, err := Values[float32](r.Outputs[g.Task.MasksOutput])
	if err != nil {
		return nil, 0, 0, nil, err
	}
	quality, err = Values[float32](r.Outputs[g.Task.IoUOutput])
	if err != nil {
		return nil, 0, 0, nil, err
	}
	shape, n := r.Outputs[g.Task.MasksOutput].Shape, g.Task.Tokens
	h, w = shape[2], shape[3]
	return all[i*n*h*w:][:n*h*w], h, w, quality[i*n:][:n], nil
}

// An EncodedImage is an image that a session has encoded. Finding masks in it is fast. Its methods may be called repeatedly and
// concurrently.
type EncodedImage struct {
	Embedding Tensor

	session   *Session
	segmenter *Segmenter
	size      image.Point
}

// EncodeImage encodes an image. The error matches ErrUsage if the model does not declare the task "segment", or is one of Run.
func (s *Session) EncodeImage(ctx context.Context, img image.Image) (*EncodedImage, error) {
	g, ok := s.model.Segmenter()
	if !ok {
		return nil, usage(s.model.path, "declares no task %q", segment.Kind)
	}
	r, err := s.Run(ctx, g.Encode(img))
	if err != nil {
		return nil, err
	}
	return &EncodedImage{r.Outputs[g.Task.Embedding], s, g, img.Bounds().Size()}, nil
}

// Masks finds the object of prompts. which is MaskBest, MaskAll, or the number of a mask. The error matches ErrUsage if there is no
// such mask or a prompt is outside the image, or is one of Run.
func (e *EncodedImage) Masks(ctx context.Context, p Prompts, which string) ([]Mask, error) {
	if err := e.segmenter.Task.CheckMask(which); err != nil {
		return nil, err
	}
	req, err := e.segmenter.Prompt(p, e.size)
	if err != nil {
		return nil, err
	}
	req.Inputs[e.segmenter.Task.EmbeddingInput] = e.Embedding
	r, err := e.session.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	return e.segmenter.Masks(r, e.size, which)
}
