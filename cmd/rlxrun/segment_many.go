package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
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
)

// manyJob is a use of a task whose results go to a folder: the masks of many prompts in an image, or of all its
// objects, or of all that belong to a concept, or any of these for many images.
type manyJob struct {
	work   imageWork
	runs   []*rlx.Method
	flags  *maskFlags
	images []string
	dir    string // "" if no folder is asked for

	ends    []imageEnd
	last    *maskfiles.Record  // of the last image
	seen    func() image.Image // draws the objects of the last image over it, if the overlay is asked for
	overlay bool               // whether it is
}

// imageWork is what a manyJob does with each image.
type imageWork interface {
	given() []string  // flags that were used
	inputs() []string // files that it reads, other than images
	category() string // of the masks, in COCO's format
	allObjects() bool // whether it finds all objects, which have an overlay
	// key identifies what the masks of an image depend on.
	key(ctx context.Context, identity, precision string, img io.Reader) (string, error)
	bytes(size image.Point) int64 // bounds the memory for the masks of an image
	// find adds the masks of an image to the record. It returns a function that draws them over the image, or nil.
	find(ctx context.Context, img image.Image, rec *maskfiles.Record, h maskfiles.Hooks) (func() image.Image, error)
	note(masks int, ends []imageEnd) string // what people want to know about the results, from a new line on; or ""
}

// imageEnd is the result for one image, in the JSON summary.
type imageEnd struct {
	Image string `json:"image"`
	State string `json:"state"` // "done", "skipped" if it was done before, or "failed"
	Masks int    `json:"masks"`
	Error string `json:"error,omitempty"`

	Dropped *segment.Dropped `json:"dropped,omitempty"` // with --everything
	Objects []segment.Object `json:"objects,omitempty"` // of a concept

	dir     string // where its masks are
	key     string // of its record
	closest float32
}

func (j *manyJob) methods() []*rlx.Method { return j.runs }

func (j *manyJob) offers() []offer {
	out := []offer{{name: "masks", about: "the masks as files in a folder, with " + maskfiles.Name, folder: true},
		cocoOffer}
	if j.flags.folder == "" && j.work.allObjects() {
		out = append(out, offer{name: "overlay", about: "the image with all objects in colour (PNG)",
			pictures: []string{""}})
	}
	return out
}

func (j *manyJob) primary() string   { return "masks" }
func (j *manyJob) outputs() []string { return nil }
func (j *manyJob) streams() bool     { return false }

func (j *manyJob) inputs() []string { return append(slices.Clone(j.images), j.work.inputs()...) }

// prepare creates the folder.
func (j *manyJob) prepare(s *session, sinks []sink) error {
	folders := 0
	for _, k := range sinks {
		if k.offer.folder {
			folders, j.dir = folders+1, k.dest
		}
		j.overlay = j.overlay || k.offer.name == "overlay"
	}
	if folders > 1 || folders == 0 && (j.flags.folder != "" || len(sinks) == 0 && !s.env.JSON ||
		j.flags.objectMasks) {
		return cli.Usagef("-o", "name one folder for the masks").WithHint("for example -o masks")
	}
	if folders == 0 {
		return nil
	}
	if err := os.Mkdir(j.dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return writeFailed(j.dir, err)
	}
	if st, err := os.Stat(j.dir); err != nil || !st.IsDir() {
		return cli.Usagef("-o "+j.dir, "is a file; %s needs a folder", strings.Join(j.work.given(), " "))
	}
	return nil
}

// share is the number of units of an image in the progress bar, so that the bar also moves within an image.
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
		"overlay":      {image: func(int) image.Image { return j.seen() }},
	}, nil
}

// of takes what the summary has from a record.
func (e *imageEnd) of(r *maskfiles.Record) {
	e.Masks, e.Dropped, e.closest = len(r.Masks)+len(r.All)+len(r.Found), r.Dropped, r.Closest
	for _, o := range r.Found {
		e.Objects = append(e.Objects, o.Object)
	}
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
			end.State, j.last = "skipped", &old
			end.of(&old)
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
	if err := s.aboutModel(s.memory.Fits("masks", j.work.bytes(size))); err != nil {
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
	seen, err := j.work.find(ctx, img, rec, hooks)
	if err != nil {
		return end, err
	}
	if j.overlay {
		j.seen = seen
	}
	end.of(rec)
	j.last = rec
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

func (j *manyJob) json(sum *summary) any {
	return struct {
		*summary
		Images []imageEnd `json:"images"`
	}{sum, j.ends}
}

// note returns a summary of the images. Those that failed have lines of their own.
func (j *manyJob) note() string {
	count, masks, failed := map[string]int{}, 0, ""
	for _, e := range j.ends {
		count[e.State]++
		masks += e.Masks
		if e.Error != "" {
			failed += "failed: " + e.Error + "\n"
		}
	}
	if j.flags.folder == "" && count["skipped"] > 0 {
		return fmt.Sprintf("%s found in %s from before%s", cli.Count(masks, "mask", "masks"), j.dir,
			j.work.note(masks, j.ends))
	} else if j.flags.folder == "" {
		in := j.dir
		if in == "" {
			in = j.images[0]
		}
		return fmt.Sprintf("%s in %s%s", cli.Count(masks, "mask", "masks"), in, j.work.note(masks, j.ends))
	}
	return failed + fmt.Sprintf("%s: %d done, %d done before, %d failed; %s in %s%s",
		cli.Count(len(j.ends), "image", "images"), count["done"], count["skipped"], count["failed"],
		cli.Count(masks, "mask", "masks"), j.dir, j.work.note(masks, j.ends))
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
