// Package segment finds objects in images with models that declare the task "segment", such as SAM. A point on an
// object, or a box around it, selects the object. The model encodes the image once, which is slow, and then finds a
// mask for each prompt quickly:
//
//	session, err := rlx.Load(ctx, "sam.rlx", "cpu")
//	segmenter, err := segment.New(session)
//	img, err := segmenter.Encode(ctx, photo)
//	at := segment.Point{X: 320, Y: 200, Foreground: true}
//	masks, err := img.Masks(ctx, segment.Prompts{Points: []segment.Point{at}}, segment.Best)
//
// Everything finds all objects of an image, without prompts.
//
// Errors are those of package rlx, such as rlx.ErrUsage and rlx.ErrLost, and the cases below.
package segment

import (
	"context"
	"image"
	"io"
	"maps"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/task"
)

// Errors for errors.Is.
var (
	// ErrPrompt is a case of rlx.ErrUsage: a prompt is outside the image, empty, or more than the model takes, or
	// parameters of Everything have values that are not allowed.
	ErrPrompt error = code.MaskPrompt
	// ErrChoice is a case of rlx.ErrUsage: the model has no such mask.
	ErrChoice error = code.MaskChoice
	// ErrNoBest reports that the model predicts no quality for any mask: all are NaN.
	ErrNoBest error = code.NoBestMask
	// ErrImage reports a file that is not an image, is damaged or is too large.
	ErrImage error = code.Image
)

// DecodeImage reads a PNG, JPEG, WebP, TIFF or BMP of at most 2^28 pixels and applies its EXIF orientation. It checks
// the sizes in the header before it allocates pixels. The error matches ErrImage.
func DecodeImage(r io.Reader) (image.Image, error) {
	return imaging.Decode("image", r, imaging.Limits{})
}

// A Segmenter finds objects in images. It may be used concurrently.
type Segmenter struct {
	run  rlx.Runner
	spec *spec
}

// A spec is the description in the artifact, with the code that turns images and prompts into tensors, and tensors into
// masks.
type spec task.Segment

// New returns a Segmenter that runs the methods of a model by r, which is usually a *rlx.Session. The error matches
// rlx.ErrUsage if the model does not declare the task "segment", or "segment_concepts" with clicks.
func New(r rlx.Runner) (*Segmenter, error) {
	t := task.Clicks(r.Model().Task())
	if t == nil {
		return nil, diag.New(diag.Usage, r.Model().Path(), "declares no task %q", task.KindSegment)
	}
	return &Segmenter{r, (*spec)(t)}, nil
}

// Facts describes the inputs and outputs of a model.
type Facts struct {
	Size      int // side of the square, in pixels, to which images are scaled and padded
	MaxPoints int // of a prompt; the corners of a box count, and without a box padding counts as one point
	MaskSide  int // side of Prompts.Mask in logits; 0 if the model takes no masks
	Masks     int // masks that the model makes for a prompt; a Choice selects among them
	// Best chooses among masks BestFirst to BestLast.
	BestFirst, BestLast int
}

// Facts returns facts about the model.
func (s *Segmenter) Facts() Facts {
	t := s.spec
	return Facts{t.Size, t.MaxPoints, t.MaskSide, t.Tokens, t.BestFirst, t.BestLast}
}

// An Image is an image that a model has encoded. Finding masks in it is fast. Its methods may be called repeatedly and
// concurrently.
type Image struct {
	Embedding rlx.Tensor            // as the model gives it
	Features  map[string]rlx.Tensor // further tensors of the image, by name, if the model has any

	s    *Segmenter
	size image.Point
}

// Encode encodes an image of any size: scaled, normalised and padded as in training. Errors are those of
// rlx.Session.Run.
func (s *Segmenter) Encode(ctx context.Context, img image.Image) (*Image, error) {
	t := s.spec
	pixels, _ := t.preprocess(img)
	in := rlx.Tensor{DType: rlx.F32, Shape: []int{1, 3, t.Size, t.Size}, Data: tensor.Bytes(pixels)}
	r, err := s.run.Run(ctx, rlx.Request{Method: t.ImageMethod, Inputs: map[string]rlx.Tensor{t.ImageInput: in},
		Outputs: t.outputs()})
	if err != nil {
		return nil, err
	}
	return s.image(r.Outputs, img.Bounds().Size()), nil
}

// image returns the image of the given size for which the model made outputs.
func (s *Segmenter) image(outputs map[string]rlx.Tensor, size image.Point) *Image {
	t := s.spec
	out := &Image{Embedding: outputs[t.Embedding], s: s, size: size}
	for _, name := range t.Features {
		if out.Features == nil {
			out.Features = map[string]rlx.Tensor{}
		}
		out.Features[name] = outputs[name]
	}
	return out
}

// outputs lists what the image method gives for prompts.
func (t *spec) outputs() []string { return append([]string{t.Embedding}, t.Features...) }

// Masks finds the object of prompts. Errors match ErrPrompt, ErrChoice or ErrNoBest, or are those of rlx.Session.Run.
func (m *Image) Masks(ctx context.Context, p Prompts, c Choice) ([]Mask, error) {
	if err := m.s.spec.checkChoice(c); err != nil {
		return nil, err
	}
	req, err := m.s.request(p, m.size)
	if err != nil {
		return nil, err
	}
	m.addTo(req)
	r, err := m.s.run.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	return m.s.masks(r, 0, m.size, c)
}

// addTo adds what the model knows about the image to a run.
func (m *Image) addTo(req rlx.Request) {
	req.Inputs[m.s.spec.EmbeddingInput] = m.Embedding
	maps.Copy(req.Inputs, m.Features)
}

// Check checks prompts and a choice for an image of the given size, without a run. Masks does the same; call Check to
// find a mistake before the image is encoded. Errors match ErrPrompt or ErrChoice.
func (s *Segmenter) Check(p Prompts, c Choice, size image.Point) error {
	if err := s.spec.checkChoice(c); err != nil {
		return err
	}
	_, err := s.request(p, size)
	return err
}

// CheckChoice checks a choice. The error matches ErrChoice.
func (s *Segmenter) CheckChoice(c Choice) error { return s.spec.checkChoice(c) }

// request returns the run that finds the object of prompts, without the embedding.
func (s *Segmenter) request(p Prompts, size image.Point) (rlx.Request, error) {
	t := s.spec
	points, labels, err := t.prompt(p, t.geometry(size.X, size.Y))
	if err != nil {
		return rlx.Request{}, err
	}
	r := rlx.Request{Method: t.PromptMethod, Inputs: map[string]rlx.Tensor{
		t.PointsInput: {DType: rlx.F32, Shape: []int{1, len(labels), 2}, Data: tensor.Bytes(points)},
		t.LabelsInput: {DType: rlx.I32, Shape: []int{1, len(labels)}, Data: tensor.Bytes(labels)},
	}}
	if p.Mask != nil {
		mask, err := t.maskPrompt(p)
		if err != nil {
			return rlx.Request{}, err
		}
		r.Inputs[t.MaskInput] = rlx.Tensor{DType: rlx.F32, Shape: []int{1, 1, t.MaskSide, t.MaskSide},
			Data: tensor.Bytes(mask)}
	}
	return r, nil
}

// masks returns the masks of prompt i of a run.
func (s *Segmenter) masks(r *rlx.Result, i int, size image.Point, c Choice) ([]Mask, error) {
	logits, h, w, quality, err := s.logits(r, i)
	if err != nil {
		return nil, err
	}
	return s.spec.postprocess(logits, h, w, quality, s.spec.geometry(size.X, size.Y), c)
}

// logits returns the logits [Tokens,h,w] and the qualities of prompt i of a run.
func (s *Segmenter) logits(r *rlx.Result, i int) (logits []float32, h, w int, quality []float32, err error) {
	t := s.spec
	all, err := rlx.Values[float32](r.Outputs[t.MasksOutput])
	if err != nil {
		return nil, 0, 0, nil, err
	}
	quality, err = rlx.Values[float32](r.Outputs[t.IoUOutput])
	if err != nil {
		return nil, 0, 0, nil, err
	}
	shape, n := r.Outputs[t.MasksOutput].Shape, t.Tokens
	h, w = shape[2], shape[3]
	return all[i*n*h*w:][:n*h*w], h, w, quality[i*n:][:n], nil
}

// MaskPrompt turns a picture of a mask into logits for Prompts.Mask. White is inside and black outside, as in the masks
// of this package. The picture must have the size of the image. The error matches ErrPrompt, also if the model takes no
// masks.
func (s *Segmenter) MaskPrompt(mask image.Image, size image.Point) ([]float32, error) {
	if err := s.spec.takesMasks(); err != nil {
		return nil, err
	}
	return s.spec.maskLogits(mask, s.spec.geometry(size.X, size.Y))
}

// Memory bounds the memory in bytes that Masks takes for an image of the given size, in addition to tensors, for
// rlx.Budget.Reserve: the masks, and what scaling one of them takes.
func (s *Segmenter) Memory(size image.Point, c Choice) int64 {
	rows, _ := s.maskSize()
	return s.spec.maskBytes(rows, s.spec.geometry(size.X, size.Y), c)
}

// maskSize returns the largest height and width of the masks that the model makes.
func (s *Segmenter) maskSize() (h, w int64) {
	method, err := s.run.Model().Method(s.spec.PromptMethod)
	if err != nil {
		panic("BUG: " + err.Error()) // the verifier has checked that it exists
	}
	for _, v := range method.Outputs {
		if v.Name == s.spec.MasksOutput {
			h, w = v.Shape[2].Max, v.Shape[3].Max
		}
	}
	return h, w
}
