package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/maskfiles"
	"github.com/rlx-go/rlx/segment"
	"github.com/rlx-go/rlx/task"
)

// manyJob is a use of the task whose results go to a folder: the masks of many prompts in an image, or of all its
// objects, or either of these for many images.
type manyJob struct {
	segmenter *segment.Segmenter
	runs      []*rlx.Method
	flags     *segmentFlags
	images    []string
	prompts   []segment.Prompts         // nil to find all objects
	all       segment.EverythingOptions // parameters for finding all objects
	dir       string                    // "" if no folder is asked for

	ends    []imageEnd
	last    *maskfiles.Record     // of the last image
	found   *segment.Segmentation // in the last image
	picture image.Image           // the last image, if its overlay is asked for
	overlay bool                  // whether it is
}

// imageEnd is the result for one image, in the JSON summary.
type imageEnd struct {
	Image string `json:"image"`
	State string `json:"state"` // "done", "skipped" if it was done before, or "failed"
	Masks int    `json:"masks"`
	Error string `json:"error,omitempty"`

	Dropped *segment.Dropped `json:"dropped,omitempty"` // with --everything

	dir string // where its masks are
	key string // of its record
}

// many returns the job for flags that write to a folder; ok is false if the flags do not.
func (f *segmentFlags) many(g *segment.Segmenter, s *session) (j *manyJob, ok bool, err error) {
	all := segment.EverythingOptions{Side: f.grid, MinIoU: f.minIoU, MinStability: f.minStability,
		MaxOverlap: segment.DefaultMaxOverlap}
	if !f.everything && f.objectMasks {
		return nil, true, cli.Usagef("--everything", "is missing; --object-masks belongs to it")
	}
	if !f.everything &&
		(f.grid != segment.DefaultSide || f.minIoU != segment.DefaultMinIoU ||
			f.minStability != segment.DefaultMinStability) {
		return nil, true, cli.Usagef("--everything", "is missing; --grid, --min-iou and --min-stability belong to it")
	}
	if f.pointsFile == "" && !f.everything && f.folder == "" {
		return nil, false, nil
	}
	if err := f.checkMany(); err != nil {
		return nil, true, err
	}
	if err := g.CheckChoice(segment.Choice(f.mask)); err != nil {
		return nil, true, err
	}
	if err := checkEverything(all); err != nil {
		return nil, true, err
	}
	t := s.model.Task().(*task.Segment)
	j = &manyJob{segmenter: g, flags: f, images: []string{f.image}, all: all}
	names := []string{t.ImageMethod, t.PromptMethod}
	if t.BatchMethod != "" {
		names[1] = t.BatchMethod
	}
	for _, name := range names {
		m, err := s.model.Method(name)
		if err != nil {
			return nil, true, err
		}
		j.runs = append(j.runs, m)
	}
	if f.folder != "" {
		if j.images, err = imagesOf(f.folder); err != nil {
			return nil, true, err
		}
	}
	switch {
	case f.pointsFile != "":
		j.prompts, err = maskfiles.ReadPrompts(f.pointsFile)
	case f.prompted():
		var p segment.Prompts
		p, err = f.prompts()
		j.prompts = []segment.Prompts{p}
	}
	return j, true, err
}

// prompted reports whether flags give a prompt.
func (f *segmentFlags) prompted() bool { return len(f.points.Values)+len(f.box.Values) > 0 }

// checkMany checks that flags that write to a folder go together.
func (f *segmentFlags) checkMany() error {
	prompted := f.prompted()
	switch {
	case f.maskPrompt != "":
		return cli.Usagef("--mask-prompt", "takes one prompt in one image")
	case f.everything && (prompted || f.pointsFile != ""):
		return cli.Usagef("--everything", "cannot be combined with --point, --box and --points-file")
	case prompted && f.pointsFile != "":
		return cli.Usagef("--points-file", "cannot be combined with --point and --box")
	case f.everything && f.mask != string(segment.Best):
		return cli.Usagef("--mask", "cannot be combined with --everything, which looks at all masks")
	case f.folder != "" && f.image != "":
		return cli.Usagef("--images", "cannot be combined with --image")
	case f.folder == "" && f.image == "":
		return cli.Usagef("--image", "is missing").WithHint("for example --image photo.jpg --everything -o objects")
	case !prompted && f.pointsFile == "" && !f.everything:
		return cli.Usagef("--images", "no prompt is given").WithHint("add --everything, --points-file, --point or --box")
	}
	return nil
}

func (j *manyJob) methods() []*rlx.Method { return j.runs }

func (j *manyJob) offers() []offer {
	out := []offer{{name: "masks", about: "the masks as files in a folder, with " + maskfiles.Name, folder: true},
		cocoOffer}
	if j.flags.folder == "" && j.prompts == nil {
		out = append(out, offer{name: "overlay", about: "the image with all objects in colour (PNG)",
			pictures: []string{""}})
	}
	return out
}

func (j *manyJob) primary() string   { return "masks" }
func (j *manyJob) outputs() []string { return nil }
func (j *manyJob) streams() bool     { return false }

func (j *manyJob) inputs() []string {
	if j.flags.pointsFile != "" {
		return append(slices.Clone(j.images), j.flags.pointsFile)
	}
	return j.images
}

// prepare creates the folder.
func (j *manyJob) prepare(_ *session, sinks []sink) error {
	folders := 0
	for _, k := range sinks {
		if k.offer.folder {
			folders, j.dir = folders+1, k.dest
		}
		j.overlay = j.overlay || k.offer.name == "overlay"
	}
	if folders > 1 || folders == 0 && (j.flags.folder != "" || len(sinks) == 0 || j.flags.objectMasks) {
		return cli.Usagef("-o", "name one folder for the masks").WithHint("for example -o masks")
	}
	if folders == 0 {
		return nil
	}
	if err := os.Mkdir(j.dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return writeFailed(j.dir, err)
	}
	if st, err := os.Stat(j.dir); err != nil || !st.IsDir() {
		return cli.Usagef("-o "+j.dir, "is a file; %s needs a folder", strings.Join(j.flags.given(), " "))
	}
	return nil
}

// share is what an image counts in the progress bar, so that it moves within an image, too.
const share = 1000

// run processes the images one after another. If there is only one image, an error with it ends the run. Of many, it is
// reported and the others are processed.
func (j *manyJob) run(ctx context.Context, s *session) (map[string]product, error) {
	if err := s.load(ctx, j.runs...); err != nil {
		return nil, err
	}
	what := "images"
	if j.flags.folder == "" {
		what = "masks"
	}
	s.bar = s.env.Progress(what, int64(len(j.images)*share))
	defer func() { s.bar.Clear() }()
	for i, path := range j.images {
		dir := j.dir
		if j.flags.folder != "" {
			dir = filepath.Join(j.dir, filepath.Base(path))
		}
		end, err := j.one(ctx, s, path, dir, func(part float64) { s.bar.Set(int64((float64(i) + part) * share)) })
		if err != nil {
			if j.flags.folder == "" || ctx.Err() != nil || !ofImage(err) {
				return nil, err
			}
			end = imageEnd{Image: path, State: "failed", Error: err.Error()}
		}
		j.ends = append(j.ends, end)
		s.bar.Set(int64((i + 1) * share))
		for i := range s.runs {
			s.runs[i].Outputs = nil // the outputs of thousands of images would fill the memory
		}
	}
	return map[string]product{
		cocoOffer.name: {write: j.writeCOCO},
		"overlay":      {image: func(int) image.Image { return j.found.Overlay(j.picture) }},
	}, nil
}

// ofImage reports whether an error concerns only one image.
func ofImage(err error) bool {
	for _, c := range []diag.Code{code.Image, code.MaskPrompt, code.NoBestMask} {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

// one finds the masks of an image and writes them to a folder, unless the folder has them already. progress is called
// with the share of the work that is done.
func (j *manyJob) one(ctx context.Context, s *session, path, dir string, progress func(float64)) (end imageEnd,
	err error) {
	end = imageEnd{Image: path, State: "done", dir: dir}
	rec := &maskfiles.Record{Image: filepath.Base(path)}
	if path != "-" && dir != "" {
		if rec.Key, err = j.key(ctx, s, path); err != nil {
			return end, err
		}
		end.key = rec.Key
		if old, ok := maskfiles.Done(dir, rec.Key); ok && rec.Key != "" && !j.overlay && !s.fresh {
			end.State, end.Masks, end.Dropped = "skipped", len(old.Masks)+len(old.All), old.Dropped
			j.last = &old
			return end, nil
		}
	}
	img, err := readImage(
		ctx, path, s.env.Stdin,
		imaging.Limits{Fits: func(bytes int64) error { return s.aboutModel(s.memory.Fits("image", bytes)) }})
	if err != nil {
		return end, err
	}
	size := img.Bounds().Size()
	rec.Width, rec.Height = size.X, size.Y
	if err := s.aboutModel(s.memory.Fits("masks", j.maskBytes(size))); err != nil {
		return end, err
	}
	encoded, err := j.segmenter.Encode(ctx, img)
	if err != nil {
		return end, err
	}
	w := &imageFiles{dir: dir}
	if dir != "" {
		made := missing(dir)
		defer func() { made.tidy(err) }()
		if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
			return end, writeFailed(dir, err)
		}
	}
	defer w.abort()
	hooks := maskfiles.Hooks{Progress: progress,
		Picture: func(name string, img image.Image) (string, error) { return w.picture(ctx, name, img) },
		Fits:    func(bytes int64) error { return s.aboutModel(s.memory.Fits("run lengths of masks", bytes)) }}
	if j.prompts == nil {
		err = j.everything(ctx, encoded, img, rec, hooks)
	} else {
		err = j.request().Prompted(ctx, encoded, rec, hooks)
	}
	if err != nil {
		return end, err
	}
	end.Masks, end.Dropped, j.last = len(rec.Masks)+len(rec.All), rec.Dropped, rec
	if dir != "" {
		err = w.add(ctx, filepath.Join(dir, maskfiles.Name), rec.Write)
	}
	if err == nil {
		err = w.commit()
	}
	return end, err
}

// imageFiles are the files of an image, in a folder; without a folder, none.
type imageFiles struct {
	files
	dir string
}

// picture writes a PNG and returns its name, or "" if there is no folder.
func (w *imageFiles) picture(ctx context.Context, name string, img image.Image) (string, error) {
	if w.dir == "" {
		return "", nil
	}
	return name, w.add(ctx, filepath.Join(w.dir, name), func(out io.Writer) error { return png.Encode(out, img) })
}

// everything finds all objects of an image.
func (j *manyJob) everything(ctx context.Context, encoded *segment.Image, img image.Image, rec *maskfiles.Record,
	h maskfiles.Hooks) error {
	found, err := j.request().Everything(ctx, encoded, img, rec, h)
	if err == nil && j.overlay {
		j.found, j.picture = found, img
	}
	return err
}

// maskBytes bounds the memory for the masks of an image of the given size, and for its label image.
func (j *manyJob) maskBytes(size image.Point) int64 {
	if j.prompts == nil {
		return j.segmenter.EverythingMemory(size, maskfiles.Explicit(j.all))
	}
	return 2*int64(size.X)*int64(size.Y) + j.segmenter.Memory(size, segment.Choice(j.flags.mask))
}

// checkEverything checks the values of --grid, --min-iou and --min-stability.
func checkEverything(o segment.EverythingOptions) error {
	for i, v := range []float64{o.MinIoU, o.MinStability} {
		if !(v >= 0) {
			return diag.New(code.MaskPrompt, []string{"--min-iou", "--min-stability"}[i], "is %v; allowed are 0 to 1",
				v)
		}
	}
	if o.Side == 0 {
		return diag.New(code.MaskPrompt, "--grid", "the grid has 0 points in each direction; allowed are 1 to 128")
	}
	return maskfiles.Explicit(o).Check()
}

func (j *manyJob) json(sum *summary) any {
	return struct {
		*summary
		Images []imageEnd `json:"images"`
	}{sum, j.ends}
}

// note returns a summary of the images. Those that failed have lines of their own.
func (j *manyJob) note() string {
	count, masks, failed := map[string]int{}, 0, ""
	var dropped segment.Dropped
	for _, e := range j.ends {
		count[e.State]++
		masks += e.Masks
		if d := e.Dropped; d != nil {
			dropped.Add(*d)
		}
		if e.Error != "" {
			failed += "failed: " + e.Error + "\n"
		}
	}
	if j.flags.folder == "" && count["skipped"] > 0 {
		return fmt.Sprintf("%s found in %s from before%s", cli.Count(masks, "mask", "masks"), j.dir,
			j.whyNone(masks, dropped))
	} else if j.flags.folder == "" {
		in := j.dir
		if in == "" {
			in = j.images[0]
		}
		return fmt.Sprintf("%s in %s%s", cli.Count(masks, "mask", "masks"), in, j.whyNone(masks, dropped))
	}
	return failed + fmt.Sprintf("%s: %d done, %d done before, %d failed; %s in %s%s",
		cli.Count(len(j.ends), "image", "images"), count["done"], count["skipped"], count["failed"],
		cli.Count(masks, "mask", "masks"), j.dir, j.whyNone(masks, dropped))
}

// whyNone says which bounds to lower if --everything has dropped all masks.
func (j *manyJob) whyNone(masks int, d segment.Dropped) string {
	if masks > 0 || d.Poor+d.Unstable == 0 {
		return ""
	}
	out := fmt.Sprintf("\ndropped: %d below --min-iou %g, of the others %d below --min-stability %g", d.Poor,
		j.all.MinIoU, d.Unstable, j.all.MinStability)
	if d.IoU > 0 {
		down := func(v float32) float64 { return math.Floor(float64(v)*100) / 100 }
		out += fmt.Sprintf("; the closest has quality %.2f and stability %.2f and needs", d.IoU, d.Stability)
		if float64(d.IoU) < j.all.MinIoU {
			out += fmt.Sprintf(" --min-iou %.2f", down(d.IoU))
		}
		if float64(d.Stability) < j.all.MinStability {
			out += fmt.Sprintf(" --min-stability %.2f", down(d.Stability))
		}
	}
	return out
}

// verdict returns an error if images failed.
func (j *manyJob) verdict() error {
	n := 0
	for _, e := range j.ends {
		if e.State == "failed" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return diag.New(code.Images, j.flags.folder, "%d of %d images failed; the others are in %s", n, len(j.ends), j.dir)
}
