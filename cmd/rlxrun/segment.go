package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/maskfiles"
	"github.com/rlx-go/rlx/internal/npy"
	"github.com/rlx-go/rlx/segment"
	"github.com/rlx-go/rlx/task"
)

var _ = registerTask(taskKind{
	name: task.KindSegment, takes: "images and prompts", usage: "--image with --point or --box",
	example: "--image photo.jpg --point 120,80 -o mask.png",
	examples: []cli.Example{
		{About: "the mask of the object at pixel (128,128)",
			Line: "rlxrun sam.rlx --backend cpu --image scene1.png --point 128,128 -o mask.png"},
		{About: "the object in a box: its mask, an overlay to look at, and the predicted quality",
			Line: "rlxrun sam.rlx --image coins.png --box 316,155,379,218 -o mask.png -o overlay=seen.png -o iou=-"},
		{About: "all masks: mask.0.png, mask.1.png and so on",
			Line: "rlxrun sam.rlx --image coins.png --point 203,203 --mask all -o mask.png"},
		{About: "refine a rough mask",
			Line: "rlxrun sam.rlx --image coins.png --point 203,203 --mask-prompt rough.png -o mask.png"},
		{About: "all objects in an image: out/labels.png, out/overlay.png and out/masks.json",
			Line: "rlxrun sam.rlx --image coins.png --everything -o out"},
		{About: "all objects in each image of a folder; skips images that are already done",
			Line: "rlxrun sam.rlx --images photos --everything -o out"},
		{About: "the same, and one file with all of them in the format of the COCO data set",
			Line: "rlxrun sam.rlx --images photos --everything -o out -o coco=photos.json"},
		{About: "many prompts in one image, which is encoded once: out/0.png, out/1.png and so on",
			Line: "rlxrun sam.rlx --image coins.png --points-file prompts.json -o out"},
		{About: "show where the time goes", Line: "rlxrun sam.rlx --image scene1.png --point 128,128 --profile"},
	},
	flags: func(im *imageFlag) taskFlags { return &segmentFlags{shared: im} },
})

// segmentFlags are the flags of the task "segment".
type segmentFlags struct {
	maskFlags
	shared       *imageFlag
	fs           *cli.FlagSet
	points       cli.List
	mask         string
	maskPrompt   string
	pointsFile   string
	everything   bool
	grid         int
	minIoU       float64
	minStability float64
}

func (f *segmentFlags) declare(fs *cli.FlagSet) {
	f.fs = fs
	fs.Group("Segmenting an image (artifacts that declare the task " + task.KindSegment + ", or " + task.KindConcepts +
		" with clicks)")
	fs.ListVarP(&f.points, "point", "", "`X,Y[,0|1]` a pixel of the object; with 0, a pixel outside it (repeatable)")
	fs.StringVar(&f.maskPrompt, "mask-prompt", "",
		"`FILE` a rough mask, beside a point or box: a PNG of the image's size, white inside, or a .npy of logits, f32[1,1,4*tokens,4*tokens]")
	fs.StringVar(&f.pointsFile, "points-file", "",
		"`FILE` many prompts as JSON: [{\"points\": [[120,80], [30,40,0]]}, {\"box\": [60,40,200,160]}]; -o names a folder for the masks")
	fs.BoolVar(&f.everything, "everything", false,
		"find all objects; write a label image and a list to the folder of -o. Of masks that share more than 70 % of their pixels (IoU above 0.7), the one with the highest predicted quality is kept")
	fs.IntVar(&f.grid, "grid", segment.DefaultSide, "`N` with --everything: search from N x N points")
	fs.Float64Var(&f.minIoU, "min-iou", segment.DefaultMinIoU,
		"`0..1` with --everything: drop masks with a lower predicted quality")
	fs.Float64Var(&f.minStability, "min-stability", segment.DefaultMinStability,
		"`0..1` with --everything: drop masks that change more with the threshold")
	fs.StringVar(&f.mask, "mask", string(segment.Best),
		"`best|all|N` write the mask with the highest predicted quality, all masks, or one by number")
}

func (f *segmentFlags) settle() error {
	f.maskFlags = f.shared.masks
	if f.mask == "" {
		return cli.Usagef("--mask", "is empty; allowed are best, all and the number of a mask")
	}
	return nil
}

// given lists the flags of the task that were used.
func (f *segmentFlags) given() []string { return append(f.maskFlags.given(), f.clicks()...) }

// clicks lists those of them that no other task has.
func (f *segmentFlags) clicks() (out []string) {
	if f.fs == nil {
		return nil // there is no command line
	}
	if len(f.points.Values) > 0 {
		out = append(out, "--point")
	}
	if f.maskPrompt != "" {
		out = append(out, "--mask-prompt")
	}
	if f.pointsFile != "" {
		out = append(out, "--points-file")
	}
	if f.everything {
		out = append(out, "--everything")
	}
	if f.grid != segment.DefaultSide {
		out = append(out, "--grid")
	}
	if f.minIoU != segment.DefaultMinIoU {
		out = append(out, "--min-iou")
	}
	if f.minStability != segment.DefaultMinStability {
		out = append(out, "--min-stability")
	}
	if f.fs.Changed("mask") {
		out = append(out, "--mask")
	}
	return out
}

// A segmentJob is one use of the task: it turns an image and prompts into masks.
type segmentJob struct {
	segmenter *segment.Segmenter
	model     *rlx.Model
	task      *task.Segment
	runs      []*rlx.Method // the methods that encode images and decode prompts
	flags     *segmentFlags
	img       image.Image
	prompts   segment.Prompts

	masks []segment.Mask
}

// methodsOf returns the methods of these names.
func methodsOf(m *rlx.Model, names ...string) (out []*rlx.Method, err error) {
	for _, name := range names {
		x, err := m.Method(name)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// job reads the image and checks the prompts against it.
func (f *segmentFlags) job(ctx context.Context, s *session) (job, error) {
	g, err := segment.New(s)
	if err != nil {
		return nil, err
	}
	if many, ok, err := f.many(g, s); ok || err != nil {
		return many, err
	}
	j := &segmentJob{segmenter: g, model: s.model, task: task.Clicks(s.model.Task()), flags: f}
	if j.runs, err = methodsOf(s.model, j.task.ImageMethod, j.task.PromptMethod); err != nil {
		return nil, err
	}
	if f.image == "" {
		return nil,
			cli.Usagef("--image", "is missing").WithHint("for example --image photo.jpg --point 120,80 -o mask.png")
	}
	if len(f.points.Values)+len(f.box.Values) == 0 {
		return nil, cli.Usagef("--point", "no point or box is given").WithHint(
			"for example --point 120,80 or --box 60,40,200,160")
	}
	if err := g.CheckChoice(segment.Choice(f.mask)); err != nil {
		return nil, err
	}
	if j.prompts, err = f.prompts(); err != nil {
		return nil, err
	}
	if j.img, err = readImage(ctx, f.image, s.env.Stdin,
		imaging.Limits{Fits: func(bytes int64) error { return s.need("image", bytes) }}); err != nil {
		return nil, err
	}
	size := j.size()
	if err := s.need("masks", g.Memory(size, segment.Choice(f.mask))); err != nil {
		return nil, err
	}
	if err := s.need("overlay", 4*int64(size.X)*int64(size.Y)); err != nil {
		return nil, err
	}
	if f.maskPrompt != "" {
		if j.prompts.Mask, err = readMaskPrompt(ctx, s, f.maskPrompt, g, size); err != nil {
			return nil, err
		}
	}
	return j, g.Check(j.prompts, segment.Choice(f.mask), size)
}

// prompts parses --point and --box.
func (f *segmentFlags) prompts() (out segment.Prompts, err error) {
	if len(f.box.Values) > 1 {
		return out, cli.Usagef("--box", "is given %d times; allowed is one", len(f.box.Values))
	}
	for _, v := range f.points.Values {
		p, err := parsePoint(v)
		if err != nil {
			return out, err
		}
		out.Points = append(out.Points, p)
	}
	for _, v := range f.box.Values {
		b, err := parseBox(v)
		if err != nil {
			return out, err
		}
		out.Box = &b
	}
	return out, nil
}

// size returns the size of the image.
func (j *segmentJob) size() image.Point { return j.img.Bounds().Size() }

// readMaskPrompt reads the file of --mask-prompt.
func readMaskPrompt(ctx context.Context, s *session, path string, g *segment.Segmenter, size image.Point) (
	[]float32, error) {
	side := g.Facts().MaskSide
	if side == 0 {
		return nil,
			cli.Usagef("--mask-prompt", "%s takes points and boxes only: its checkpoint has no weights for masks",
				s.model.Path())
	}
	if !strings.HasSuffix(path, ".npy") {
		img, err := readImage(
			ctx, path, nil, imaging.Limits{Fits: func(bytes int64) error { return s.need("mask prompt", bytes) }})
		if err != nil {
			return nil, err
		}
		logits, err := g.MaskPrompt(img, size)
		return logits, about(path, err)
	}
	v, err := npy.ReadFile(ctx, path, func(d dtype.DType, shape []int) error {
		n, ones := len(shape), true
		for _, d := range shape[:max(0, n-2)] {
			ones = ones && d == 1
		}
		if d != dtype.F32 || n < 2 || !ones || shape[n-1] != side || shape[n-2] != side {
			return diag.New(code.MaskPrompt, path, "is %s%s; the model takes f32[1,1,%d,%d]", d, brackets(shape), side,
				side)
		}
		return s.need("mask prompt", int64(4*side*side))
	})
	if err != nil {
		return nil, err
	}
	return rlx.Values[float32](forModel(v))
}

// about adds the file name to an error about the file's contents.
func about(path string, err error) error {
	if e, ok := errors.AsType[*diag.Error](err); ok {
		e.Subject = path
	}
	return err
}

// readImage decodes the image of --image, within limits. It ends when ctx does: not every decoder looks at it.
func readImage(ctx context.Context, path string, stdin io.Reader, lim imaging.Limits) (image.Image, error) {
	return ctxio.Do(ctx, "image", func() (image.Image, error) {
		if path == "-" {
			return imaging.Decode("stdin", ctxio.NewReader(ctx, stdin), lim)
		}
		f, err := ctxio.Open(ctx, path)
		if err != nil {
			return nil, diag.New(code.Image, path, "cannot be opened: %w", unpath(err))
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			lim.FileSize = st.Size()
		}
		return imaging.Decode(path, ctxio.NewReader(ctx, f), lim)
	}, nil)
}

// methods returns the methods that the task needs.
func (j *segmentJob) methods() []*rlx.Method { return j.runs }

// offers lists the outputs of the task, followed by those of its methods.
func (j *segmentJob) offers() []offer { return segmentOffers(j.model, j.flags.mask) }

func segmentOffers(m *rlx.Model, mask string) []offer {
	s := task.Clicks(m.Task())
	suffixes := []string{""}
	if mask == string(segment.All) {
		suffixes = nil
		for t := range s.Tokens {
			suffixes = append(suffixes, strconv.Itoa(t))
		}
	}
	out := []offer{
		{name: "mask", about: "the mask at the size of the image, 255 inside and 0 outside (PNG)", pictures: suffixes},
		{name: "overlay", about: "the image with mask and prompts drawn over it (PNG)", pictures: suffixes},
		cocoOffer,
		{name: "iou", about: "the quality that the model predicts for the mask, 0 to 1"},
	}
	for _, name := range append([]string{s.Embedding, s.MasksOutput}, furtherOutputs(m, s)...) {
		if !slices.ContainsFunc(out, func(o offer) bool { return o.name == name }) {
			out = append(out, offer{name: name, about: "as the model gives it (tensor)"})
		}
	}
	return out
}

// furtherOutputs lists the outputs of the task's methods that not every model with this task has.
func furtherOutputs(m *rlx.Model, s *task.Segment) []string {
	out := slices.Clone(s.Features)
	if method, err := m.Method(s.PromptMethod); err == nil {
		for _, v := range method.Outputs {
			if v.Name != s.MasksOutput && v.Name != s.IoUOutput {
				out = append(out, v.Name)
			}
		}
	}
	return out
}

func (j *segmentJob) primary() string { return "mask" }

func (j *segmentJob) inputs() []string {
	if j.flags.maskPrompt != "" {
		return []string{j.flags.image, j.flags.maskPrompt}
	}
	return []string{j.flags.image}
}

func (j *segmentJob) outputs() []string { return nil }

func (j *segmentJob) streams() bool { return false }

func (j *segmentJob) prepare(*session, []sink) error { return nil }

// run encodes the image, decodes the prompts, and draws the masks.
func (j *segmentJob) run(ctx context.Context, s *session) (map[string]product, error) {
	t := j.task
	if err := s.load(ctx, j.runs...); err != nil {
		return nil, err
	}
	began := time.Now()
	encoded, err := j.segmenter.Encode(ctx, j.img)
	if err != nil {
		return nil, err
	}
	s.trace.add("preprocess", began, s.runs[len(s.runs)-1].Start)
	if j.masks, err = encoded.Masks(ctx, j.prompts, segment.Choice(j.flags.mask)); err != nil {
		return nil, err
	}
	dec := s.runs[len(s.runs)-1]
	s.trace.add("postprocess", dec.Start.Add(dec.Duration), time.Now())
	var quality []float32
	for _, m := range j.masks {
		quality = append(quality, m.IoU)
	}
	made := map[string]product{}
	for _, name := range furtherOutputs(j.model, t) {
		x, ok := encoded.Features[name]
		if !ok {
			x = dec.Outputs[name]
		}
		made[name] = product{tensor: ofModel(x)}
	}
	maps.Copy(made, map[string]product{
		t.Embedding:    {tensor: ofModel(encoded.Embedding)},
		t.MasksOutput:  {tensor: ofModel(dec.Outputs[t.MasksOutput])},
		"mask":         {image: func(i int) image.Image { return j.masks[i].Image }},
		cocoOffer.name: {write: j.writeCOCO},
		"overlay":      {image: func(i int) image.Image { return segment.Overlay(j.img, j.masks[i].Image, j.prompts) }},
		"iou": {
			tensor: tensor.Tensor{DType: dtype.F32, Shape: []int{len(quality), 1}, Data: tensor.Bytes(quality)}},
	})
	return made, nil
}

func (j *segmentJob) json(sum *summary) any {
	return struct {
		*summary
		Masks []maskfiles.Summary `json:"masks,omitempty"`
	}{sum, j.summary()}
}

func (j *segmentJob) summary() (out []maskfiles.Summary) {
	for _, m := range j.masks {
		out = append(out, maskfiles.Summarise(m))
	}
	return out
}

// help explains the flags for an artifact with this task.
func (f *segmentFlags) help(m *rlx.Model) string {
	s := task.Clicks(m.Task())
	mask := ""
	if s.MaskInput != "" {
		mask = " and perhaps --mask-prompt"
	}
	text := fmt.Sprintf(
		"Task %s: --image with --point or --box (up to %d points, box corners included)%s, --mask best|all|0..%d.\nOutputs for -o:\n",
		task.KindSegment, s.MaxPoints, mask, s.Tokens-1)
	for _, o := range segmentOffers(m, string(segment.Best)) {
		text += fmt.Sprintf("  %-16s %s\n", o.name, o.about)
	}
	return text
}
