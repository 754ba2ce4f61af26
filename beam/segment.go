package rlxbeam

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"io"
	"path"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/maskfiles"
	"github.com/rlx-go/rlx/segment"
	"github.com/rlx-go/rlx/task"
)

// SegmentOptions holds the options of Segment. Either Prompts or Everything must be given.
type SegmentOptions struct {
	Prompts    []segment.Prompts // the same for each image
	Choice     string            // among the masks of a prompt, a segment.Choice; "" means the best
	Everything bool              // all objects of an image, without prompts
	// Objects holds the parameters for Everything, without defaults: 0 means 0. DefaultObjects returns those of rlxrun.
	Objects     segment.EverythingOptions
	ObjectMasks bool // with Everything, a picture for each object

	// Done, if not empty, is the folder that WriteFolders writes to. An image whose masks are there already, for the
	// same model, bytes and request, is left out of the results.
	Done string
}

// DefaultObjects returns the parameters for all objects that rlxrun uses if no flag changes them.
func DefaultObjects() segment.EverythingOptions {
	return segment.EverythingOptions{Side: segment.DefaultSide, MinIoU: segment.DefaultMinIoU,
		MinStability: segment.DefaultMinStability, MaxOverlap: segment.DefaultMaxOverlap}
}

func (o SegmentOptions) request() maskfiles.Request {
	q := maskfiles.Request{Choice: segment.Choice(o.Choice), All: o.Objects, ObjectMasks: o.ObjectMasks}
	if q.Choice == "" {
		q.Choice = segment.Best
	}
	if !o.Everything { // the record names the options, too, as rlxrun's does
		q.Prompts, q.All, q.ObjectMasks = o.Prompts, DefaultObjects(), false
	}
	return q
}

// Folder is what belongs to one input: files that WriteFolders writes, in this order.
type Folder struct {
	Name  string // relative path with slashes
	Files []File
}

// File is a file of a Folder.
type File struct {
	Name string
	Data []byte
}

// Segment finds objects in images, PCollection<Image>, with a model that declares the task "segment". It returns
// PCollection<Folder> and PCollection<Failure>. A folder has the name of its image and the files that `rlxrun --images`
// writes: pictures of masks, and masks.json with their outlines as the last one.
func Segment(s beam.Scope, m Model, o SegmentOptions, images beam.PCollection) (found, failed beam.PCollection) {
	return beam.ParDo2(s.Scope("rlxbeam.Segment"), &segmentFn{Model: m, Options: o}, images)
}

type segmentFn struct {
	Model   Model
	Options SegmentOptions
}

// warm loads both methods, so that no image waits for one of them.
func (f *segmentFn) warm(ctx context.Context, s *rlx.Session) error {
	g, err := segment.New(s)
	if err != nil {
		return err
	}
	if err := f.check(g); err != nil {
		return err
	}
	t := task.Clicks(s.Model().Task())
	methods := []string{t.ImageMethod, t.PromptMethod}
	if t.BatchMethod != "" {
		methods[1] = t.BatchMethod
	}
	return s.Load(ctx, methods...)
}

// check checks the options, which are the same for each image.
func (f *segmentFn) check(g *segment.Segmenter) error {
	q := f.Options.request()
	switch {
	case f.Options.Everything == (len(f.Options.Prompts) > 0):
		return diag.New(diag.Usage, "SegmentOptions",
			"Prompts and Everything are both given, or neither is; give one")
	case f.Options.Everything:
		if err := q.Options().Check(); err != nil {
			return err
		}
	}
	return g.CheckChoice(q.Choice)
}

// ProcessElement finds the masks of an image.
func (f *segmentFn) ProcessElement(ctx context.Context, img Image, emit func(Folder), fail func(Failure)) error {
	elements.Inc(ctx, 1)
	var out *Folder
	err := workerOf(f.Model).do(ctx, f.warm, func(s *rlx.Session) (err error) {
		out, err = f.one(ctx, s, img)
		return err
	})
	if letter, ok := failure(ctx, img.Name, err); err != nil && ok {
		fail(letter)
		return nil
	}
	if err == nil && out == nil {
		skipped.Inc(ctx, 1)
	} else if err == nil {
		results.Inc(ctx, 1)
		emit(*out)
	}
	return err
}

// one returns the files of an image, or nil if they are there already.
func (f *segmentFn) one(ctx context.Context, s *rlx.Session, in Image) (*Folder, error) {
	q := f.Options.request()
	g, err := segment.New(s)
	if err == nil {
		err = f.check(g)
	}
	if err != nil {
		return nil, errSetup{err}
	}
	key, err := q.Key(ctx, s.Model().Facts().Identity, s.Precision(), bytes.NewReader(in.Data))
	if err != nil {
		return nil, err
	}
	if f.Options.Done != "" {
		if _, ok := maskfiles.Done(filepath.Join(f.Options.Done, filepath.FromSlash(in.Name)), key); ok {
			return nil, nil
		}
	}
	img, err := imaging.Decode(in.Name, bytes.NewReader(in.Data), imaging.Limits{})
	if err != nil {
		return nil, err
	}
	encoded, err := g.Encode(ctx, img)
	if err != nil {
		return nil, err
	}
	size := img.Bounds().Size()
	out := &Folder{Name: in.Name}
	add := func(name string, write func(io.Writer) error) error {
		var b bytes.Buffer
		err := write(&b)
		out.Files = append(out.Files, File{Name: name, Data: b.Bytes()})
		return err
	}
	rec := &maskfiles.Record{Image: path.Base(in.Name), Key: key, Width: size.X, Height: size.Y}
	hooks := maskfiles.Hooks{Picture: func(name string, img image.Image) (string, error) {
		return name, add(name, func(w io.Writer) error { return png.Encode(w, img) })
	}}
	if f.Options.Everything {
		_, err = q.Everything(ctx, encoded, img, rec, hooks)
	} else {
		err = q.Prompted(ctx, encoded, rec, hooks)
	}
	if err == nil {
		err = add(maskfiles.Name, rec.Write)
	}
	return out, err
}

func init() {
	register.DoFn4x1[context.Context, Image, func(Folder), func(Failure), error](&segmentFn{})
	register.Emitter1[Folder]()
}
