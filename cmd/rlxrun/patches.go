package main

import (
	"context"
	"fmt"
	"image"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task/imaging"
	"github.com/rlx-go/rlx/task/patches"
)

var _ = registerTask(taskKind{
	name: patches.Kind, takes: "images", usage: "--image", example: "--image photo.jpg -o embeddings.npy",
	examples: []cli.Example{
		{About: "an embedding of each patch of an image", Line: "rlxrun qwen3vl.rlx --image photo.jpg -o embeddings.npy -o image_grid_thw=grid.npy"},
	},
	flags: func(im *imageFlag) taskFlags { return &patchesFlags{im} },
})

// patchesFlags are the flags of the task "patches".
type patchesFlags struct{ image *imageFlag }

func (f *patchesFlags) declare(*cli.FlagSet) {}

func (f *patchesFlags) settle() error { return nil }

func (f *patchesFlags) given() []string { return f.image.given() }

// A patchesJob is one use of the task: it turns an image into embeddings.
type patchesJob struct {
	patcher *rlx.Patcher
	method  *rlx.Method
	path    string
	request rlx.Request
	grid    image.Point
}

// gridOutput is the name of the grid in the published image processor.
const gridOutput = "image_grid_thw"

// job reads the image and makes its patches.
func (f *patchesFlags) job(ctx context.Context, s *session) (job, error) {
	p, _ := s.model.Patcher()
	j := &patchesJob{patcher: p, path: f.image.path}
	var err error
	if j.method, err = s.model.Method(p.Task.Method); err != nil {
		return nil, err
	}
	img, err := readImage(ctx, j.path, s.env.Stdin, imaging.Limits{Fits: func(bytes int64) error { return s.need("image", bytes) }})
	if err != nil {
		return nil, err
	}
	rows, columns, err := p.Task.Grid(img.Bounds().Dx(), img.Bounds().Dy())
	if err != nil {
		return nil, about(j.path, err)
	}
	if err := s.need("patches", p.Task.Bytes(rows, columns)); err != nil {
		return nil, err
	}
	j.request, j.grid, err = p.Embed(img)
	return j, about(j.path, err)
}

func (j *patchesJob) methods() []*rlx.Method         { return []*rlx.Method{j.method} }
func (j *patchesJob) offers() []offer                { return patchesOffers(&j.patcher.Task) }
func (j *patchesJob) primary() string                { return j.patcher.Task.Embeddings }
func (j *patchesJob) inputs() []string               { return []string{j.path} }
func (j *patchesJob) outputs() []string              { return nil }
func (j *patchesJob) streams() bool                  { return false }
func (j *patchesJob) prepare(*session, []sink) error { return nil }

func patchesOffers(t *patches.Task) []offer {
	return []offer{
		{name: t.Embeddings, about: "a row for each patch (tensor)"},
		{name: t.PixelsInput, about: "the patches as the model takes them (tensor)"},
		{name: gridOutput, about: "frames, and patches down and across (tensor)"},
	}
}

func (j *patchesJob) run(ctx context.Context, s *session) (map[string]product, error) {
	if err := s.load(ctx, j.method); err != nil {
		return nil, err
	}
	r, err := s.run(ctx, j.request)
	if err != nil {
		return nil, err
	}
	t := &j.patcher.Task
	return map[string]product{
		t.Embeddings:  {tensor: tensor.Tensor(r.Outputs[t.Embeddings])},
		t.PixelsInput: {tensor: tensor.Tensor(j.request.Inputs[t.PixelsInput])},
		gridOutput:    {tensor: tensor.Tensor{DType: dtype.I64, Shape: []int{1, 3}, Data: tensor.Bytes([]int64{1, int64(j.grid.Y), int64(j.grid.X)})}},
	}, nil
}

func (j *patchesJob) json(sum *summary) any {
	return struct {
		*summary
		Grid [3]int `json:"image_grid_thw"`
	}{sum, [3]int{1, j.grid.Y, j.grid.X}}
}

// help explains the flags for an artifact with this task.
func (f *patchesFlags) help(m *rlx.Model) string {
	p, _ := m.Patcher()
	text := fmt.Sprintf("Task %s: --image, %v.\nOutputs for -o:\n", patches.Kind, &p.Task)
	for _, o := range patchesOffers(&p.Task) {
		text += fmt.Sprintf("  %-16s %s\n", o.name, o.about)
	}
	return text
}
