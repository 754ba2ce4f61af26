package main

import (
	"context"
	"fmt"
	"image"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/patches"
	"github.com/rlx-go/rlx/task"
)

var _ = registerTask(taskKind{
	name: task.KindPatches, takes: "images", usage: "--image", example: "--image photo.jpg -o embeddings.npy",
	examples: []cli.Example{
		{About: "an embedding of each patch of an image",
			Line: "rlxrun qwen3vl.rlx --image photo.jpg -o embeddings.npy -o image_grid_thw=grid.npy"},
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
	task   *task.Patches
	method *rlx.Method
	path   string
	pixels rlx.Tensor
	grid   image.Point
}

// gridOutput is the name of the grid in the published image processor.
const gridOutput = "image_grid_thw"

// job reads the image and makes its patches.
func (f *patchesFlags) job(ctx context.Context, s *session) (job, error) {
	p, err := patches.New(s)
	if err != nil {
		return nil, err
	}
	j := &patchesJob{task: s.model.Task().(*task.Patches), path: f.image.path}
	if j.method, err = s.model.Method(j.task.Method); err != nil {
		return nil, err
	}
	img, err := readImage(ctx, j.path, s.env.Stdin,
		imaging.Limits{Fits: func(bytes int64) error { return s.need("image", bytes) }})
	if err != nil {
		return nil, err
	}
	bytes, err := p.Memory(img.Bounds().Size())
	if err != nil {
		return nil, about(j.path, err)
	}
	if err := s.need("patches", bytes); err != nil {
		return nil, err
	}
	j.pixels, j.grid, err = p.Pixels(img)
	return j, about(j.path, err)
}

func (j *patchesJob) methods() []*rlx.Method         { return []*rlx.Method{j.method} }
func (j *patchesJob) offers() []offer                { return patchesOffers(j.task) }
func (j *patchesJob) primary() string                { return j.task.Embeddings }
func (j *patchesJob) inputs() []string               { return []string{j.path} }
func (j *patchesJob) outputs() []string              { return nil }
func (j *patchesJob) streams() bool                  { return false }
func (j *patchesJob) prepare(*session, []sink) error { return nil }

func patchesOffers(t *task.Patches) []offer {
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
	r, err := s.Run(
		ctx, rlx.Request{Method: j.task.Method, Inputs: map[string]rlx.Tensor{j.task.PixelsInput: j.pixels}})
	if err != nil {
		return nil, err
	}
	t := j.task
	return map[string]product{
		t.Embeddings:  {tensor: ofModel(r.Outputs[t.Embeddings])},
		t.PixelsInput: {tensor: ofModel(j.pixels)},
		gridOutput: {
			tensor: tensor.Tensor{DType: dtype.I64, Shape: []int{1, 3},
				Data: tensor.Bytes([]int64{1, int64(j.grid.Y), int64(j.grid.X)})}},
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
	t := m.Task().(*task.Patches)
	text := fmt.Sprintf("Task %s: --image, %v.\nOutputs for -o:\n", task.KindPatches, t)
	for _, o := range patchesOffers(t) {
		text += fmt.Sprintf("  %-16s %s\n", o.name, o.about)
	}
	return text
}
