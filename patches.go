package rlx

import (
	"image"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task/patches"
)

// A Patcher converts images to tensors for a model that declares the task "patches", which computes an embedding of each patch of
// an image. It runs nothing.
type Patcher struct {
	Task patches.Task // as the artifact declares it
}

// Patcher returns the Patcher of a model that declares the task "patches". ok is false for other models.
func (m *Model) Patcher() (p *Patcher, ok bool) {
	t, ok := m.v.Meta().Task.(*patches.Task)
	if !ok {
		return nil, false
	}
	return &Patcher{*t}, true
}

// Embed returns the request that embeds the patches of an image, resized and normalised as in training. grid is the number of
// patches across (X) and down (Y). The output Task.Embeddings is f32[X*Y,width], by block of Task.Merge x Task.Merge patches. It is
// an error if the image cannot be divided into patches.
func (p *Patcher) Embed(img image.Image) (r Request, grid image.Point, err error) {
	values, rows, columns, err := p.Task.Rows(img)
	if err != nil {
		return r, grid, err
	}
	n := rows * columns
	t := Tensor{F32, []int{n, len(values) / n}, tensor.Bytes(values)}
	return Request{Method: p.Task.Method, Inputs: map[string]Tensor{p.Task.PixelsInput: t}}, image.Pt(columns, rows), nil
}
