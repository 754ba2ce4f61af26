package main

import (
	"context"
	"fmt"
	"image"
	"io"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/coco"
	"github.com/rlx-go/rlx/internal/maskfiles"
	"github.com/rlx-go/rlx/segment"
	"github.com/rlx-go/rlx/task"
)

var _ = registerTask(taskKind{
	name: task.KindConcepts, takes: "images and a text about them", usage: "--image with --text or --box",
	example: "--image photo.jpg --text \"a cat\" -o cats",
	examples: []cli.Example{
		{About: "all objects that a text describes: cats/labels.png, cats/overlay.png and cats/masks.json",
			Line: "rlxrun sam3.rlx --image photo.jpg --text \"a cat\" -o cats"},
		{About: "all objects like the one in the first box and unlike the one in the second",
			Line: "rlxrun sam3.rlx --image coins.png --box 316,155,379,218 --box 10,10,60,60:0 -o coins"},
		{About: "the mask of the one object at a pixel, or in a box",
			Line: "rlxrun sam3.rlx --image coins.png --box 316,155,379,218 --mask best -o mask.png"},
	},
	flags: func(im *imageFlag) taskFlags { return &conceptFlags{shared: im} },
})

// conceptFlags are the flags of the task "segment_concepts".
type conceptFlags struct {
	maskFlags
	shared    *imageFlag
	fs        *cli.FlagSet
	text      string
	threshold float64
}

func (f *conceptFlags) declare(fs *cli.FlagSet) {
	f.fs = fs
	fs.Group("Finding what a text describes (artifacts that declare the task " + task.KindConcepts + ")")
	fs.StringVar(&f.text, "text", "", "`TEXT` what to find, in few words, such as \"a red coin\"")
	fs.Float64Var(&f.threshold, "threshold", 0,
		"`0..1` write objects with a higher score (default that of the model, 0.3 for SAM 3)")
}

func (f *conceptFlags) settle() error {
	f.maskFlags = f.shared.masks
	if f.fs.Changed("text") && strings.TrimSpace(f.text) == "" {
		return cli.Usagef("--text", "is empty").WithHint("for example --text \"a cat\"")
	}
	return nil
}

// given lists the flags of the task that were used.
func (f *conceptFlags) given() []string {
	out := f.maskFlags.given()
	for _, name := range []string{"text", "threshold"} {
		if f.fs != nil && f.fs.Changed(name) {
			out = append(out, "--"+name)
		}
	}
	return out
}

// conceptWork finds the objects of a concept in each image of a manyJob.
type conceptWork struct {
	finder *segment.Finder
	flags  *conceptFlags
	search maskfiles.Search
}

// job checks the concept. Whether boxes are inside an image shows when it has been read.
func (f *conceptFlags) job(_ context.Context, s *session) (job, error) {
	g, err := segment.NewFinder(s)
	if err != nil {
		return nil, err
	}
	if err := f.oneSource("--image photo.jpg --text \"a cat\" -o cats"); err != nil {
		return nil, err
	}
	w := &conceptWork{finder: g, flags: f}
	w.search.ObjectMasks, w.search.Threshold = f.objectMasks, g.Facts().Threshold
	if f.fs.Changed("threshold") {
		w.search.Threshold = f.threshold
	}
	w.search.Concept.Text = f.text
	for _, v := range f.box.Values {
		e, err := parseExample(v)
		if err != nil {
			return nil, err
		}
		w.search.Concept.Examples = append(w.search.Concept.Examples, e)
	}
	if err := w.checkConcept(); err != nil {
		return nil, err
	}
	j := &manyJob{work: w, flags: &f.maskFlags}
	if j.images, err = f.images(); err != nil {
		return nil, err
	}
	t := s.model.Task().(*task.Concepts)
	names := []string{t.ImageMethod, t.TextMethod, t.DetectMethod}
	if len(w.search.Concept.Examples) > 0 {
		names[2] = t.ExamplesMethod
	}
	if j.runs, err = methodsOf(s.model, names...); err != nil {
		return nil, err
	}
	return j, nil
}

// checkConcept checks what does not depend on the size of the image.
func (w *conceptWork) checkConcept() error {
	c := w.search.Concept
	if c.Text == "" && len(c.Examples) == 0 {
		return cli.Usagef("--text", "is missing").WithHint(
			"for example --text \"a cat\", or --box 60,40,200,160 around an example")
	}
	most := image.Point{}
	for _, e := range c.Examples {
		most.X, most.Y = max(most.X, int(min(e.X1, 1<<30))+1), max(most.Y, int(min(e.Y1, 1<<30))+1)
	}
	err := w.finder.Check(c, w.search.Threshold, most)
	if e, ok := err.(*diag.Error); ok && slices.Contains([]string{"text", "threshold"}, e.Subject) {
		e.Subject = "--" + e.Subject
	}
	return err
}

// parseExample parses a box of --box that may end in ":0" or ":1". Errors are *diag.Error with code.MaskPrompt.
func parseExample(s string) (segment.Example, error) {
	box, label, labelled := strings.Cut(s, ":")
	if labelled && label != "0" && label != "1" {
		return segment.Example{}, diag.New(code.MaskPrompt, fmt.Sprintf("box %q", s),
			"has the label %q; allowed are 1, an example of what to find, and 0, of what not to find", label)
	}
	b, err := parseBox(box)
	return segment.Example{Box: b, Negative: label == "0"}, err
}

func (w *conceptWork) given() []string              { return w.flags.given() }
func (w *conceptWork) inputs() []string             { return nil }
func (w *conceptWork) allObjects() bool             { return true }
func (w *conceptWork) bytes(size image.Point) int64 { return w.finder.Memory(size) }

func (w *conceptWork) category() string {
	if w.search.Concept.Text == "" {
		return coco.Object
	}
	return w.search.Concept.Text
}

func (w *conceptWork) key(ctx context.Context, identity, precision string, img io.Reader) (string, error) {
	return w.search.Key(ctx, identity, precision, img)
}

func (w *conceptWork) find(ctx context.Context, img image.Image, rec *maskfiles.Record, h maskfiles.Hooks) (
	func() image.Image, error) {
	if err := w.finder.Check(w.search.Concept, w.search.Threshold, img.Bounds().Size()); err != nil {
		return nil, err
	}
	scene, err := w.finder.Encode(ctx, img)
	if err != nil {
		return nil, err
	}
	found, err := w.search.Find(ctx, scene, img, rec, h)
	return func() image.Image { return found.Overlay(img) }, err
}

// note lists the scores of a single image, and says which threshold to lower if nothing was found.
func (w *conceptWork) note(masks int, ends []imageEnd) string {
	out := ""
	if len(ends) == 1 && masks > 0 {
		for i, o := range ends[0].Objects {
			sep := ", "
			if i == 0 {
				sep = "\nscores: "
			}
			out += fmt.Sprintf("%s%.2f", sep, o.Score)
		}
	}
	closest := float32(0)
	for _, e := range ends {
		closest = max(closest, e.closest)
	}
	if masks == 0 && closest > 0 {
		out = fmt.Sprintf("\nthe highest score is %.3g; --threshold is %v", closest, w.search.Threshold)
	}
	return out
}

// help explains the flags for an artifact with this task.
func (f *conceptFlags) help(m *rlx.Model) string {
	t := m.Task().(*task.Concepts)
	clicks := ""
	if task.Clicks(t) != nil {
		clicks = "\nOne object, by --point, or by --box with --mask:\n" + (&segmentFlags{}).help(m)
	}
	return fmt.Sprintf("Task %s: --image with --text (up to %d tokens) or --box (up to %d examples), --threshold %v.\n"+
		"Outputs for -o:\n  %-16s %s\n  %-16s %s\n  %-16s %s\n", task.KindConcepts, t.MaxTokens, t.MaxExamples,
		t.Threshold, "masks", "the objects as files in a folder, with "+maskfiles.Name, cocoOffer.name, cocoOffer.about,
		"overlay", "the image with all objects in colour (PNG)") + clicks
}
