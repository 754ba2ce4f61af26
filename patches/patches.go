// Package patches turns images into embeddings with models that declare the task "patches": one embedding for each
// patch of an image. Vision encoders for images of any size begin with it (Qwen2-VL, arXiv:2409.12191).
//
//	session, err := rlx.Load(ctx, "qwen3vl.rlx", "cpu")
//	patcher, err := patches.New(session)
//	embeddings, grid, err := patcher.Embed(ctx, photo)
//
// Errors are those of package rlx and ErrImage.
package patches

import (
	"context"
	"image"
	"io"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/patching"
	"github.com/rlx-go/rlx/task"
)

// Errors for errors.Is.
var (
	// ErrShape reports an image that cannot be divided into patches: it is too large or too long for its width.
	ErrShape error = code.ImagePatches
	// ErrImage reports a file that is not an image, or is damaged or too large.
	ErrImage error = code.Image
)

// DecodeImage reads a PNG, JPEG, WebP, TIFF or BMP of at most 2^28 pixels and applies its EXIF orientation. It checks
// the sizes in the header before it allocates pixels. The error matches ErrImage.
func DecodeImage(r io.Reader) (image.Image, error) {
	return imaging.Decode("image", r, imaging.Limits{})
}

// A Patcher divides images into patches and embeds them. It may be used concurrently.
type Patcher struct {
	run  rlx.Runner
	spec *task.Patches
	rule patching.Rule
}

// New returns a Patcher that runs the method of a model by r, which is usually a *rlx.Session. The error matches
// rlx.ErrUsage if the model does not declare the task "patches".
func New(r rlx.Runner) (*Patcher, error) {
	t, ok := r.Model().Task().(*task.Patches)
	if !ok {
		return nil, diag.New(diag.Usage, r.Model().Path(), "declares no task %q", task.KindPatches)
	}
	return newPatcher(r, t), nil
}

func newPatcher(r rlx.Runner, t *task.Patches) *Patcher {
	return &Patcher{r, t, patching.Rule{Patch: t.Patch, Merge: t.Merge, Frames: t.Frames, MinPixels: t.MinPixels,
		MaxPixels: t.MaxPixels, MaxPatches: t.MaxPatches, Mean: t.Mean, Std: t.Std}}
}

// Embed embeds the patches of an image, which is resized and normalised as in training. grid is the number of patches
// across (X) and down (Y), and embeddings is f32[X*Y,width]. Neighbouring patches that the language model takes as one
// token are adjacent rows. The error matches ErrShape, or is one of rlx.Session.Run.
func (p *Patcher) Embed(ctx context.Context, img image.Image) (embeddings rlx.Tensor, grid image.Point, err error) {
	request, grid, err := p.Request(img)
	if err != nil {
		return rlx.Tensor{}, grid, err
	}
	r, err := p.run.Run(ctx, request)
	if err != nil {
		return rlx.Tensor{}, grid, err
	}
	return r.Outputs[p.spec.Embeddings], grid, nil
}

// Request returns the run that embeds the patches of an image, and their grid. If the model has a method that takes the
// resized image, and the image is not too long for it, the device normalises it and cuts it into patches; otherwise the
// request has them. The error matches ErrShape.
func (p *Patcher) Request(img image.Image) (r rlx.Request, grid image.Point, err error) {
	rows, columns, err := p.rule.Grid(img.Bounds().Dx(), img.Bounds().Dy())
	if err != nil {
		return r, image.Point{}, err
	}
	if t := p.spec; t.ImageMethod == "" || max(rows, columns) > t.MaxSide*t.Merge {
		pixels, grid, err := p.Pixels(img)
		return rlx.Request{Method: p.spec.Method, Inputs: map[string]rlx.Tensor{p.spec.PixelsInput: pixels}}, grid, err
	}
	values := p.rule.Resized(img, rows, columns)
	side := p.spec.Patch
	return rlx.Request{Method: p.spec.ImageMethod, Inputs: map[string]rlx.Tensor{p.spec.ImageInput: {DType: rlx.F32,
		Shape: []int{rows * side, columns * side, 3}, Data: tensor.Bytes(values)}}}, image.Pt(columns, rows), nil
}

// Pixels returns the patches as the published processor does: a row for each patch, resized and normalised as in
// training. The error matches ErrShape.
func (p *Patcher) Pixels(img image.Image) (pixels rlx.Tensor, grid image.Point, err error) {
	values, rows, columns, err := p.rule.Rows(img)
	if err != nil {
		return rlx.Tensor{}, image.Point{}, err
	}
	n := rows * columns
	return rlx.Tensor{DType: rlx.F32, Shape: []int{n, len(values) / n}, Data: tensor.Bytes(values)},
		image.Pt(columns, rows), nil
}

// Memory returns the memory in bytes that Request or Pixels takes at most for an image of the given size, for
// rlx.Budget.Reserve. The error is that of Pixels.
func (p *Patcher) Memory(size image.Point) (int64, error) {
	rows, columns, err := p.rule.Grid(size.X, size.Y)
	if err != nil {
		return 0, err
	}
	return p.rule.Bytes(rows, columns), nil
}
