package main

import (
	"context"
	"fmt"
	"image"
	"io"
	"math"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/coco"
	"github.com/rlx-go/rlx/internal/maskfiles"
	"github.com/rlx-go/rlx/segment"
	"github.com/rlx-go/rlx/task"
)

// promptWork finds the masks of prompts, or all objects, in each image of a manyJob.
type promptWork struct {
	segmenter *segment.Segmenter
	flags     *segmentFlags
	prompts   []segment.Prompts         // nil to find all objects
	all       segment.EverythingOptions // parameters for finding all objects
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
	t := task.Clicks(s.model.Task())
	w := &promptWork{segmenter: g, flags: f, all: all}
	j = &manyJob{work: w, flags: &f.maskFlags}
	names := []string{t.ImageMethod, t.PromptMethod}
	if t.BatchMethod != "" {
		names[1] = t.BatchMethod
	}
	if j.runs, err = methodsOf(s.model, names...); err != nil {
		return nil, true, err
	}
	if j.images, err = f.images(); err != nil {
		return nil, true, err
	}
	switch {
	case f.pointsFile != "":
		w.prompts, err = maskfiles.ReadPrompts(f.pointsFile)
	case f.prompted():
		var p segment.Prompts
		p, err = f.prompts()
		w.prompts = []segment.Prompts{p}
	}
	return j, true, err
}

// prompted reports whether flags give a prompt.
func (f *segmentFlags) prompted() bool { return len(f.points.Values)+len(f.box.Values) > 0 }

// checkMany checks that flags that write to a folder go together.
func (f *segmentFlags) checkMany() error {
	if err := f.oneSource("--image photo.jpg --everything -o objects"); err != nil {
		return err
	}
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
	case !prompted && f.pointsFile == "" && !f.everything:
		return cli.Usagef("--images", "no prompt is given").WithHint("add --everything, --points-file, --point or --box")
	}
	return nil
}

// request returns what is looked for in each image.
func (w *promptWork) request() maskfiles.Request {
	return maskfiles.Request{Prompts: w.prompts, Choice: segment.Choice(w.flags.mask), All: w.all,
		ObjectMasks: w.flags.objectMasks}
}

func (w *promptWork) given() []string  { return w.flags.given() }
func (w *promptWork) category() string { return coco.Object }
func (w *promptWork) allObjects() bool { return w.prompts == nil }

func (w *promptWork) inputs() []string {
	if w.flags.pointsFile == "" {
		return nil
	}
	return []string{w.flags.pointsFile}
}

func (w *promptWork) key(ctx context.Context, identity, precision string, img io.Reader) (string, error) {
	return w.request().Key(ctx, identity, precision, img)
}

func (w *promptWork) bytes(size image.Point) int64 {
	if w.prompts == nil {
		return w.segmenter.EverythingMemory(size, maskfiles.Explicit(w.all))
	}
	return 2*int64(size.X)*int64(size.Y) + w.segmenter.Memory(size, segment.Choice(w.flags.mask))
}

func (w *promptWork) find(ctx context.Context, img image.Image, rec *maskfiles.Record, h maskfiles.Hooks) (
	func() image.Image, error) {
	encoded, err := w.segmenter.Encode(ctx, img)
	if err != nil {
		return nil, err
	}
	if w.prompts != nil {
		return nil, w.request().Prompted(ctx, encoded, rec, h)
	}
	found, err := w.request().Everything(ctx, encoded, img, rec, h)
	return func() image.Image { return found.Overlay(img) }, err
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
		return diag.New(code.MaskPrompt, "--grid", "is 0; allowed are 1 to 128")
	}
	return maskfiles.Explicit(o).Check()
}

// note says which bounds to lower if --everything has dropped all masks.
func (w *promptWork) note(masks int, ends []imageEnd) string {
	var d segment.Dropped
	for _, e := range ends {
		if e.Dropped != nil {
			d.Add(*e.Dropped)
		}
	}
	if masks > 0 || d.Poor+d.Unstable == 0 {
		return ""
	}
	out := fmt.Sprintf("\ndropped: %d below --min-iou %g, of the others %d below --min-stability %g", d.Poor,
		w.all.MinIoU, d.Unstable, w.all.MinStability)
	if d.IoU > 0 {
		down := func(v float32) float64 { return math.Floor(float64(v)*100) / 100 }
		out += fmt.Sprintf("; the closest has quality %.2f and stability %.2f and needs", d.IoU, d.Stability)
		if float64(d.IoU) < w.all.MinIoU {
			out += fmt.Sprintf(" --min-iou %.2f", down(d.IoU))
		}
		if float64(d.Stability) < w.all.MinStability {
			out += fmt.Sprintf(" --min-stability %.2f", down(d.Stability))
		}
	}
	return out
}
