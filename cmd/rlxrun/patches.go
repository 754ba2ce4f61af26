package main

import (
	"context"
	"fmt"
	"image"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
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
	task    *task.Patches
	patcher *patches.Patcher
	image   image.Image
	path    string
	method  *rlx.Method
	request rlx.Request
	grid    image.Point
	wanted  bool // the patches are an output
}

// gridOutput is the name of the grid in the published image processor.
const gridOutput = "image_grid_thw"

// job reads the image and makes its patches.
func (f *patchesFlags) job(ctx context.Context, s *session) (job, error) {
	p, err := patches.New(s)
	if err != nil {
		return nil, err
	}
	j := &patchesJob{task: s.model.Task().(*task.Patches), patcher: p, path: f.image.path}
	j.image, err = readImage(ctx, j.path, s.env.Stdin,
		imaging.Limits{Fits: func(bytes int64) error { return s.need("image", bytes) }})
	if err != nil {
		return nil, err
	}
	if err := j.reserve(s); err != nil {
		return nil, err
	}
	if j.request, j.grid, err = p.Request(j.image); err != nil {
		return nil, about(j.path, err)
	}
	j.method, err = s.model.Method(j.request.Method)
	return j, err
}

// reserve reserves the memory for the patches of the image.
func (j *patchesJob) reserve(s *session) error {
	bytes, err := j.patcher.Memory(j.image.Bounds().Size())
	if err != nil {
		return about(j.path, err)
	}
	return s.need("patches", bytes)
}

// prepare notes whether the patches are to be written.
func (j *patchesJob) prepare(s *session, sinks []sink) error {
	j.wanted = slices.ContainsFunc(sinks, func(x sink) bool { return x.offer.name == j.task.PixelsInput })
	if _, ok := j.request.Inputs[j.task.PixelsInput]; j.wanted && !ok {
		return j.reserve(s)
	}
	return nil
}

// pixels returns the patches, whether the model takes them or not.
func (j *patchesJob) pixels(ctx context.Context) (rlx.Tensor, error) {
	if x, ok := j.request.Inputs[j.task.PixelsInput]; ok {
		return x, nil
	}
	return ctxio.Do(ctx, "patches", func() (rlx.Tensor, error) {
		x, _, err := j.patcher.Pixels(j.image)
		return x, about(j.path, err)
	}, nil)
}

func (j *patchesJob) methods() []*rlx.Method { return []*rlx.Method{j.method} }
func (j *patchesJob) offers() []offer        { return patchesOffers(j.task) }
func (j *patchesJob) primary() string        { return j.task.Embeddings }
func (j *patchesJob) inputs() []string       { return []string{j.path} }
func (j *patchesJob) outputs() []string      { return nil }
func (j *patchesJob) streams() bool          { return false }

func patchesOffers(t *task.Patches) []offer {
	return []offer{
		{name: t.Embeddings, about: "a row for each patch (tensor)"},
		{name: t.PixelsInput, about: "the patches as the published processor makes them (tensor)"},
		{name: gridOutput, about: "frames, and patches down and across (tensor)"},
	}
}

func (j *patchesJob) run(ctx context.Context, s *session) (map[string]product, error) {
	if err := s.load(ctx, j.method); err != nil {
		return nil, err
	}
	r, err := s.Run(ctx, j.request)
	if err != nil {
		return nil, err
	}
	t := j.task
	out := map[string]product{
		t.Embeddings: {tensor: ofModel(r.Outputs[t.Embeddings])},
		gridOutput: {
			tensor: tensor.Tensor{DType: dtype.I64, Shape: []int{1, 3},
				Data: tensor.Bytes([]int64{1, int64(j.grid.Y), int64(j.grid.X)})}},
	}
	if j.wanted {
		x, err := j.pixels(ctx)
		if err != nil {
			return nil, err
		}
		out[t.PixelsInput] = product{tensor: ofModel(x)}
	}
	return out, nil
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
