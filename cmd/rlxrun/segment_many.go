package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/regular"
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
	dir       string

	ends []imageEnd
}

// imageEnd is the result for one image, in the JSON summary.
type imageEnd struct {
	Image string `json:"image"`
	State string `json:"state"` // "done", "skipped" if it was done before, or "failed"
	Masks int    `json:"masks"`
	Error string `json:"error,omitempty"`

	Dropped *segment.Dropped `json:"dropped,omitempty"` // with --everything
}

// record is the content of masks.json: what was found in an image. It is written last, so an image with this file is
// done.
type record struct {
	Image  string           `json:"image"`
	Key    string           `json:"key"` // identifies the model, the image's bytes and the request
	Width  int              `json:"width"`
	Height int              `json:"height"`
	Labels string           `json:"labels,omitempty"` // file of the label image
	Masks  []recordMask     `json:"masks,omitempty"`
	All    []segment.Region `json:"regions,omitzero"` // with --everything, also if there are none

	Dropped *segment.Dropped `json:"dropped,omitempty"` // with --everything: masks that are not regions
}

// recordMask describes one mask.
type recordMask struct {
	Prompt int `json:"prompt"`
	maskSummary
	File string `json:"file"`
}

const recordName = "masks.json"

// many returns the job for flags that write to a folder; ok is false if the flags do not.
func (f *segmentFlags) many(g *segment.Segmenter, s *session) (j *manyJob, ok bool, err error) {
	all := segment.EverythingOptions{Side: f.grid, MinIoU: f.minIoU, MinStability: f.minStability,
		MaxOverlap: segment.DefaultMaxOverlap}
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
		j.prompts, err = readPrompts(f.pointsFile)
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

// imagesOf lists the files of --images by name: the images in a folder, judged by their extension, or the files that a
// pattern matches.
func imagesOf(arg string) ([]string, error) {
	pattern, like := arg, false
	if st, err := os.Stat(arg); err == nil && st.IsDir() {
		pattern, like = filepath.Join(arg, "*"), true
	}
	all, err := filepath.Glob(pattern)
	if err != nil {
		return nil, cli.Usagef("--images "+arg, "is not a pattern: %w", err)
	}
	all = slices.DeleteFunc(all, func(p string) bool {
		st, err := os.Stat(p)
		ext := strings.ToLower(filepath.Ext(p))
		return err == nil && st.IsDir() || like && ext != ".png" && ext != ".jpg" && ext != ".jpeg"
	})
	if len(all) == 0 {
		return nil, diag.New(code.Image, arg, "no images: nothing there is called .png, .jpg or .jpeg")
	}
	seen := map[string]string{}
	for _, p := range all {
		if other, twice := seen[filepath.Base(p)]; twice {
			return nil, cli.Usagef("--images "+arg, "%s and %s have the same name and would share a folder of results",
				other, p)
		}
		seen[filepath.Base(p)] = p
	}
	return all, nil
}

// maxPrompts bounds the size of a --points-file in bytes.
const maxPrompts = 16 << 20

// readPrompts reads a --points-file: a list of {"points": [[x,y], [x,y,0]], "box": [x0,y0,x1,y1]}.
func readPrompts(path string) (out []segment.Prompts, err error) {
	bad := func(format string, args ...any) ([]segment.Prompts, error) {
		return nil, diag.New(code.MaskPrompt, path, format, args...).WithHint(
			`a file is [{"points": [[120,80], [30,40,0]]}, {"box": [60,40,200,160]}]`)
	}
	raw, err := regular.ReadFile(path, maxPrompts)
	if err != nil {
		return nil, diag.New(code.MaskPrompt, path, "%w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var list []struct {
		Points [][]float64
		Box    []float64
	}
	if err := d.Decode(&list); err != nil || d.More() {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) { // its text shows Go types
			return bad("is not a list of prompts: found a JSON %s at byte %d", wrong.Value, wrong.Offset)
		}
		return bad("is not a list of prompts: %v", err)
	}
	for i, x := range list {
		var p segment.Prompts
		for _, v := range x.Points {
			if len(v) != 2 && (len(v) != 3 || v[2] != 0 && v[2] != 1) {
				return bad("prompt %d: point %v is not [x,y], [x,y,0] (background) or [x,y,1] (foreground)", i, v)
			}
			p.Points = append(p.Points, segment.Point{X: v[0], Y: v[1], Foreground: len(v) == 2 || v[2] == 1})
		}
		if x.Box != nil {
			if len(x.Box) != 4 {
				return bad("prompt %d: box %v is not [x0,y0,x1,y1]", i, x.Box)
			}
			p.Box = &segment.Box{X0: x.Box[0], Y0: x.Box[1], X1: x.Box[2], Y1: x.Box[3]}
		}
		if len(p.Points) == 0 && p.Box == nil {
			return bad("prompt %d has neither points nor a box", i)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return bad("has no prompts")
	}
	return out, nil
}

func (j *manyJob) methods() []*rlx.Method { return j.runs }

func (j *manyJob) offers() []offer {
	return []offer{{name: "masks", about: "the masks as files in a folder, with " + recordName, folder: true}}
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
	if len(sinks) != 1 {
		return cli.Usagef("-o", "name one folder for the masks").WithHint("for example -o masks")
	}
	j.dir = sinks[0].dest
	if err := os.Mkdir(j.dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return writeFailed(j.dir, err)
	}
	if st, err := os.Stat(j.dir); err != nil || !st.IsDir() {
		return cli.Usagef("-o "+j.dir, "is a file; %s needs a folder", strings.Join(j.flags.given(), " "))
	}
	return nil
}

// run processes the images one after another. If there is only one image, an error with it ends the run. Of many, it is
// reported and the others are processed.
func (j *manyJob) run(ctx context.Context, s *session) (map[string]product, error) {
	if err := s.load(ctx, j.runs...); err != nil {
		return nil, err
	}
	if j.flags.folder == "" {
		end, err := j.one(ctx, s, j.images[0], j.dir)
		j.ends = []imageEnd{end}
		return nil, err
	}
	s.bar = s.env.Progress("images", int64(len(j.images)))
	defer func() { s.bar.Clear() }()
	for i, path := range j.images {
		end, err := j.one(ctx, s, path, filepath.Join(j.dir, filepath.Base(path)))
		if err != nil {
			if ctx.Err() != nil || !ofImage(err) {
				return nil, err
			}
			end = imageEnd{Image: path, State: "failed", Error: err.Error()}
		}
		j.ends = append(j.ends, end)
		s.bar.Set(int64(i + 1))
		for i := range s.runs {
			s.runs[i].Outputs = nil // the outputs of thousands of images would fill the memory
		}
	}
	return nil, nil
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

// one finds the masks of an image and writes them to a folder, unless the folder has them already.
func (j *manyJob) one(ctx context.Context, s *session, path, dir string) (end imageEnd, err error) {
	end = imageEnd{Image: path, State: "done"}
	rec := record{Image: filepath.Base(path)}
	if path != "-" {
		if rec.Key, err = j.key(ctx, s, path); err != nil {
			return end, err
		}
		if old, ok := done(dir, rec.Key); ok && rec.Key != "" {
			end.State, end.Masks, end.Dropped = "skipped", len(old.Masks)+len(old.All), old.Dropped
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
	made := missing(dir)
	defer func() { made.tidy(err) }()
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return end, writeFailed(dir, err)
	}
	var w files
	defer w.abort()
	picture := func(name string, img image.Image) error {
		return w.add(ctx, filepath.Join(dir, name), func(out io.Writer) error { return png.Encode(out, img) })
	}
	if j.prompts == nil {
		found, err := encoded.Everything(ctx, explicit(j.all))
		if err != nil {
			return end, err
		}
		rec.Dropped, end.Dropped = &found.Dropped, &found.Dropped
		rec.Labels, rec.All, end.Masks = "labels.png", append([]segment.Region{}, found.Regions...), len(found.Regions)
		if err := picture(rec.Labels, found.Labels); err != nil {
			return end, err
		}
	} else {
		err := encoded.MasksOf(ctx, j.prompts, segment.Choice(j.flags.mask), func(i int, masks []segment.Mask) error {
			for _, m := range masks {
				name := fmt.Sprintf("%d.png", i)
				if j.flags.mask == string(segment.All) {
					name = fmt.Sprintf("%d.%d.png", i, m.Token)
				}
				rec.Masks = append(rec.Masks, recordMask{i, maskSummaryOf(m), name})
				if err := picture(name, m.Image); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return end, err
		}
		slices.SortStableFunc(rec.Masks, func(a, b recordMask) int { return a.Prompt - b.Prompt })
		end.Masks = len(rec.Masks)
	}
	err = w.add(ctx, filepath.Join(dir, recordName), func(out io.Writer) error {
		e := json.NewEncoder(out)
		e.SetIndent("", " ")
		return e.Encode(rec)
	})
	if err == nil {
		err = w.commit()
	}
	return end, err
}

// maskBytes bounds the memory for the masks of an image of the given size, and for its label image.
func (j *manyJob) maskBytes(size image.Point) int64 {
	if j.prompts == nil {
		return j.segmenter.EverythingMemory(size, explicit(j.all))
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
	return explicit(o).Check()
}

// explicit returns options that mean the values of the flags: in package segment, 0 stands for a default, and a
// negative bound for 0.
func explicit(o segment.EverythingOptions) segment.EverythingOptions {
	for _, v := range []*float64{&o.MinIoU, &o.MinStability, &o.MaxOverlap} {
		if *v == 0 {
			*v = -1
		}
	}
	return o
}

// key identifies what the masks of an image depend on: the model, the image's bytes and the request. Images of a folder
// must be regular files. A single image may also be a pipe, which cannot be read twice and has no key.
func (j *manyJob) key(ctx context.Context, s *session, path string) (string, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() && j.flags.folder == "" {
		return "", nil
	}
	f, st, err := regular.Open(path)
	if err != nil {
		return "", diag.New(code.Image, path, "%w", err)
	}
	defer f.Close()
	if st.Size() > imaging.MaxFile {
		return "", diag.New(code.Image, path, "has %d bytes; at most %d are allowed", st.Size(), imaging.MaxFile)
	}
	h := sha256.New()
	asked, err := json.Marshal([]any{s.model.Facts().Identity, s.host.Precision(), j.prompts, j.flags.mask, j.all})
	if err != nil {
		return "", err
	}
	h.Write(asked)
	switch _, err := io.Copy(h, io.LimitReader(ctxio.NewReader(ctx, f), imaging.MaxFile)); {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", diag.New(code.Image, path, "cannot be read: %w", unpath(err))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// done returns the record of a folder that has all masks of a key.
func done(dir, key string) (r record, ok bool) {
	raw, err := regular.ReadFile(filepath.Join(dir, recordName), maxPrompts)
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Key != key {
		return r, false
	}
	names := []string{}
	if r.Labels != "" {
		names = append(names, r.Labels)
	}
	for _, m := range r.Masks {
		names = append(names, m.File)
	}
	for _, name := range names {
		if st, err := os.Stat(filepath.Join(dir, filepath.Base(name))); err != nil || !st.Mode().IsRegular() {
			return r, false
		}
	}
	return r, true
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
		return fmt.Sprintf("%s in %s%s", cli.Count(masks, "mask", "masks"), j.dir, j.whyNone(masks, dropped))
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
	out := fmt.Sprintf("\ndropped: %d below --min-iou %g, %d others below --min-stability %g", d.Poor, j.all.MinIoU,
		d.Unstable, j.all.MinStability)
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
